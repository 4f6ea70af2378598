"""Tests of the package `jax_ref`: the oracle certifies itself before it judges anyone."""
