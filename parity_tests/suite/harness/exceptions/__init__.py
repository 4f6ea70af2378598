"""Tests of what is made of exceptions."""
