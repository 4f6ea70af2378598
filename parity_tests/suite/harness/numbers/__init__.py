"""Tests of formats, conversions, and of the settings of a comparison."""
