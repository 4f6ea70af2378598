"""The operators by name: each one that stands in the file of a family."""

from types import ModuleType

from parity_tests.operators import (
    activations,
    attention,
    elementwise,
    fused,
    indexing,
    kernel_shaped,
    matrices,
    matrix_functions,
    mixed_numbers,
    model,
    modules,
    networks,
    norms,
    objectives,
    probabilities,
    products,
    protocol,
    quantiles,
    reductions,
    refusals,
    returned,
    sequences,
    sizes_and_domains,
    special_points,
    spectra,
    subtle_rows,
    subtle_sequences,
    surrogates,
)
from parity_tests.operators.operator import Operator


def operators_of(*families: ModuleType) -> dict[str, Operator]:
    """Return the operators that stand in these files, by the names that they have there.

    Raises:
        ValueError: two have the same name.
    """
    named = [(name, x) for family in families for name, x in vars(family).items() if isinstance(x, Operator)]
    found = dict(named)
    if len(found) != len(named):
        raise ValueError("two operators of the catalogue have the same name")
    return found


def _at_samples(*families: ModuleType) -> dict[str, Operator]:
    """The operators whose samples the harness makes: the others are judged at the inputs that their formulas draw."""
    return {name: operator for name, operator in operators_of(*families).items() if operator.spec.signature}


def _with_formulas(*families: ModuleType) -> dict[str, Operator]:
    """The operators with formulas, by the names that they have in results."""
    return {x.formulas.name: x for x in operators_of(*families).values() if x.formulas is not None}


_MANY = (
    *(activations, elementwise, reductions, products, norms, probabilities, indexing, sequences, matrices, attention),
    *(protocol, fused, networks, objectives, spectra, matrix_functions, quantiles, model, modules, special_points),
    *(surrogates, mixed_numbers, returned, refusals, sizes_and_domains, kernel_shaped),
)
# Operators that people write derivatives of, which the suite judges.
COLLECTION = _at_samples(*_MANY)
# Those with faults of a backward, which the benchmark of faults judges by the rules that people use.
MEASURED = _with_formulas(*_MANY)
# Ten, one of them twice, with five mistakes each that are near a rounding of 16 bits.
SUBTLE = _with_formulas(subtle_rows, subtle_sequences)
