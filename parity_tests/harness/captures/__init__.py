"""The values that a backward written in Python captures, read from its source. Imports nothing of the rest."""
