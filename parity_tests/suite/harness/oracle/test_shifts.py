"""Code that shifts its inputs first is judged alike, whether the primal shifts or not, and no mistake hides in that."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest
import torch

from parity_tests import OpSpec, Verdict, crosscheck
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.oracle.shifts import shifts
from parity_tests.harness.specs.samples import samples
from parity_tests.operators.operator import function
from parity_tests.suite.rotation import rotating

pytestmark = pytest.mark.usefixtures("certified_once")

FORMATS = ("float64", "float32", "float16", "bfloat16")


def projection(x):
    """max(x - t, 0), where t makes the sum 1: A. Martins, R. Astudillo, arXiv:1602.02068, proposition 1.

    Of x as it is, where implementations have it of x less its largest entry.
    """
    z = -jnp.sort(-x, axis=-1)
    count = jnp.arange(1, x.shape[-1] + 1, dtype=x.dtype)
    in_support = 1 + count * z > jnp.cumsum(z, axis=-1)
    t = (jnp.where(in_support, z, 0).sum(-1, keepdims=True) - 1) / in_support.sum(-1, keepdims=True).astype(x.dtype)
    return jnp.maximum(x - t, 0)


SPARSEMAX = OpSpec("sparsemax", projection, "(n,d)->(n,d)", sizes="d >= 1")


def threshold(x):
    """The number t for which max(x - t, 0) has the sum 1."""
    z = x.sort(-1, descending=True).values
    count = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype)
    sums = z.cumsum(-1) - 1
    size = (count * z > sums).sum(-1, keepdim=True)
    return sums.gather(-1, size - 1) / size.to(x.dtype)


def sparsemax(x, shift=lambda x: x.amax(-1, keepdim=True)):
    """The projection of x less a number of each row."""
    x = x - shift(x)
    return (x - threshold(x)).relu()


def gradient(x, w):
    """The cotangent of the support, less its mean there."""
    support = sparsemax(x) > 0
    mean = (w * support).sum(-1, keepdim=True) / support.sum(-1, keepdim=True).to(w.dtype)
    return torch.where(support, w - mean, 0)


def gradient_by_the_whole_row(x, w):
    """A mistake: the sum is taken over all of the row, and not over the support."""
    support = sparsemax(x) > 0
    mean = w.sum(-1, keepdim=True) / support.sum(-1, keepdim=True).to(w.dtype)
    return torch.where(support, w - mean, 0)


def not_shifted_back(x):
    """A mistake: the threshold of the shifted row is subtracted from the row as it was."""
    m = x.amax(-1, keepdim=True)
    return (x - threshold(x - m)).relu()


RIGHT = {"formula": function(sparsemax, gradient), "by autograd": sparsemax}
WRONG: dict[str, tuple[Callable, str]] = {
    "sum over the whole row": (function(sparsemax, gradient_by_the_whole_row), "vjp"),
    "shift not undone": (not_shifted_back, "forward"),
    # As right in exact numbers as any other shift, and of no use: it costs digits that nobody has to lose.
    "shift by far more than the row has": (lambda x: sparsemax(x, lambda x: x.amax(-1, keepdim=True) + 64), "forward"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize(
    ("dtype", "seed", "check"),
    [("float16", 0, "points"), ("float16", 1, "forward"), ("bfloat16", 3, "low_precision")],
    ids=lambda x: str(x),
)
def test_a_right_sparsemax_passes_where_the_bound_of_the_primal_alone_accuses_it(name, dtype, seed, check):
    report = crosscheck(RIGHT[name], SPARSEMAX, checks=[check], dtypes=[dtype], seed=seed)
    assert report.passed, str(report)


# A composition is not judged in forward mode: in float16, seed 2, rounding takes another entry into the support, and
# the tangent that follows is beyond the bound of every primal, whether it shifts or not.
@pytest.mark.slow
@rotating(3)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("name", "checks"), [("formula", None), ("by autograd", ["forward", "points", "vjp"])])
def test_a_right_sparsemax_passes_in_every_format(name, checks, seed):
    report = crosscheck(RIGHT[name], SPARSEMAX, checks=checks, dtypes=FORMATS, seed=seed)
    assert report.passed, str(report)


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_wrong_sparsemax_is_convicted(name, dtype):
    candidate, check = WRONG[name]
    report = crosscheck(candidate, SPARSEMAX, checks=[check], dtypes=[dtype], limits={})
    assert {row.verdict for row in report.rows if row.candidate != "oracle" and row.check == check} == {
        Verdict.MISMATCH
    }, str(report)


def normalized(x):
    x = x - x.mean(-1, keepdims=True)
    return x / jnp.sqrt(1e-5 + (x * x).mean(-1, keepdims=True))


@pytest.mark.parametrize(
    ("primal", "expected"),
    [
        (projection, {(1,)}),
        (lambda x: jnp.exp(x) / jnp.exp(x).sum(0), {(0,)}),
        (lambda x: jnp.exp(x) / jnp.exp(x).sum(), {(0, 1)}),
        (normalized, {(1,)}),
        (lambda x: jnp.log(jnp.exp(x).sum(-1, keepdims=True)) + 0 * x, set()),
        (lambda x: jax.nn.softmax(x, axis=-1), set()),
        (lambda x: jnp.clip(x, -1, 1), set()),
        (lambda x: x * jax.nn.softmax(x, axis=-1), set()),
    ],
    ids=[
        "sparsemax",
        "softmax of columns",
        "softmax of all",
        "normalization",
        "logsumexp",
        "a shift of its own",
        "clip",
        "product",
    ],
)
def test_the_shifts_that_change_nothing_are_found_and_no_others(primal, expected):
    spec = OpSpec("op", primal, "(n,d)->(n,d)")
    sample = next(iter(samples(spec, seed=0)))
    with pinned():
        assert {axes for _, axes in shifts(Oracle(spec, sample), sample)} == expected


@pytest.mark.slow
def test_a_shift_that_changes_something_at_the_point_excuses_nothing():
    """Rows beyond 100 are passed on, all others become 0: at random numbers no shift changes that."""
    spec = OpSpec("op", lambda x: jnp.where(x > 100, x, 0), "(n,d)->(n,d)")
    report = crosscheck(lambda x: torch.where(x > 100, x - x.amax(-1, keepdim=True), 0), spec, checks=["points"])
    assert not report.passed, str(report)
