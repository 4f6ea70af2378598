"""Tests of candidates in every framework, and of what they refuse."""
