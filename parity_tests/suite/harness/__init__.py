"""Tests of the harness and of the command line: the court is tried before it judges."""
