"""Bounds of rounding errors: what the rules of the families share."""
