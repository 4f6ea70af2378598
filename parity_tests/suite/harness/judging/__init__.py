"""Tests of verdicts, of what a run consists of, and of reproducers."""
