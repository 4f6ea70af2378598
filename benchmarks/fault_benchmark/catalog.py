"""The operators of the fault benchmark by name."""

from __future__ import annotations

from benchmarks.fault_benchmark import (
    activations,
    attention,
    indexing,
    normalization,
    products,
    reductions,
    sequences,
    subtle_rows,
    subtle_sequences,
)
from benchmarks.fault_benchmark.operator import Operator

FAMILIES = (attention, normalization, activations, reductions, products, sequences, indexing)
OPERATORS: dict[str, Operator] = {operator.name: operator for family in FAMILIES for operator in family.OPERATORS}
# Ten, one of them twice, with five mistakes each that are near a rounding of 16 bits.
SUBTLE: dict[str, Operator] = {
    each.name: each for family in (subtle_rows, subtle_sequences) for each in family.OPERATORS
}
