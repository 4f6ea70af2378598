"""The sizes of a kernel's blocks: samples at their edges, and mistakes that only those show."""

from __future__ import annotations

import math

import jax.numpy as jnp
import pytest
import torch

from parity_tests import OpSpec, Verdict
from parity_tests.harness.specs.samples import samples
from parity_tests.suite.harness._ops import judged
from parity_tests.suite.marks import fast

pytestmark = pytest.mark.usefixtures("certified_once")

EDGES = ("block_plus_1", "block_minus_1", "one_block", "three_blocks", "prime_size")
BLOCK = 200  # beyond the tails of 33 and 191 that every operator is judged at, and no divisor of 2048


def _edges(spec: OpSpec) -> dict[str, dict[str, int]]:
    return {s.name: dict(s.sizes) for s in samples(spec, 0) if s.name.startswith(EDGES)}


def test_all_axes_with_blocks_are_at_their_edges_together():
    spec = OpSpec("op", lambda x, y: x @ y, "(n,d),(d,m)->(n,m)", blocks={"n": 64, "m": 16})
    assert _edges(spec) == {
        "block_plus_1": {"n": 65, "d": 3, "m": 17},
        "block_minus_1": {"n": 63, "d": 3, "m": 15},
        "one_block": {"n": 64, "d": 3, "m": 16},
        "three_blocks": {"n": 192, "d": 3, "m": 48},
        "prime_size": {"n": 163, "d": 3, "m": 41},
    }
    assert all(s.first_order_only for s in samples(spec, 0) if s.name in EDGES)


def test_large_blocks_are_taken_one_axis_at_a_time():
    spec = OpSpec("op", lambda x: x * x, "(n,m)->(n,m)", blocks={"n": 256, "m": 512})
    small = {"block_minus_1", "one_block"}  # which have 2**17 entries at most
    assert set(_edges(spec)) == small | {f"{edge}_{axis}" for edge in EDGES if edge not in small for axis in "nm"}


def test_rules_of_sizes_leave_out_what_a_kernel_does_not_take():
    spec = OpSpec("op", lambda x: x * x, "(n)->(n)", sizes="n % 64 == 0, n >= 64", blocks={"n": 64})
    assert next(samples(spec, 0)).sizes == {"n": 64}  # so that "one_block" would be judged twice
    assert _edges(spec) == {"three_blocks": {"n": 192}}


def _mean(x, w):
    return jnp.sum(x * w * w, axis=0) / x.shape[0]


MEAN = OpSpec("mean", _mean, "(n,d),(n,d)->(d)", blocks={"n": BLOCK})


def _kernel(count, rows=lambda n: n) -> torch.autograd.Function:
    """A mean, whose backward divides by `count(n)`, and has no gradient in the rows after the first `rows(n)`."""

    class Mean(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return (x * w * w).mean(0)

        @staticmethod
        def backward(ctx, *cotangents):
            x, w = ctx.saved_tensors
            n = x.shape[0]
            y_bar = torch.zeros_like(x)
            y_bar[: rows(n)] = cotangents[0] / count(n)
            return y_bar * w * w, 2 * y_bar * x * w

    return Mean.apply  # type: ignore[return-value]


RIGHT = _kernel(lambda n: n)
MISTAKES = {
    "one_block": _kernel(lambda n: n if n % BLOCK else n + BLOCK),  # a full block has an empty one after it
    "block_minus_1": _kernel(lambda n: n, lambda n: n - 1 if n % BLOCK == BLOCK - 1 else n),
    "block_plus_1": _kernel(lambda n: n, lambda n: n - 1 if n > BLOCK and n % BLOCK == 1 else n),
    "three_blocks": _kernel(lambda n: n, lambda n: n - BLOCK if n == 3 * BLOCK else n),
    "prime_size": _kernel(lambda n: math.ceil(n / BLOCK) * BLOCK if 2 * BLOCK < n < 3 * BLOCK else n),
}


@fast("forward-bfloat16")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("check", ["forward", "vjp"])
def test_right_code_passes(check, dtype):
    assert judged(RIGHT, MEAN, check, dtype).verdict is Verdict.PASS


@pytest.mark.slow
@pytest.mark.parametrize("edge", MISTAKES)
def test_a_mistake_at_an_edge_is_caught_there_alone(edge):
    row = judged(MISTAKES[edge], MEAN, "vjp", "float32")
    assert row.verdict is Verdict.MISMATCH
    assert row.failure is not None
    assert row.failure.sample == edge
    without = OpSpec("mean", _mean, "(n,d),(n,d)->(d)")
    assert judged(MISTAKES[edge], without, "vjp", "float32").verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        (
            {"blocks": {"k": 64}},
            ValueError,
            "OpSpec op: blocks names 'k'; the axes with sizes of their own are n",
        ),
        ({"blocks": {"m": 64}, "sizes": "m = 2*n"}, ValueError, "OpSpec op: blocks names 'm'; the axes"),
        ({"blocks": {"n": 1}}, ValueError, r'OpSpec op: blocks\["n"\] must be 2 or more, got 1'),
        ({"blocks": {"n": 64.0}}, TypeError, r'OpSpec op: blocks\["n"\] must be an integer, such as 64, got 64.0'),
    ],
)
def test_a_field_that_cannot_be_used(fields, error, text):
    signature = "(n),(m)->(n)" if "sizes" in fields else "(n),(n)->(n)"
    with pytest.raises(error, match=text):
        OpSpec("op", lambda x, y: x * x, signature, **fields)
