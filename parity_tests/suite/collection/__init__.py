"""Operators that people write derivatives of, each with a right version and with mistakes: data, one file per group."""

from parity_tests.suite.collection import (
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
from parity_tests.suite.collection._case import Case as Case

GROUPS = (elementwise, reductions, products, norms, probabilities, indexing, matrices, attention, protocol)
COLLECTION: dict[str, Case] = {name: case for group in GROUPS for name, case in group.CASES.items()}

# Further ones, judged with the slow tests only.
SLOW_GROUPS = (
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
MORE: dict[str, Case] = {name: case for group in SLOW_GROUPS for name, case in group.CASES.items()}
