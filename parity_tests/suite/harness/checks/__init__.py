"""Tests of the checks, each with the mistakes that are planted for it."""
