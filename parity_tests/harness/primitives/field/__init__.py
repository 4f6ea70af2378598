"""Finite fields: their arithmetic, the numbers that programs have in them, and the rules of primitives."""
