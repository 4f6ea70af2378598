"""Formats, settings and arrays: what both frameworks must agree on before numbers can be compared."""
