"""Linear recurrences: the bounds hold for scans in groups, and for autograd through them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import OpSpec, Verdict, crosscheck
from parity_tests.harness.language.interpret import interpret
from parity_tests.harness.rounding.regrouped import Magnitudes, is_recurrence
from parity_tests.suite.marks import marks

STEPS = 64


def recurrence(a, b):
    def one(h, ab):
        h = ab[0] * h + ab[1]
        return h, h

    return jax.lax.scan(one, jnp.zeros_like(b[0]), (a, b))[1]


def in_groups(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The same by doubling the number of steps that each entry covers."""
    reach = 1
    while reach < len(a):
        b = torch.cat([b[:reach], b[reach:] + a[reach:] * b[:-reach]])
        a = torch.cat([a[:reach], a[reach:] * a[:-reach]])
        reach *= 2
    return b


def with_a_decay_that_is_off(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return in_groups(a * (1 + 2.0**-13), b)


def judged(call, seed: int, dtype: str = "float32") -> Verdict:
    rng = np.random.default_rng(seed)
    inputs = (rng.uniform(0.5, 1, (STEPS, 256)), rng.standard_normal((STEPS, 256)))
    report = crosscheck(
        call, OpSpec("recurrence", recurrence, inputs=inputs), checks=["vjp"], dtypes=[dtype], seed=seed
    )
    (row,) = (row for row in report.rows if row.candidate != "oracle")
    return row.verdict


@pytest.mark.slow
@pytest.mark.parametrize("seed", marks([0, 1], range(6)))
def test_a_parallel_scan_raises_no_alarm(seed):
    """Without the allowance autograd through it is accused at every seed."""
    assert judged(in_groups, seed) is Verdict.PASS


@pytest.mark.slow
def test_a_wrong_one_is_a_mismatch():
    assert judged(with_a_decay_that_is_off, 0) is Verdict.MISMATCH


def _body(f, *args) -> jax.extend.core.ClosedJaxpr:
    return jax.make_jaxpr(f)(*args)


def test_magnitudes_are_added_up_whatever_the_signs():
    with jax.enable_x64(True):
        jaxpr = _body(lambda h, a, b: a * h - 2 * b, 1.0, 1.0, 1.0)
    assert is_recurrence(jaxpr.jaxpr)
    assert interpret(jaxpr, [np.asarray(x) for x in (3.0, 0.5, 4.0)], Magnitudes()) == [9.5]


def test_a_sum_over_the_state_is_a_product_with_ones():
    with jax.enable_x64(True):
        jaxpr = _body(lambda h, c: (c * h).sum(), np.array([3.0, -1.0]), np.array([2.0, 5.0]))
    assert is_recurrence(jaxpr.jaxpr)
    assert interpret(jaxpr, [np.array([3.0, 1.0]), np.array([2.0, 5.0])], Magnitudes()) == [11.0]


@pytest.mark.parametrize(
    "f",
    [lambda h, x: jnp.tanh(h + x), lambda h, x: jnp.maximum(h, x), lambda h, x: h / x],
    ids=["tanh", "maximum", "quotient"],
)
def test_other_loops_are_no_recurrences(f):
    assert not is_recurrence(_body(f, 1.0, 1.0).jaxpr)
