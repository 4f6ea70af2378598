"""Tests of mutants of the oracle."""
