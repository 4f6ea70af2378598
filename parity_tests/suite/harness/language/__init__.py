"""Tests of the language: programs run alike in every number system, and their values are JAX's."""
