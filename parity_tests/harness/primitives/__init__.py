"""The primitives of JAX: a record for each, in the file of its family, with all that is known of it.

    registry    the record, and what the others ask of it
    parameters  how a rule takes the parameters of its equation
    value       what the values in NumPy have in common, and `evaluated`, the value of an equation
    bound       what the bounds of rounding errors have in common
    exact       what the values in many bits have in common
    field       what the rules in finite fields have in common: the arithmetic of residues, and the numbers

Every other file is a family. They are imported here, so that whoever asks for a record finds all of them.
"""

from parity_tests.harness.primitives import (
    arithmetic,
    bits,
    comparisons,
    elementary,
    extrema,
    gamma,
    indexing,
    matrix,
    moves,
    order,
    spectral,
    sums,
)

FAMILIES = (arithmetic, bits, comparisons, elementary, extrema, gamma, indexing, matrix, moves, order, spectral, sums)
