"""Tests of the report in every form."""
