"""A hundred models of PyTorch's packages, converted to JAX: `python -m benchmarks.models`."""
