"""Special points: every way to break there is caught, and every choice that a kink leaves is a convention."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.nn import functional

from parity_tests import OpSpec, Verdict, crosscheck
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.oracle.points import placements
from parity_tests.harness.specs.samples import samples
from parity_tests.operators.operator import function
from parity_tests.suite.harness._ops import judged
from parity_tests.suite.marks import fast, marks
from parity_tests.suite.rotation import rotating

pytestmark = pytest.mark.usefixtures("certified_once")

ELEMENTWISE = "(n,m)->(n,m)"


def spec(primal, signature=ELEMENTWISE, **fields) -> OpSpec:
    return OpSpec("op", primal, signature, **fields)


def backward(forward, formula):
    """A Function with a forward and a gradient of its own; forward mode is left out."""
    return function(forward, lambda x, w: formula(x, w))


def norm(x):
    """The Euclidean norm of the rows, with the gradient 0 at 0."""
    square = jnp.sum(x * x, axis=-1)
    positive = square > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1.0)), 0.0)


def relative_exponential(x):
    """(exp(x) - 1) / x, near 0 by its Taylor series: with the value alone there, the derivative at 0 would be 0."""
    near = jnp.abs(x) < 2.0**-10
    safe = jnp.where(near, 1.0, x)
    return jnp.where(near, 1 + x / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5))), jnp.expm1(safe) / safe)


def _exp_ratio(x):
    safe = torch.where(x == 0, 1.0, x)
    return torch.where(x == 0, 1 + x / 2, (torch.exp(safe) - 1) / safe)


def _squared_gaps_of_distinct_rows(x):
    """The squared distances of neighbouring rows, 0 where the rows seem to be the same."""
    squares = (x[1:] - x[:-1]).square().sum(-1)
    return torch.where(functional.cosine_similarity(x[1:], x[:-1], eps=0.0) > 0.95, 0 * squares, squares)


MISTAKES = {  # how the operator is wrong, in which dtype, and what the report says of the point
    "sign is x / |x|": (spec(jnp.abs), backward(torch.abs, lambda x, w: w * x / x.abs()), "float64", "x is 0"),
    "slope 2 at the kink": (
        spec(jnp.abs),
        backward(torch.abs, lambda x, w: torch.where(x == 0, 2 * w, w * torch.sign(x))),
        "float64",
        "x is 0",
    ),
    "the gradient of a norm is x / |x|": (
        spec(norm, "(n,m)->(n)"),
        backward(
            lambda x: torch.linalg.vector_norm(x, dim=-1),
            lambda x, w: w[:, None] * x / torch.linalg.vector_norm(x, dim=-1, keepdim=True),
        ),
        "float64",
        "x is 0",
    ),
    "every one of the largest gets the whole gradient": (
        spec(lambda x: jnp.max(x, axis=-1), "(n,m)->(n)"),
        backward(lambda x: x.amax(-1), lambda x, w: (x == x.amax(-1, keepdim=True)) * w[:, None]),
        "float64",
        "x is 0",
    ),
    "a product is divided by its factors": (
        spec(lambda x: jnp.prod(x, axis=-1), "(n,m)->(n)"),
        backward(lambda x: x.prod(-1), lambda x, w: (w * x.prod(-1))[:, None] / x),
        "float64",
        "x is 0",
    ),
    "sin(x) / x": (spec(jnp.sinc), lambda x: torch.sin(torch.pi * x) / (torch.pi * x), "float64", "x is 0"),
    "a gradient that is 0 / 0 where the oracle's own cancels nearby": (
        spec(jnp.sinc),
        backward(torch.sinc, lambda x, w: w * (torch.cos(torch.pi * x) - torch.sinc(x)) / x),
        "float64",
        "x is 0",
    ),
    "exp(x) - 1 for small x": (spec(relative_exponential), _exp_ratio, "float64", "x is tiny"),
    "log of an exponential": (spec(jax.nn.softplus), lambda x: torch.log(1 + torch.exp(x)), "float64", "x is large"),
    "logarithm of a softmax": (
        spec(lambda x: jax.nn.log_softmax(x, axis=-1)),
        lambda x: torch.log(torch.softmax(x, -1)),
        "float64",
        "x is large",
    ),
    "a softmax without its maximum": (
        spec(lambda x: jax.nn.softmax(x, axis=-1)),
        lambda x: torch.exp(x) / torch.exp(x).sum(-1, keepdim=True),
        "float64",
        "x is large",
    ),
    "exponentials in a gradient": (
        spec(jax.nn.sigmoid),
        backward(torch.sigmoid, lambda x, w: w * torch.exp(-x) / (1 + torch.exp(-x)) ** 2),
        "float64",
        "x is large",
    ),
    "a mask that is a factor": (
        spec(jax.nn.relu, input_names=("x",), domains={"x": "extended"}),
        lambda x: x * (x > 0),
        "float64",
        "x has -infinity",
    ),
    "a distance of equal points": (
        spec(lambda x, y: norm(x - y), "(n,m),(n,m)->(n)"),
        lambda x, y: (x - y).square().sum(-1).sqrt(),
        "float64",
        "is 0",
    ),
    "rows that point almost the same way are taken for the same": (
        spec(lambda x: jnp.sum((x[1:] - x[:-1]) ** 2, axis=-1), "(n,16)->(k)", sizes="k = n - 1, n >= 2"),
        _squared_gaps_of_distinct_rows,
        "float64",
        "x has correlated rows",
    ),
    "a mistake at a threshold": (
        spec(lambda x: jnp.clip(x, -1.5, 0.75)),
        backward(lambda x: x.clamp(-1.5, 0.75), lambda x, w: w * torch.where(x == 0.75, -1.0, (x > -1.5) & (x < 0.75))),
        "float64",
        "x has the program's own numbers (-1.5, 0.75)",
    ),
    "a mistake at a kink that is declared": (
        spec(lambda x: jnp.abs(x * x - 4), kinks={"x": (2.0, -2.0)}),
        backward(
            lambda x: (x * x - 4).abs(),
            lambda x, w: torch.where(x == 2, 20 * w, 2 * x * w * torch.sign(x * x - 4)),
        ),
        "float64",
        "x is at its kinks",
    ),
    "a matrix with equal eigenvalues": (
        spec(lambda A: jnp.trace(A @ A), "(n,n)->()", domains={"A": "symmetric"}),
        lambda A: torch.linalg.eigh(A)[0].square().sum() + 0 * torch.linalg.eigh(A)[1].sum(),
        "float64",
        "A is 0",
    ),
}


@fast("sign is x / |x|")
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_caught_at_its_point(name):
    operator, call, dtype, where = MISTAKES[name]
    row = judged(call, operator, "points", dtype)
    assert row.verdict is Verdict.MISMATCH, row
    assert row.failure is not None
    assert where in row.failure.wrong[0].circumstance


RIGHT = {
    "relu": (spec(jax.nn.relu), torch.relu),
    "the slope of relu at 0 is 1": (
        spec(jax.nn.relu),
        backward(torch.relu, lambda x, w: torch.where(x >= 0, w, 0 * w)),
    ),
    "the slope of |x| at 0 is 0": (spec(jnp.abs), torch.abs),  # in JAX it is 1
    "a maximum of two": (spec(jnp.maximum, "(n,m),(n,m)->(n,m)"), lambda x, y: torch.where(x >= y, x, y)),
    "the first of the largest": (
        spec(lambda x: jnp.max(x, axis=-1), "(n,m)->(n)"),
        lambda x: torch.max(x, dim=-1).values,
    ),
    "a norm": (spec(norm, "(n,m)->(n)"), lambda x: torch.linalg.vector_norm(x, dim=-1)),
    "a norm without a gradient at 0": (
        spec(lambda x: jnp.linalg.norm(x, axis=-1), "(n,m)->(n)"),
        lambda x: torch.linalg.vector_norm(x, dim=-1),
    ),
    "a sort with ties": (spec(lambda x: jnp.sort(x, axis=-1)), lambda x: torch.sort(x, dim=-1).values),
    "a clamp": (spec(lambda x: jnp.clip(x, -1.5, 0.75)), lambda x: x.clamp(-1.5, 0.75)),
    "a pooling": (
        spec(lambda x: jnp.max(x.reshape(-1, 3, 2), -1), "(n,6)->(n,3)"),
        lambda x: functional.max_pool1d(x, 2),
    ),
    "a singular matrix": (spec(jnp.linalg.inv, "(n,n)->(n,n)"), torch.linalg.inv),
    "roots of tiny squares": (
        spec(lambda x, y: jnp.sqrt(x * x + y * y + 1e-3), "(n),(n)->(n)"),
        lambda x, y: torch.sqrt(x * x + y * y + 1e-3),
    ),
}


@rotating(5)
@fast("relu-float64")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_one_raises_no_alarm(name, dtype):
    operator, call = RIGHT[name]
    row = judged(call, operator, "points", dtype)
    assert row.verdict is Verdict.PASS, row


CORRELATED, DECAYING = "has correlated rows", "decays slowly"


@pytest.mark.parametrize(
    ("domain", "kinds", "holds"),
    [
        ("real", {CORRELATED, DECAYING}, np.isfinite),
        ("positive", {CORRELATED, DECAYING}, lambda x: x > 0),
        ("nonzero", {DECAYING}, lambda x: x != 0),
        ("unit", {CORRELATED}, lambda x: (x > 0) & (x < 1)),
    ],
)
def test_correlated_rows_and_a_slow_decay_stay_in_the_domain(domain, kinds, holds):
    operator = spec(lambda x: x * x, domains={"x": domain})
    sample = next(sample for sample in samples(operator, 0) if sample.generic)
    with pinned():
        placed = {each.kind: each.primals[0] for each in placements(Oracle(operator, sample), sample, FLOAT64)}
    assert {CORRELATED, DECAYING} & {*placed} == kinds
    for kind in kinds:
        assert holds(placed[kind]).all()
        assert len(np.unique(placed[kind])) == placed[kind].size


def test_a_convention_is_reported_and_no_mismatch():
    operator, call = RIGHT["the slope of |x| at 0 is 0"]
    report = crosscheck(call, operator, checks=["points"], dtypes=["float64"], name="mine")
    (row,) = (row for row in report.rows if row.check == "points")
    assert row.passed
    assert row.conventions
    assert row.conventions[0].startswith("x_bar (x is 0) is ")
    assert "mine, a convention in points: x_bar (x is 0) is " in str(report)
    assert report.from_dict(report.as_dict()).rows == report.rows


def test_a_binding_convention_is_no_choice():
    bound = spec(jnp.abs, conventions={"x": "1, as JAX has it"})
    assert judged(torch.abs, bound, "points").verdict is Verdict.MISMATCH


def test_that_a_nan_does_not_come_through_is_a_convention():
    row = judged(lambda x: torch.where(x > 0, x, torch.zeros_like(x)), spec(jax.nn.relu), "points")
    assert row.passed
    assert "output (x has a NaN) is a number in 1 entries where the oracle has NaN" in row.conventions


def test_inputs_that_are_given_have_no_special_points():
    row = judged(torch.abs, OpSpec("abs", jnp.abs, inputs=(torch.ones(3),)), "points")
    assert (row.verdict, row.reason) == (
        Verdict.SKIPPED,
        "the inputs are given; special points are made from a signature",
    )
    row = judged(
        torch.abs, OpSpec("abs", jnp.abs, "(n)->(n)", domains={"x": lambda rng, shape: rng.random(shape)}), "points"
    )
    assert (row.verdict, row.reason) == (Verdict.SKIPPED, "no special points are known of the inputs' domains")


def test_a_difference_at_an_infinity_is_a_convention_of_operators_of_real_numbers():
    row = judged(lambda x: x * (x > 0), spec(jax.nn.relu, input_names=("x",)), "points")
    assert row.passed, row
    assert "output (x has -infinity) is nan where the oracle has 0" in row.conventions


# Small integers.


EXACT = {
    "a bias in the last bit": (
        spec(lambda x: x * x),
        backward(torch.square, lambda x, w: torch.nextafter(2 * x * w, torch.full_like(x, 1e30))),
    ),
    "a factor of 1 + 1e-16": (
        spec(lambda x, y: x @ y, "(n,k),(k,m)->(n,m)"),
        lambda x, y: (x @ y) * (1 + 2.3e-16),
    ),
}


@fast("a bias in the last bit")
@pytest.mark.parametrize("name", EXACT)
def test_what_a_tolerance_hides_is_caught(name):
    operator, call = EXACT[name]
    assert judged(call, operator, "forward").verdict is Verdict.PASS
    assert judged(call, operator, "vjp").verdict is Verdict.PASS
    row = judged(call, operator, "exact")
    assert row.verdict is Verdict.MISMATCH
    assert row.failure is not None
    assert row.failure.wrong[0].allowed == 0


@rotating(5)
@fast("square-float64", "relu-*")
@pytest.mark.parametrize("dtype", marks(["float64", "bfloat16"], ["float64", "float32", "bfloat16", "float16"]))
@pytest.mark.parametrize(
    ("operator", "call"),
    [
        pytest.param(spec(lambda x, y: x @ y, "(n,k),(k,m)->(n,m)"), torch.matmul, id="matmul"),
        pytest.param(spec(lambda x: 0.5 * x * x), lambda x: x * x / 2, id="half a square"),
        pytest.param(
            spec(lambda x, y: (x - y) ** 2, "(n),(n)->(n)"), lambda x, y: x * x - 2 * x * y + y * y, id="square"
        ),
        pytest.param(spec(jax.nn.relu), torch.relu, id="relu"),
        pytest.param(
            spec(lambda q, k: jnp.tanh(q @ k.T), "(n,d),(m,d)->(n,m)"), lambda q, k: torch.tanh(q @ k.T), id="tanh"
        ),
    ],
)
def test_integers_are_exact_in_every_format(operator, call, dtype):
    row = judged(call, operator, "exact", dtype)
    assert row.verdict is Verdict.PASS, row
    assert row.comparisons > 0


def test_where_everything_is_rounded_nothing_is_compared():
    row = judged(torch.exp, spec(jnp.exp), "exact")
    assert (row.verdict, row.reason) == (
        Verdict.SKIPPED,
        "at small integers every result is zero, or has to be rounded",
    )


@fast("float64")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_both_ends_are_judged_of_a_vector_of_one_sign(dtype):
    """The seed's four numbers are positive; log(x + sqrt(1 + x * x)) loses all digits where x is large and negative."""
    operator = spec(jnp.asinh, "(n)->(n)")

    def logarithm(x):
        z = x.double()
        return (z + torch.sqrt(1 + z * z)).clamp_min(1e-15).log().to(x.dtype)

    assert judged(torch.asinh, operator, "points", dtype).verdict is Verdict.PASS
    assert judged(logarithm, operator, "points", dtype).verdict is Verdict.MISMATCH
