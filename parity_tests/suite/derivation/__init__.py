"""Tests of `derivation`: the engine, the pages against JAX and SymPy, and with errors planted in them."""
