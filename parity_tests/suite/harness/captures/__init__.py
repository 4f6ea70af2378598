"""Tests of the reader of sources."""
