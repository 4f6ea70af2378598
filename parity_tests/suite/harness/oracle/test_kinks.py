"""Kinks that are met by chance: every choice is a convention there, at every check, and a mistake is still one."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.nn import functional

from parity_tests import OpSpec, Verdict, crosscheck
from parity_tests.harness.oracle import kinks
from parity_tests.operators.operator import function
from parity_tests.suite.harness._ops import judged, rows
from parity_tests.suite.rotation import rotating

pytestmark = pytest.mark.slow

CHECKS = ("vjp", "vjp_of_vjp", "layouts", "linearity", "input_subsets", "vmap")


def ties(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Every other one is -1, 0 or 1, so that many are 0 and many are equal."""
    return np.where(rng.random(shape) < 0.5, rng.integers(-1, 2, shape), rng.standard_normal(shape))


def spec(primal: Callable, signature: str = "(n,m)->(n,m)") -> OpSpec:
    return OpSpec("op", primal, signature, domains=dict.fromkeys(inspect.signature(primal).parameters, ties))


def maximum(first: Callable, second: Callable) -> Callable:
    """max(x, y), whose gradients are the cotangent times two masks."""
    return function(torch.maximum, lambda x, y, w: (w * first(x, y).to(w.dtype), w * second(x, y).to(w.dtype)))


MAXIMUM = spec(lambda x, y: jnp.maximum(x, y), "(n,m),(n,m)->(n,m)")
LARGEST = spec(lambda x: jnp.max(x, axis=-1) ** 2, "(n,m)->(n)")

RIGHT = {
    "the first of two": (MAXIMUM, maximum(torch.ge, torch.lt)),
    "the second of two": (MAXIMUM, maximum(torch.gt, torch.le)),
    "the square of the larger": (
        spec(lambda x, y: jnp.maximum(x, y) ** 2, "(n,m),(n,m)->(n,m)"),
        lambda x, y: torch.where(x >= y, x, y) ** 2,
    ),
    "the first of the largest": (LARGEST, lambda x: torch.max(x, dim=-1).values ** 2),
    "all of the largest": (LARGEST, lambda x: x.amax(-1) ** 2),
    "a slope of 1": (spec(lambda x: jnp.maximum(x, 0.0)), lambda x: torch.where(x >= 0, x, 0 * x)),
    "a slope of 0": (spec(lambda x: jnp.abs(x)), torch.abs),
    "a slope of 1 beside a steep slope": (
        spec(lambda x: jnp.maximum(x, 0.0) + 2.0**12 * x**2),
        lambda x: torch.where(x >= 0, x, 0 * x) + 2.0**12 * x**2,
    ),
    "a sort": (spec(lambda x: jnp.sort(x, axis=-1) ** 3), lambda x: torch.sort(x, dim=-1).values ** 3),
    "a pooling": (
        spec(lambda x: jnp.max(x.reshape(-1, 3, 2), -1), "(n,6)->(n,3)"),
        lambda x: functional.max_pool1d(1 * x, 2),  # of x negated lazily PyTorch takes the maxima of -x
    ),
}
WRONG = {
    "both of two": (MAXIMUM, maximum(torch.ge, torch.le), "vjp"),
    "none of two": (MAXIMUM, maximum(torch.gt, torch.lt), "vjp"),
    "a slope of 2": (
        spec(lambda x: jnp.abs(x)),
        function(torch.abs, lambda x, w: w * torch.where(x == 0, 2, x.sign())),
        "vjp",
    ),
    "wrong where there is no tie": (MAXIMUM, maximum(torch.ge, lambda x, y: 0.5 * (x < y)), "vjp"),
    "wrong at second order, where there is no tie": (
        spec(lambda x, y: jnp.maximum(x, y) ** 2, "(n,m),(n,m)->(n,m)"),
        function(
            lambda x, y: torch.maximum(x, y) ** 2,
            lambda x, y, w: (2 * x.detach() * w * (x >= y), 2 * y.detach() * w * (x < y)),
        ),
        "vjp_of_vjp",
    ),
}


@rotating(3)
@pytest.mark.parametrize("name", RIGHT)
def test_a_choice_is_no_mismatch(name: str):
    operator, call = RIGHT[name]
    report = crosscheck(call, operator, checks=CHECKS, dtypes=["float64"])
    assert report.passed, report
    assert {row.verdict for row in rows(report)} == {Verdict.PASS}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_one(name: str):
    operator, call, check = WRONG[name]
    assert judged(call, operator, check).verdict is Verdict.MISMATCH


def test_a_smooth_result_is_convicted_without_its_limits(monkeypatch: pytest.MonkeyPatch):
    """Even if it is wrong by less than it changes nearby; at a kink they are computed."""
    computed = []
    whole = kinks.limits_along
    monkeypatch.setattr(kinks, "limits_along", lambda *args: computed.append(args) or whole(*args))
    sine = function(torch.sin, lambda x, w: w * torch.cos(x) * (1 + 1e-10))
    assert judged(sine, spec(jnp.sin), "vjp").verdict is Verdict.MISMATCH
    assert not computed
    assert judged(maximum(torch.ge, torch.lt), MAXIMUM, "vjp").verdict is Verdict.PASS
    assert computed


def test_a_wrong_oracle_is_found_out_at_a_kink():
    """Beside it, where a right derivative's Taylor remainder has its rate."""
    right = dataclasses.replace(MAXIMUM, vjp=lambda x, y, w: (w * (x >= y), w * (x < y)))
    assert crosscheck(torch.maximum, right, checks=["vjp"], dtypes=["float64"]).passed
    wrong = dataclasses.replace(MAXIMUM, vjp=lambda x, y, w: (w * (x >= y), 2 * w * (x < y)))
    report = crosscheck(torch.maximum, wrong, checks=["vjp"], dtypes=["float64"])
    reasons = [row.reason for row in report.rows if row.verdict is not Verdict.PASS]
    assert reasons[0].startswith("y_bar: explicit formula against autodiff of the primal: differs by ")


def test_the_ties_are_met():
    """What the choices above are a choice of: the oracle's own halves are reported as the other side."""
    row = judged(maximum(torch.ge, torch.lt), MAXIMUM, "vjp")
    assert any("x_bar (sample " in line for line in row.conventions)


def test_rounding_makes_ties():
    """Normal numbers, of which some are equal when rounded."""
    dtype = "bfloat16"
    operator = OpSpec("maximum", jnp.maximum, "(n),(n)->(n)")
    row = judged(maximum(torch.ge, torch.lt), operator, "vjp", dtype)
    assert row.verdict is Verdict.PASS, row
    assert row.conventions
    # A sum of thousands hides a few that count twice, in bfloat16. Special points in float64 do not.
    assert judged(maximum(torch.ge, torch.le), operator, "points").verdict is Verdict.MISMATCH
