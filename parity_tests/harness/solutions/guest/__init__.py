"""The code of a solution's process: the standard library and PyTorch only, never JAX or another part of this package.

`start.py` is run by its path, and imports its neighbours without importing the packages around them. The judging side
uses `wire.py` and `values.py`, too, which both sides must agree on.
"""
