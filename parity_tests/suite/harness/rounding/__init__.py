"""Tests of the error analysis: right code meets the bounds, and they are not idle."""
