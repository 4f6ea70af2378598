"""Tests of one candidate at one sample: layouts, empty axes, and formats that have no number for a value."""
