"""Tests of judging in other processes."""
