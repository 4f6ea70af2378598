"""jax_ref.aten refuses calls that PyTorch refuses: axes that there are not, arguments out of an operator's range."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from jax_ref import aten
from parity_tests.suite.marks import fast

X = np.random.default_rng(0).standard_normal((2, 3, 4))
INDEX, PLACES = np.zeros(X.shape, int), np.array([0, 1])

# The arguments of an operator along an axis.
ALONG: dict[str, Callable[[int], tuple]] = {
    **dict.fromkeys(
        (
            "softmax.int", "log_softmax.int", "_safe_softmax", "cumsum", "cumprod", "logcumsumexp", "cummax", "cummin",
            "sort", "argsort", "mode", "median.dim", "nanmedian.dim", "unsqueeze", "unbind.int", "prod.dim_int",
            "argmax", "argmin", "max.dim", "min.dim", "squeeze.dim", "all.dim", "any.dim", "slice.Tensor",
        ),
        lambda dim: (X, dim),
    ),
    **dict.fromkeys(
        (
            "sum.dim_IntList", "nansum", "mean.dim", "amax", "amin", "logsumexp", "count_nonzero.dim_IntList",
            "var.correction", "std.correction", "flip",
        ),
        lambda dim: (X, [dim]),
    ),
    **dict.fromkeys(("linalg_vector_norm", "norm.ScalarOpt_dim"), lambda dim: (X, 2, [dim])),
    **dict.fromkeys(("topk", "kthvalue"), lambda dim: (X, 1, dim)),
    **dict.fromkeys(("split.Tensor", "chunk"), lambda dim: (X, 1, dim)),
    **dict.fromkeys(("cat", "stack"), lambda dim: ([X, X], dim)),
    **dict.fromkeys(("_softmax", "_log_softmax"), lambda dim: (X, dim, False)),
    "glu": lambda dim: (np.ones((2, 2, 2)), dim),
    "_masked_softmax": lambda dim: (X, X > 0, dim),
    "_softmax_backward_data": lambda dim: (X, X, dim, torch.float64),
    "index_select": lambda dim: (X, dim, PLACES),
    "index_fill.int_Scalar": lambda dim: (X, dim, PLACES, 1.0),
    "gather": lambda dim: (X, dim, INDEX),
    "scatter_add": lambda dim: (X, dim, INDEX, X),
    "select.int": lambda dim: (X, dim, 0),
    "narrow": lambda dim: (X, dim, 0, 1),
    "roll": lambda dim: (X, [1], [dim]),
    "transpose.int": lambda dim: (X, dim, 0),
    "movedim.int": lambda dim: (X, 0, dim),
    "permute": lambda dim: (np.ones((1, 1, 1)), [0, 1, dim]),
    "diagonal": lambda dim: (X, 0, dim, 0),
    "diag_embed": lambda dim: (X, 0, dim, 0),
    "flatten.using_ints": lambda dim: (X, 0, dim),
    "unflatten.int": lambda dim: (X, dim, [-1]),
    "unfold": lambda dim: (X, dim, 1, 1),
    "renorm": lambda dim: (X, 2, dim, 1.0),
    "cosine_similarity": lambda dim: (X, X, dim),
    "select_scatter": lambda dim: (np.ones((2, 2, 2)), np.ones((2, 2)), dim, 0),
}  # fmt: skip

REFUSED: dict[str, tuple] = {
    "sum.dim_IntList": (X, [0, 0]),
    "trace": (X,),
    "slice.Tensor": (X, 0, 0, 2, -1),
    "smooth_l1_loss": (X, X, 1, -1.0),
    "huber_loss": (X, X, 1, 0.0),
    "linalg_cross": (X, X),
    "layer_norm": (X, [3]),
    "avg_pool1d": (X, [5]),
    "max_pool2d": (X, [4, 4]),
    "relu": (X + 1j,),
    "sign": (X + 1j,),
    "fmax": (X + 1j, X),
    "fmin": (X + 1j, X),
    "maximum": (X + 1j, X),
    "minimum": (X + 1j, X),
    "mm": (X[0], X[0].T.astype(np.float32)),
    "bmm": (X, X.swapaxes(1, 2).astype(np.float32)),
    "mv": (X[0], X[0, 0].astype(np.float32)),
    "dot": (X[0, 0], X[0, 0].astype(np.float32)),
    "addmm": (X[0, :, :3].astype(np.float32), X[0], X[0].T),
    "linear": (X, X[0].astype(np.float32)),
    "index_put": (X, [PLACES], X.astype(np.float32)),
}


@pytest.fixture(autouse=True)
def in_float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def _given(x: object, array: Callable[[np.ndarray], object]) -> object:
    if isinstance(x, list):
        return [_given(y, array) for y in x]
    return array(x) if isinstance(x, np.ndarray) else x


def refusals(name: str, args: tuple) -> tuple[Exception | None, Exception | None]:
    """The exceptions by which PyTorch and jax_ref.aten refuse a call."""
    ours = aten.OPERATORS[f"aten::{name}"]
    calls: list[Callable[[], object]] = [
        lambda: pytorch(name)(*(_given(x, torch.from_numpy) for x in args)),
        lambda: jax.eval_shape(lambda: ours(*(_given(x, jnp.asarray) for x in args))),
    ]
    found: list[Exception | None] = [None, None]
    for i, call in enumerate(calls):
        try:
            call()
        except (IndexError, RuntimeError, ValueError, TypeError) as error:
            found[i] = error
    return found[0], found[1]


def pytorch(name: str) -> Callable:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


@fast("softmax.int", "sum.dim_IntList", "gather", "unsqueeze", "flatten.using_ints")
@pytest.mark.parametrize("name", ALONG)
def test_an_axis_is_refused_where_pytorch_refuses_it(name: str) -> None:
    refused = 0
    for dim in range(-5, 5):
        theirs, ours = refusals(name, ALONG[name](dim))
        assert (ours is None) == (theirs is None), dim
        if isinstance(theirs, IndexError):
            refused += 1
            assert isinstance(ours, IndexError)
            assert f"got {dim}" in str(ours)
    assert refused in (2, 4)  # of a new axis one more is there on each side


@fast("trace", "layer_norm", "mm", "max_pool2d")
@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_is_refused(name: str) -> None:
    assert None not in refusals(name, REFUSED[name])


def test_the_message_has_the_shape() -> None:
    with pytest.raises(
        IndexError, match=r"^dim is out of range: expected one of \[-2, 1\] for an array of shape \(2, 3\), got 5$"
    ):
        aten.reductions.sum(jnp.ones((2, 3)), 5)
    with pytest.raises(ValueError, match=r"^dim has the axis 1 twice: \(1, -1\)$"):
        aten.reductions.sum(jnp.ones((2, 3)), (1, -1))


@pytest.mark.slow
def test_nothing_at_infinity_is_nan() -> None:
    """Branches that are not taken have no number in the derivative."""
    quantized = aten.OPERATORS["aten::fake_quantize_per_tensor_affine_cachemask"]
    found, _ = quantized(jnp.array([-jnp.inf, jnp.inf]), 0.1, 0, -8, 7)
    np.testing.assert_allclose(found, [-0.8, 0.7], rtol=1e-15)
    for name in ("aten::huber_loss", "aten::smooth_l1_loss"):
        slopes = jax.grad(lambda x, name=name: aten.OPERATORS[name](x, jnp.zeros(2), 2))(jnp.array([-jnp.inf, jnp.inf]))
        np.testing.assert_array_equal(slopes, [-1, 1])


@pytest.mark.slow
def test_nothing_over_no_entries_is_nan() -> None:
    def gradient(x: jax.Array, bar: jax.Array) -> jax.Array:
        return jax.vjp(lambda x: aten.reductions.logsumexp(x, 1), x)[1](bar)[0]

    assert jax.jvp(lambda bar: gradient(jnp.ones((2, 0)), bar), (jnp.ones(2),), (jnp.ones(2),))[1].shape == (2, 0)
    transposed = jax.vjp(lambda bar: gradient(jnp.ones((2, 0)), bar), jnp.ones(2))[1](jnp.ones((2, 0)))[0]
    np.testing.assert_array_equal(transposed, [0, 0])
