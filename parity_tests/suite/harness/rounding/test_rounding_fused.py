"""The bounds of sums that right code adds up in one go: a product of matrices that starts at another term."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests.harness.findings import Comparison
from parity_tests.harness.numbers import conversion
from parity_tests.harness.numbers.formats import PRECISIONS, Precision
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.rounding.analysis import bounded
from parity_tests.suite.marks import fast

F32, F64 = PRECISIONS["float32"], PRECISIONS["float64"]
SEEDS = 5
K = 4096


@pytest.fixture(autouse=True)
def full_precision():
    with pinned():
        yield


def from_the_first(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """c + a @ b with an accumulator that starts at c, one term after another."""
    total = c.clone()
    for k in range(a.shape[-1]):
        total = total + a[..., :, k : k + 1] * b[..., k : k + 1, :]
    return total


class Case(NamedTuple):
    """c + a @ b in JAX and in PyTorch, the shapes of c, a and b, and how many times too large the bound is at most.

    None of a library's product: whether it starts at c depends on the processor.
    """

    jax: Callable
    torch: Callable
    shapes: tuple[tuple[int, ...], ...]
    slack: float | None


CASES = {
    "from the first term": Case(lambda c, a, b: c + a @ b, from_the_first, ((3, 4), (3, K), (K, 4)), 24),
    "addmm": Case(lambda c, a, b: a @ b + c, torch.addmm, ((3, 4), (3, K), (K, 4)), None),
    "addmm, scaled": Case(
        lambda c, a, b: 0.5 * c - 3 * (a @ b),
        lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=-3),
        ((3, 4), (3, K), (K, 4)),
        None,
    ),
    "baddbmm": Case(lambda c, a, b: c + a @ b, torch.baddbmm, ((2, 3, 4), (2, 3, K), (2, K, 4)), None),
    "addmv": Case(lambda c, a, b: c + a.T @ b, lambda c, a, b: torch.addmv(c, a.T, b), ((3,), (K, 3), (K,)), None),
    "moved between": Case(
        lambda c, a, b: c - jnp.transpose(-jnp.einsum("ik,kj->ji", a, b)).reshape(3, 4),
        from_the_first,
        ((3, 4), (3, K), (K, 4)),
        24,
    ),
    "through a call": Case(
        lambda c, a, b: jax.jit(lambda s: s + c)(jax.jit(jnp.matmul)(a, b)),
        from_the_first,
        ((3, 4), (3, K), (K, 4)),
        24,
    ),
    "of two products": Case(
        lambda c, a, b: (a @ b + c) + a[:, ::-1] @ b,
        lambda c, a, b: from_the_first(from_the_first(c, a, b), a.flip(-1), b),
        ((3, 4), (3, K), (K, 4)),
        24,
    ),
    "a sum": Case(
        lambda c, a, b: c + (a * b).sum(0),
        lambda c, a, b: from_the_first(c[None, :], torch.ones_like(a[None, :, 0]), a * b)[0],
        ((4,), (K, 4), (K, 4)),
        24,
    ),
}


@fast("from the first term-float32", "addmm*", "baddbmm*", "addmv*")
@pytest.mark.parametrize("precision", [F32, F64], ids=lambda p: p.name)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_accumulator_may_start_at_the_largest_term(case: Case, precision: Precision):
    worst, relative_to_one = 0.0, 0.0
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        c, a, b = (precision.rounded(rng.standard_normal(shape)) for shape in case.shapes)
        args = [precision.rounded(1e6 * c), a, b]
        ((value, bound),) = bounded(jax.make_jaxpr(case.jax)(*args), *args, precision=precision)
        y = conversion.to_numpy(case.torch(*(conversion.to_torch(x, precision, "cpu") for x in args)))
        compared = Comparison("y", y, value, bound)
        assert compared.holds, seed
        worst = max(worst, compared.error_over_bound)
        # What the two roundings of the inputs and that of the sum explain, were c added at the end.
        relative_to_one = max(relative_to_one, float(np.max(compared.error / (5 * precision.u * np.abs(value)))))
    if case.slack is not None:
        assert 1 / worst <= case.slack
        assert relative_to_one > 1  # so that this was an alarm


def bound_of(f: Callable, *args: np.ndarray) -> np.ndarray:
    ((_, bound),) = bounded(jax.make_jaxpr(f)(*args), *args, precision=F32, inputs=0)
    return bound


def test_a_sum_of_sums_is_a_sum_of_all_terms():
    """Of rows that nearly cancel: who adds up all at once has the partial sums of one row in every rounding."""
    x = np.outer([1.0, -1.0], np.linspace(0.5, 1, 500)).T
    one, at_once = bound_of(lambda x: x.sum(1).sum(), x), bound_of(lambda x: x.sum(), x)
    np.testing.assert_allclose(one, at_once, rtol=1e-4)
    assert at_once > 100 * F32.u


def test_two_numbers_are_added_as_before():
    c, t = np.array([1000.0]), np.array([[0.5], [0.25]])
    alone = bound_of(lambda c, t: c + t[0], c, t)
    np.testing.assert_allclose(alone, F32.u * 1000.5, rtol=1e-6)
    of_three = bound_of(lambda c, t: c + t.sum(0), c, t)
    np.testing.assert_allclose(of_three, F32.u * (0.75 + 1000.75 + 3 * 1000.75), rtol=1e-6)


def test_what_is_masked_exactly_stays_exact():
    """Scores of attention with -inf added to them, and with a large number."""
    mask, q, k = np.array([[0.0, -np.inf], [0.0, 0.0]]), np.ones((2, 3)), np.full((3, 2), 0.5)
    bound = bound_of(lambda q, k: q @ k + mask, q, k)
    assert bound[0, 1] == 0
    assert np.isfinite(bound).all()


def test_a_term_that_is_dropped_is_noticed():
    rng = np.random.default_rng(0)
    c, a, b = (F32.rounded(rng.standard_normal(shape)) for shape in ((3, 4), (3, K), (K, 4)))
    args = [100 * c, a, b]
    ((value, bound),) = bounded(jax.make_jaxpr(lambda c, a, b: c + a @ b)(*args), *args, precision=F32)
    dropped = Comparison("y", args[0] + a[:, :-1] @ b[:-1], value, bound)
    assert not dropped.holds


def _centered_gradient(x, g):
    """The VJP of x minus its mean, over its spread: means of a row that are used for all of it, and summed again."""

    def normalized(x):
        c = x - x.mean(-1, keepdims=True)
        return c / jnp.sqrt((c * c).mean(-1, keepdims=True))

    return jax.vjp(normalized, x)[1](g)[0]


def test_a_sum_that_is_used_for_many_entries_is_computed_once():
    """With its terms counted once for each entry, this bound was 100000 times as large: wrong gradients passed."""
    rng = np.random.default_rng(0)
    x, g = (F32.rounded(rng.standard_normal((8, 256))) for _ in range(2))
    ((value, bound),) = bounded(jax.make_jaxpr(_centered_gradient)(x, g), x, g, precision=F32)
    assert (bound < 1e-3).all()
    a = torch.from_numpy(x).float()
    c = a - a.mean(-1, keepdim=True)
    r = (c * c).mean(-1, keepdim=True).rsqrt()
    n, h = c * r, torch.from_numpy(g).float()
    right = r * (h - h.mean(-1, keepdim=True) - n * (h * n).mean(-1, keepdim=True))
    assert (np.abs(right.double().numpy() - value) <= bound).all()
    without = r * (h - n * (h * n).mean(-1, keepdim=True))
    assert (np.abs(without.double().numpy() - value) > bound).any()
