"""Judging in other processes, so that a candidate that crashes or hangs costs its own rows only."""
