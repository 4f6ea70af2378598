"""Functions of `jax_ref.aten` at edges that neither PyTorch's samples nor calls of our own have: empty, equal, special.

Values are PyTorch's, and gradients, too: at ties they are a convention, which is to be the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from jax_ref import aten
from parity_tests.sweep.certification import certify
from parity_tests.sweep.recorded_calls import RecordedCall, as_numpy

DOUBLE = torch.float64
TIES = torch.tensor([1.0, 1.0, 0.0, 2.0, 2.0], dtype=DOUBLE)
TWO, EMPTY = torch.tensor([2, 3]), torch.tensor([0, 5, 0])
TABLE = torch.tensor([[0.5, -1.0], [2.0, 0.25], [-0.75, 3.0], [1.5, 1.0]], dtype=DOUBLE)
ROWS = torch.tensor([1, 2, 2, 0, 3, 1])
SPECIAL = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 3e-308, 1e308, 1, -0.75], dtype=DOUBLE)
MIXED = torch.tensor([-2.0, -0.875, 0.625, 0.125, 0.375, -0.125, 5.0, 0.0], dtype=DOUBLE)
GRAD = torch.ops.aten._cdist_backward.default._schema.arguments[0].name  # PyTorch 2.15 calls it grad_output
Call = tuple[str, Mapping[str, Any], str | None]  # of an operator: its arguments, and the one that is differentiated


def _segments(data: torch.Tensor, reduce: str, lengths: torch.Tensor, **given: Any) -> Call:
    return "segment_reduce", {"data": data, "reduce": reduce, "lengths": lengths, **given}, "data"


def _bag(mode: int, offsets: list[int], of: str = "weight", **given: Any) -> Call:
    whole = {"weight": TABLE, "indices": ROWS, "offsets": torch.tensor(offsets), "mode": mode, **given}
    return "_embedding_bag", whole, of


def _distances(p: float) -> Call:
    x1, x2 = TABLE.reshape(1, 4, 2), TABLE.flip(0).reshape(2, 1, 2, 2)
    arguments = {GRAD: torch.ones(2, 1, 4, 2, dtype=DOUBLE), "x1": x1, "x2": x2, "p": p}
    return "_cdist_backward", arguments | {"cdist": torch.cdist(x1, x2, p=p)}, None


def _masked(mask: list[list[bool]]) -> Call:
    return (
        "_masked_softmax",
        {"self": TABLE.T.contiguous(), "mask": torch.tensor(mask), "dim": 1, "mask_type": 2},
        "self",
    )


CALLS: dict[str, Call] = {
    **{f"{kind} of ties": _segments(TIES, kind, TWO) for kind in ("max", "min", "prod")},
    **{f"{kind} of ties with the initial number": _segments(TIES, kind, TWO, initial=1.0) for kind in ("max", "min")},
    **{f"{kind} of empty segments": _segments(TIES, kind, EMPTY) for kind in ("sum", "mean", "max", "min", "prod")},
    "mean of empty segments with an initial number": _segments(TIES, "mean", EMPTY, initial=1.5),
    "segments of rows without entries": ("segment_reduce", _segments(torch.zeros(5, 0), "sum", TWO)[1], None),
    "segments of no rows": ("segment_reduce", _segments(torch.zeros(0, 2), "max", TWO * 0)[1], None),
    "a bag of which all are padding": _bag(1, [0, 1, 3], padding_idx=2),
    "empty bags": _bag(1, [0, 2, 2, 6]),
    "the last offset": _bag(0, [0, 2, 6], include_last_offset=True),
    "weights of the samples": _bag(0, [0, 2, 4], of="per_sample_weights", per_sample_weights=MIXED[:6] / 4),
    "equal maxima": _bag(2, [0, 3], weight=torch.ones(4, 2, dtype=DOUBLE)),
    "frequencies that are equal": _bag(0, [0], indices=torch.tensor([1, 1, 3, 3]), scale_grad_by_freq=True),
    "a row whose entries are all hidden": _masked([[True] * 4, [False, True, False, False]]),
    "mantissas of special numbers": ("frexp.Tensor", {"self": SPECIAL}, None),
    "numbers that are quantized out of bounds": (
        "fake_quantize_per_tensor_affine_cachemask",
        {"self": MIXED, "scale": 0.25, "zero_point": 1, "quant_min": -3, "quant_max": 3},
        "self",
    ),
    "zero points that are no integers": (
        "fake_quantize_per_channel_affine_cachemask",
        {"self": MIXED[None], "scale": torch.tensor([0.25]), "zero_point": torch.tensor([0.5])}
        | {"axis": 0, "quant_min": -3, "quant_max": 3},
        "self",
    ),
    "lengths that are equal": (
        "_pack_padded_sequence",
        {"input": TABLE.reshape(2, 2, 2), "lengths": torch.tensor([2, 2]), "batch_first": True},
        "input",
    ),
    "distances of no batch": (
        "_cdist_backward",
        {GRAD: torch.zeros(0, 4, 4), "x1": TABLE.float(), "x2": torch.zeros(0, 4, 2), "p": 1.5}
        | {"cdist": torch.zeros(0, 4, 4)},
        None,
    ),
    **{f"distances of batches that broadcast, p = {p}": _distances(p) for p in (0.0, 1.5, 2.0)},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_values_and_gradients_are_pytorch_s(name):
    operator, arguments, of = CALLS[name]
    packet, _, overload = operator.partition(".")
    function = getattr(getattr(torch.ops.aten, packet), overload or "default")
    given = {key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in arguments.items()}
    if of is not None:
        given[of].requires_grad_()
    results = function(**given)
    several = results if isinstance(results, tuple) else (results,)
    plain = {key: as_numpy(value) for key, value in arguments.items()}
    call = RecordedCall(f"aten::{operator}", plain, tuple(map(as_numpy, several)), "by hand")
    assert certify(aten.OPERATORS[call.name], call, derivatives=False) == []
    if of is not None:
        cotangent = torch.linspace(0.5, 2, several[0].numel(), dtype=DOUBLE).reshape(several[0].shape)
        (right,) = torch.autograd.grad(several[0], given[of], cotangent)
        np.testing.assert_allclose(_gradient(call, of, cotangent.numpy()), right, rtol=1e-14, atol=1e-15)


def _gradient(call: RecordedCall, of: str, cotangent: np.ndarray) -> np.ndarray:
    """JAX's gradient of the first result."""

    def first(x: jax.Array) -> jax.Array:
        results = aten.OPERATORS[call.name](**{**call.arguments, of: x})
        return results[0] if isinstance(results, tuple) else results

    with jax.enable_x64(True):
        return np.asarray(jax.vjp(first, jnp.asarray(call.arguments[of]))[1](jnp.asarray(cotangent))[0])
