"""Tests of `derivation`: the pages against JAX and SymPy, and with errors planted in them."""
