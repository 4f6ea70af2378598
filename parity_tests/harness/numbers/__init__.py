"""Formats, settings and array conversions on which both frameworks must agree before numbers can be compared."""
