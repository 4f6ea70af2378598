"""Operators of any rank, and large batches: their samples, and mistakes that only those show."""

from __future__ import annotations

from collections.abc import Callable

import jax
import pytest
import torch

from parity_tests import AxisSize, OpSpec, Verdict, integer
from parity_tests.harness.specs.samples import samples
from parity_tests.suite.harness._ops import judged
from parity_tests.suite.marks import fast

pytestmark = pytest.mark.usefixtures("certified_once")

RANKS = {"no_batch": 1, "two_batch_axes": 3, "three_batch_axes": 4}


def _softmax(x):
    return jax.nn.softmax(x, axis=-1)


SOFTMAX = OpSpec("softmax", _softmax, "(...,n)->(...,n)")


def _function(backward: Callable) -> Callable:
    class Softmax(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = torch.softmax(x, -1)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, *cotangents):
            return backward(*ctx.saved_tensors, *cotangents)

    return Softmax.apply  # type: ignore[return-value]


def _right(y, y_bar, axis: int = -1):
    return y * (y_bar - (y * y_bar).sum(axis, keepdim=True))


def _of_matrices(y, y_bar):
    """The axis counted from the front, as if all arrays were matrices."""
    return _right(y, y_bar, min(1, y.dim() - 1))


def _of_rows_or_more(y, y_bar):
    """A vector is taken for a column of rows with one entry each."""
    return _right(y[:, None], y_bar[:, None])[:, 0] if y.dim() == 1 else _right(y, y_bar)


def _of_one_grid(y, y_bar):
    """A block for each row, of which a grid has 65535 at most."""
    rows = _right(y, y_bar).reshape(-1, y.shape[-1])
    rows[2**16 - 1 :] = 0
    return rows.reshape(y.shape)


def test_the_samples_of_an_operator_of_any_rank():
    spec = OpSpec("op", lambda x, w: x * w, "(...,n,d),(d)->(...,n,d)")
    found = {sample.name: sample for sample in samples(spec, 0)}
    assert found["all_axes_differ"].shapes == ((4, 3, 5), (5,))
    assert found["no_batch"].shapes == ((4, 3), (3,))
    assert found["two_batch_axes"].shapes == ((4, 3, 5, 2), (2,))
    assert found["three_batch_axes"].shapes == ((4, 3, 5, 2, 7), (7,))
    assert found["large_batch"].shapes == ((2**16, 1, 1), (1,))
    assert all(found[name].first_order_only for name in (*RANKS, "large_batch"))
    assert {"zero_batch", "one_batch", "many_batch"} <= found.keys()


def test_an_elementwise_operator_of_any_rank_is_judged_at_a_scalar():
    found = {sample.name: sample.shapes for sample in samples(OpSpec("op", lambda x: x * x, "(...)->(...)"), 0)}
    assert found["no_batch"] == ((),)
    assert "large_batch" not in found  # of numbers, not of examples


@pytest.mark.parametrize(
    ("signature", "domains", "shapes"),
    [
        ("(...,d),(d)->(...)", {}, ((2**16, 2), (2,))),
        ("(...,n,d),(...,m,d)->(...,n,m)", {}, ((2**16, 1, 1), (2**16, 1, 1))),
        ("(...,d),(...)->(...)", {"rest": integer(0, 3)}, ((2**16, 2),)),
        ("(...,n,d),(d)->(...)", {"x": "orthogonal"}, None),
        ("(n,d),(n)->(n)", {}, None),
    ],
)
def test_when_there_is_a_large_batch(signature, domains, shapes):
    spec = OpSpec("op", lambda x, rest: x * x, signature, domains=domains)
    assert {s.name: s.shapes for s in samples(spec, 0)}.get("large_batch") == shapes


@fast("forward-bfloat16")
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("check", ["forward", "vjp"])
def test_right_code_of_any_rank_passes(check, dtype):
    assert judged(_function(_right), SOFTMAX, check, dtype).verdict is Verdict.PASS


@fast("_of_matrices-two_batch_axes")
@pytest.mark.parametrize(
    ("backward", "sample"),
    [(_of_rows_or_more, "no_batch"), (_of_matrices, "two_batch_axes"), (_of_one_grid, "large_batch")],
)
def test_a_mistake_at_one_rank_is_caught_there_alone(backward, sample):
    row = judged(_function(backward), SOFTMAX, "vjp", "float32")
    assert row.verdict is Verdict.MISMATCH
    assert row.failure is not None
    assert row.failure.sample == sample
    matrices = OpSpec("softmax", _softmax, "(n,d)->(n,d)")
    assert judged(_function(backward), matrices, "vjp", "float32").verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"sizes": "batch <= 3"}, "OpSpec op: sizes 'batch <= 3' names the axis 'batch'; the axes are n"),
        ({"params": {"count": AxisSize("batch")}}, "OpSpec op: params names the axis 'batch'; the axes are n"),
    ],
)
def test_a_leading_axis_that_may_be_absent_is_not_named(fields, text):
    with pytest.raises(ValueError, match=text):
        OpSpec("op", lambda x: x * x, "(...,n)->(...,n)", **fields)
