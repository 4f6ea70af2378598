"""Finite fields: what the rules of the families share.

`fields` has the arithmetic, `numbers` the numbers, `constants` those that a formula's constants stand for; `rules` the
rules by kind, and `functions`, `orders` and `factorizations` those that the records of the families name.
"""
