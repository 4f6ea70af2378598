"""Equal inputs: the slope at a tie is a convention, and one that is declared is the only one that is right."""

from __future__ import annotations

import jax.numpy as jnp
import pytest
import torch

from parity_tests import OpSpec, Verdict
from parity_tests.operators.operator import function
from parity_tests.suite.harness._ops import judged

pytestmark = pytest.mark.usefixtures("certified_once")


def of(domain, primal, signature, **fields) -> OpSpec:
    """An operator of x, or of x and y, all of this domain."""
    names = ("x", "y")[: signature.partition("->")[0].count("(")]
    return OpSpec("op", primal, signature, input_names=names, domains=dict.fromkeys(names, domain), **fields)


# The total variation distance, whose slope at x = y may be anything from -1/2 to 1/2.


def _total_variation(x, y):
    """With the slope 0 at x = y, where the two branches meet."""
    d = jnp.where(x == y, 1.0, x - y)
    return jnp.sum(jnp.where(x == y, 0.0, jnp.abs(d)), -1) / 2


def _variation_with(slope_at_ties):
    def backward(x, y, w):
        x_bar = torch.where(x == y, slope_at_ties(x), torch.sign(x - y) / 2) * w[..., None]
        return x_bar, -x_bar

    return function(lambda x, y: (x - y).abs().sum(-1) / 2, backward)


TIES = {  # the slope at ties; is it one that the kink allows?
    "0": (lambda x: 0 * x, True),
    "-1/2": (lambda x: 0 * x - 0.5, True),  # as in a kernel that compares with ">"
    "2": (lambda x: 0 * x + 2, False),
}


@pytest.mark.slow
@pytest.mark.parametrize("slope", TIES)
@pytest.mark.parametrize("domain", ["probabilities", "unit", "positive", "real"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_a_slope_at_ties_is_told_and_a_convention_that_is_declared_binds(slope, domain, dtype):
    call, is_allowed = _variation_with(TIES[slope][0]), TIES[slope][1]
    free = of(domain, _total_variation, "(n,m),(n,m)->(n)", sizes="m >= 2")
    row = judged(call, free, "points", dtype)
    assert row.verdict is (Verdict.PASS if is_allowed else Verdict.MISMATCH), row
    assert bool(row.conventions) is (slope == "-1/2")
    binding = of(domain, _total_variation, "(n,m),(n,m)->(n)", sizes="m >= 2", conventions={"x": "0", "y": "0"})
    row = judged(call, binding, "points", dtype)
    assert row.verdict is (Verdict.PASS if slope == "0" else Verdict.MISMATCH), row


@pytest.mark.slow
def test_a_convention_of_an_oracle_without_a_number_accepts_no_number_but_those_of_the_kink():
    """The root of x² has the derivative 0/0 at 0 in JAX: nothing that is declared can be looked up there."""
    operator = of("real", lambda x: jnp.sqrt(x * x), "(n)->(n)", conventions={"x": "0 at 0"})
    assert judged(torch.abs, operator, "points").verdict is Verdict.PASS
    far_off = function(torch.abs, lambda x, w: torch.where(x == 0, 7 * w, w * torch.sign(x)))
    row = judged(far_off, operator, "points")
    assert row.verdict is Verdict.MISMATCH, row


def _sorted_by(descending):
    """A sort; of equal numbers the last one comes first if it is done in descending order."""
    if not descending:
        return lambda x: torch.sort(x, dim=-1, stable=True).values
    return lambda x: torch.sort(x, dim=-1, descending=True, stable=True).values.flip(-1)


@pytest.mark.slow
def test_a_convention_binds_where_numbers_are_sorted():
    free = of("real", lambda x: jnp.sort(x, axis=-1), "(n,m)->(n,m)")
    binding = of("real", lambda x: jnp.sort(x, axis=-1), "(n,m)->(n,m)", conventions={"x": "in JAX's order"})
    for descending, verdict in ((False, Verdict.PASS), (True, Verdict.MISMATCH)):
        row = judged(_sorted_by(descending), free, "points")
        assert row.verdict is Verdict.PASS, row
        row = judged(_sorted_by(descending), binding, "points")
        assert row.verdict is verdict, row
