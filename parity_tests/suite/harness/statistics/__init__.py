"""Tests of parity_tests.harness.statistics."""
