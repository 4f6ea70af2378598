"""Tests of what a failure is said to look like."""
