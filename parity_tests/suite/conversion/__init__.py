"""Tests of functions and modules of PyTorch in JAX."""
