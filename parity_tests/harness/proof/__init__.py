"""Equality of two programs, proved in finite fields: no rounding, no tolerance, no dtype.

Two formulas of sums, products and quotients that agree at a random point of a field of p elements are the same formula,
but for a probability of at most their degree / p (Schwartz and Zippel). `fields` has the arithmetic, `numbers` the
domain in which `language.interpret` runs a program, `constants` the numbers that a formula's constants stand for, and
`proof` the proof.
"""
