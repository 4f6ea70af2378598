"""Arithmetic contracts: bounds of float32 inside, of stored intermediates, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax.ad_checkpoint import checkpoint_name

from gradparity import Arithmetic, OpSpec, OracleError, Verdict, crosscheck
from parity_tests.harness.language.values import evaluate
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.rounding.analysis import bounded
from parity_tests.harness.rounding.stored import stored

SHORT = [PRECISIONS["bfloat16"], PRECISIONS["float16"]]
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


@pytest.mark.parametrize("p", SHORT, ids=lambda p: p.name)
def test_a_stored_number_is_between_the_roundings_of_both_ends(p):
    x = np.array([1.0, 1.0 + p.u, 1.0 + 1.9 * p.u, 3.0, 0.0, np.inf])
    e = np.array([0.0, 0.0, 0.0, 1e-9, 0.0, 0.0])
    _, bound = stored((x, e), p)
    assert bound[0] == bound[3] == bound[4] == bound[5] == 0.0  # exact in the format, and 3 +- 1e-9 rounds to 3
    assert bound[1] == p.u  # halfway between two numbers
    assert 0 < bound[2] < 0.2 * p.u


@pytest.mark.parametrize("p", SHORT, ids=lambda p: p.name)
def test_what_underflows_may_be_lost(p):
    _, bound = stored((np.array([p.smallest, 0.0]), np.zeros(2)), p)
    assert bound[0] >= p.tiny
    assert bound[1] == 0.0


def test_what_may_overflow_has_no_bound_and_raises_no_warning():
    """As the derivatives of a loop of many steps, of which float32 knows nothing any more."""
    _, bound = stored((np.array([1.0, 1.0]), np.array([1e30, 0.0])), PRECISIONS["float16"])
    assert bound[0] == np.inf
    assert bound[1] == 0.0


def _attn(q, k, v):
    attn = checkpoint_name(jnp.tanh(q @ k.T), "scores")
    return attn @ v, attn


def _vjp(q, k, v, output_bar, attn_bar):
    return jax.vjp(_attn, q, k, v)[1]((output_bar, attn_bar))


def _in_float32(p, keeps=False, takes=False):
    """attn's VJP in float32, results rounded; also attn before it is used again, or the operands of products."""

    def rounded(x, rounds):
        return p.rounded(np.asarray(x, np.float64)).astype(np.float32) if rounds else x

    def product(a, b):
        return rounded(a, takes) @ rounded(b, takes)

    def backward(*args):
        q, k, v, output_bar, attn_bar = (np.asarray(x, np.float32) for x in args)
        attn = rounded(np.tanh(q @ k.T), keeps)
        P = (1 - attn * attn) * (attn_bar + output_bar @ v.T)
        return [
            rounded(x, True).astype(np.float64) for x in (product(P, k), product(P.T, q), product(attn.T, output_bar))
        ]

    return backward


def _is_within(results, bounds):
    return all((np.abs(y - x) <= e).all() for y, (x, e) in zip(results, bounds, strict=True))


@pytest.mark.parametrize("p", SHORT, ids=lambda p: p.name)
def test_each_contract_bounds_its_own_arithmetic_and_is_tighter_than_the_next(p):
    rng = np.random.default_rng(0)
    args = [p.rounded(rng.standard_normal(shape)) for shape in [(40, 16), (40, 16), (40, 16), (40, 16), (40, 40)]]
    kept = Arithmetic("float32", stored=("scores",))
    contracts = Arithmetic("float32"), kept, replace(kept, operands=True), Arithmetic("format")
    with pinned():
        closed = jax.make_jaxpr(_vjp)(*args)
        values = {"attn": evaluate(jax.make_jaxpr(_attn)(*args[:3]), *args[:3])[1]}
        found = [bounded(closed, *args, precision=p.under(contract), values=values) for contract in contracts]
        by_value = bounded(closed, *args, precision=p.under(Arithmetic("float32", ("attn",))), values=values)
    for bounds, rounds in zip(found, ({}, {"keeps": True}, {"takes": True}), strict=False):
        results = _in_float32(p, **rounds)(*args)
        assert _is_within(results, bounds)
        assert _is_within(results, found[0]) is not bool(rounds)
    for bounds in zip(*found, strict=True):
        sums = [e.sum() for _, e in bounds]
        assert sums == sorted(sums)
        assert len({*sums}) == len(sums)
    for (_, a), (_, b) in zip(found[1], by_value, strict=True):
        np.testing.assert_array_equal(a, b)


class _Slight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.float().tanh().to(x.dtype)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        y = x.float().tanh()
        return (g.float() * (1 - y * y) * 1.01).to(g.dtype)


def _rounded_once(x):
    return x.float().tanh().to(x.dtype)


def _spec(arithmetic=None):
    return OpSpec("tanh", jnp.tanh, "(n)->(n)", dtypes=["bfloat16"], arithmetic=arithmetic)


@pytest.mark.slow
def test_a_stated_contract_convicts():
    judged = {"checks": ["forward", "vjp"], "progress": False}
    candidates = {"right": _rounded_once, "slight": _Slight.apply}
    report = crosscheck(candidates, _spec(Arithmetic("float32")), **judged)
    verdicts = {(row.candidate, row.check): row.verdict for row in report.rows}
    assert verdicts["right", "forward"] is verdicts["right", "vjp"] is verdicts["slight", "forward"] is Verdict.PASS
    assert verdicts["slight", "vjp"] is Verdict.MISMATCH
    lenient = crosscheck(candidates, _spec({"right": Arithmetic("float32")}), **judged)
    assert not [row for row in lenient.rows if row.verdict is Verdict.MISMATCH]


def test_a_contract_that_cannot_be_used():
    with pytest.raises(ValueError, match='inside must be "float32" or "format", got 32'):
        Arithmetic(32)
    with pytest.raises(TypeError, match="stored must be a sequence of names"):
        Arithmetic(stored="attn")
    with pytest.raises(ValueError, match="omit stored"):
        Arithmetic("format", stored=("attn",))
    with pytest.raises(ValueError, match="omit operands"):
        Arithmetic("format", operands=True)
    with pytest.raises(TypeError, match="arithmetic must be an Arithmetic, such as"):
        _spec("float32")
    with pytest.raises(ValueError, match="arithmetic names the candidate 'other'; the candidates are mine"):
        crosscheck({"mine": torch.tanh}, _spec({"other": Arithmetic()}), progress=False)
    with pytest.raises(OracleError, match=r"arithmetic names 'attn' as stored; the outputs and named .* are output"):
        crosscheck(torch.tanh, _spec(Arithmetic(stored=("attn",))), progress=False)
