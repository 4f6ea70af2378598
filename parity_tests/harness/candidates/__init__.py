"""Candidates: callables of PyTorch or JAX, and the maps that the framework makes of them."""
