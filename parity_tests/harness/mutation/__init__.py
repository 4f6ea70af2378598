"""Mutants of an oracle's derivatives, and the checks that catch them."""
