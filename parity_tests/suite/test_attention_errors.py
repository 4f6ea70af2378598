"""What `dot_product_attention` refuses: JAX and PyTorch with the same words, before any work."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import jax_ref
import torch_impl
from parity_tests.harness.numbers.numerics import pinned

SHAPES = {"query": (2, 5, 4, 3), "key": (2, 6, 2, 3), "value": (2, 6, 2, 7)}


def called(f: Callable, convert: Callable, changes: dict) -> object:
    given = {name: np.ones(shape) for name, shape in SHAPES.items()} | changes
    return f(**{name: convert(x) if isinstance(x, np.ndarray) else x for name, x in given.items()})


BOTH = [
    ({"query": 1.0}, TypeError, "query must be an? (array|tensor), got float"),
    (
        {"key": np.ones((6, 3))},
        ValueError,
        r"key must have the axes \(..., S, K, H\), got 2 \(shape \(6, 3\)\)",
    ),
    ({"query": np.ones(SHAPES["query"], int)}, TypeError, "query has dtype int64; convert it to one of float64, fl"),
    ({"value": np.ones(SHAPES["value"], "float32")}, TypeError, "must share one dtype, got float64, float64 and flo"),
    ({"key": np.ones((1, 6, 2, 3))}, ValueError, r"the batch axes are \(2,\) in query but \(1,\) in key .* with \w+.v"),
    ({"key": np.ones((2, 6, 2, 8))}, ValueError, r"axis H is 3 in query but 8 in key .* make them equal"),
    ({"value": np.ones((2, 5, 2, 7))}, ValueError, r"axis S is 6 in key but 5 in value"),
    ({"value": np.ones((2, 6, 4, 7))}, ValueError, r"axis K is 2 in key but 4 in value"),
    ({"query": np.ones((2, 5, 3, 3))}, ValueError, r"axis N is 3 in query, which is no multiple of axis K, 2 in key"),
    ({"bias": np.ones((4, 6, 5))}, ValueError, r"bias has shape \(4, 6, 5\), .* to \(..., N, T, S\), \(2, 4, 5, 6\)"),
    ({"bias": np.ones((1, 2, 4, 5, 6))}, ValueError, r"bias has shape \(1, 2, 4, 5, 6\), which does not broadcast"),
    ({"bias": np.ones((5, 6), "float32")}, TypeError, "bias must have the dtype of query, float64, got float32; conv"),
    ({"mask": np.ones((5, 6))}, TypeError, r"mask must be of booleans, got float64; compare it \(mask > 0\) or add it"),
    ({"mask": np.ones((5, 5), bool)}, ValueError, r"mask has shape \(5, 5\), which does not broadcast"),
    ({"query_seq_lengths": np.ones(2)}, TypeError, "query_seq_lengths must be of integers, got float64"),
    ({"key_value_seq_lengths": np.ones(3, int)}, ValueError, r"must have the batch axes of query, \(2,\), got \(3,\)"),
]
OF_JAX = [
    ({"scale": "1"}, TypeError, "scale must be one finite number, got '1'"),
    ({"scale": float("nan")}, TypeError, "scale must be one finite number, got nan"),
    ({"scale": [1.0, 2.0]}, TypeError, "multiply the query by anything else"),
    ({"implementation": "flash"}, ValueError, "implementation is 'flash'; give 'matrix', 'blockwise' or None"),
    ({"implementation": "blockwise", "return_attn": True}, ValueError, "'blockwise' never holds attn, so that it cann"),
    ({"block_size": 0}, ValueError, "block_size must be a positive integer, got 0; 512 is the default"),
]


@pytest.mark.parametrize(("changes", "error", "message"), BOTH)
@pytest.mark.parametrize(
    ("f", "convert"),
    [
        pytest.param(torch_impl.dot_product_attention, torch.as_tensor, id="torch"),
        pytest.param(jax_ref.dot_product_attention, jnp.asarray, id="jax"),
    ],
)
def test_refused_in_both(f: Callable, convert: Callable, changes: dict, error: type, message: str) -> None:
    with pinned(), pytest.raises(error, match=f"^dot_product_attention: .*{message}"):
        called(f, convert, changes)


@pytest.mark.parametrize(("changes", "error", "message"), OF_JAX)
def test_refused_in_jax(changes: dict, error: type, message: str) -> None:
    with pinned(), pytest.raises(error, match=f"^dot_product_attention: .*{message}"):
        called(jax_ref.dot_product_attention, jnp.asarray, changes)


def test_a_traced_scale_is_one_number() -> None:
    x = jnp.ones((5, 2, 3))
    with pytest.raises(TypeError, match=r"scale must be one floating-point number, got float32 of shape \(2,\)"):
        jax.eval_shape(lambda scale: jax_ref.dot_product_attention(x, x, x, scale=scale), jnp.ones(2))


def test_a_bias_of_more_bits_than_float32_is_refused() -> None:
    x = jnp.ones((5, 2, 3), "bfloat16")
    for dtype, said in (
        ("float16", "bfloat16 or float32, got float16"),
        ("float64", "bfloat16 or float32, got float64"),
    ):
        with pinned(), pytest.raises(TypeError, match=f"bias must have the dtype of query, {said}"):
            jax_ref.dot_product_attention(x, x, x, jnp.ones((5, 5), dtype))


def test_what_is_right_is_not_refused() -> None:
    for f, convert in (
        (torch_impl.dot_product_attention, torch.as_tensor),
        (functools.partial(jax.eval_shape, jax_ref.dot_product_attention), jnp.asarray),
    ):
        with pinned():
            output = called(f, convert, {"bias": np.ones((4, 1, 6)), "mask": np.ones((5, 6), bool)})
            assert tuple(output.shape) == (2, 5, 4, 7)
