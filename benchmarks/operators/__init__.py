"""A hundred operators of PyTorch, judged as a user would: `python -m benchmarks.operators`."""
