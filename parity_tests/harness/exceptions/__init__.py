"""Exceptions: whose they are, where they were raised, and how they are described in a line."""
