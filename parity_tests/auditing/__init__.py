"""A training step of PyTorch, of which each operator is judged with the numbers that it had there."""
