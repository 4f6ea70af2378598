"""Every explicit formula against JAX's autodiff of the plain primal, in float64."""

import itertools

import numpy as np
import pytest

import jax_ref
from parity_tests.suite.jax_ref._cases import ALL_DIFFER, FORMULAS, Formula, Sizes, draw, quick_jit, same
from parity_tests.suite.marks import fast

SIZES = {
    "all_axes_differ": ALL_DIFFER,  # a transposed or swapped axis
    "more_queries_than_keys": Sizes(n=5, m=2, d=3, e=4),  # an axis that fits only while n < m or e < d
    "all_axes_equal": Sizes(n=4, m=4, d=4, e=4),  # a product that is right only because no other fits
    "one_query": Sizes(n=1, m=5, d=4, e=2),  # a broadcast over n
    "one_key": Sizes(n=3, m=1, d=4, e=2),  # a broadcast over m
    "one_feature": Sizes(n=3, m=5, d=1, e=1),  # a broadcast over d or e
    "all_axes_one": Sizes(n=1, m=1, d=1, e=1),  # an axis that is dropped
    "no_query": Sizes(n=0, m=5, d=4, e=2),
    "no_key": Sizes(n=3, m=0, d=4, e=2),
    "no_feature": Sizes(n=3, m=5, d=0, e=0),
}

every_size = pytest.mark.parametrize("sizes", [pytest.param(sizes, id=name) for name, sizes in SIZES.items()])


@every_size
def test_the_primal_is_numpy_s(sizes: Sizes):
    """Autodiff of the primal certifies the formulas, so the primal itself needs a witness that is not JAX."""
    q, k, v = draw(sizes, "q k v", seed=1)
    attn = np.tanh(q @ k.T)
    same(quick_jit(jax_ref.attn_primal)(q, k, v), (attn @ v, attn), zeros=0 in sizes)


@fast("all_axes_differ", "no_key")
@every_size
def test_formulas_equal_autodiff(sizes: Sizes):
    """All six maps at once: one compilation for the formulas, one for autodiff."""
    args = {name: draw(sizes, formula.arguments, seed=2) for name, formula in FORMULAS.items()}
    explicit = quick_jit(lambda args: {name: FORMULAS[name].explicit(*args[name]) for name in FORMULAS})
    autodiff = quick_jit(lambda args: {name: FORMULAS[name].autodiff(*args[name]) for name in FORMULAS})
    same(explicit(args), autodiff(args), zeros=0 in sizes)


@fast("attn_jvp", "attn_vjp", "attn_vjp_of_jvp")
@pytest.mark.parametrize("formula", [pytest.param(formula, id=name) for name, formula in FORMULAS.items()])
def test_absent_directions_are_zeros(formula: Formula):
    """Every subset of absent directions: the result is that of zeros in their place, and None just where it is zero."""
    args = draw(ALL_DIFFER, formula.arguments, seed=3)
    primals, directions = args[:3], args[3:]
    dense, autodiff = quick_jit(formula.explicit), quick_jit(formula.autodiff)
    for present in itertools.product((True, False), repeat=len(directions)):
        subset = list(zip(formula.directions, directions, present, strict=True))
        absent = [name for name, _, there in subset if not there]
        with_zeros = [x if there else np.zeros_like(x) for _, x, there in subset]
        reference = autodiff(*primals, *with_zeros)
        try:
            same(dense(*primals, *with_zeros), reference, zeros=True)
            results = formula.explicit(*primals, *(x if there else None for _, x, there in subset))
            same(results, reference, zeros=True)
            assert [x is None for x in results] == [not np.any(x) for x in reference], "None where zero, nowhere else"
        except AssertionError as error:
            raise AssertionError(f"without {absent}: {error}") from None
