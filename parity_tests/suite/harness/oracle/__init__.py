"""Tests of the oracle, its certificates, and of points where a derivative is not one number."""
