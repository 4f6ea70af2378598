"""The operators by name: each one that stands in the file of a family."""

from types import ModuleType

from parity_tests.operators import (
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
    sizes_and_domains,
    special_points,
    spectra,
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


# Operators that people write derivatives of, which the suite judges.
COLLECTION = operators_of(
    elementwise, reductions, products, norms, probabilities, indexing, matrices, attention, protocol
)
# Further ones, judged with the slow tests only.
MORE = operators_of(
    fused,
    networks,
    objectives,
    spectra,
    matrix_functions,
    quantiles,
    model,
    modules,
    special_points,
    surrogates,
    mixed_numbers,
    returned,
    refusals,
    sizes_and_domains,
    kernel_shaped,
)
