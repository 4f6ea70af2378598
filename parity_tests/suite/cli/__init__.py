"""Tests of the command line and of where cases come from."""
