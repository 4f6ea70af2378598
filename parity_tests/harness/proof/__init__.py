"""Equality of two programs, proved in finite fields: no rounding, no tolerance, no dtype.

Two formulas of sums, products and quotients that agree at a random point of a field of p elements are the same formula,
but for a probability of at most their degree / p (Schwartz and Zippel). `run` runs each program once with numbers of
hundreds of digits, which decide the branches and show differences. `domain` is the domain in which `language.interpret`
runs a program along that run, and `proof` the proof. `primitives.field` has the arithmetic, the numbers, and those that
a formula's constants stand for; the rules of the primitives stand in their records.
"""
