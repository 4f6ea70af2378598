"""`jax_ref.functional` is torch.nn.functional: its names, parameters, defaults and values."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from jax_ref import functional
from parity_tests.suite.marks import fast

R = np.random.default_rng(0)
X, Y = R.standard_normal((2, 3, 8, 8)), R.standard_normal((2, 3, 8, 8))
ROW, OTHER, THIRD = R.standard_normal((3, 4, 6))
P = 1 / (1 + np.exp(-ROW))
SIGN = np.where(OTHER > 0, 1.0, -1.0)
CLASS = np.array([2, 0, 5, 2])
W, B = R.standard_normal((3, 3)), R.standard_normal(3)
Q = R.standard_normal((2, 4, 5, 3))
GRID = np.tanh(R.standard_normal((2, 4, 5, 2)))

# Left out: what is deprecated, writes, or shows where a warning comes from; and rows of embeddings that are rewritten.
LEFT_OUT = {"inplace", "size_average", "reduce", "_stacklevel", "out", "sparse", "max_norm", "norm_type"}
# PyTorch's newer losses take weights of entries, which no operator of ATen has.
WITHOUT_WEIGHT = {"mse_loss", "l1_loss", "huber_loss"}


def _same(*calls: tuple) -> Callable:
    return lambda f, a: [f(*map(a, args)) for args in calls]


CALLS: dict[str, Callable[[Callable, Callable], list]] = {
    **dict.fromkeys(
        ("relu", "relu6", "selu", "silu", "mish", "hardswish", "hardsigmoid", "tanh", "sigmoid"), _same((X,))
    ),
    **dict.fromkeys(("logsigmoid", "softsign", "tanhshrink"), _same((X,))),
    **dict.fromkeys(("elu", "celu", "hardshrink", "softshrink", "leaky_relu"), _same((X,), (X, 0.3))),
    "gelu": lambda f, a: [f(a(X)), f(a(X), approximate="tanh")],
    "glu": _same((ROW,), (ROW, 0)),
    "hardtanh": _same((X,), (X, -0.5, 0.25)),
    "prelu": _same((X, B)),
    "softplus": _same((X,), (X, 2, 3)),
    "threshold": _same((X, 0.1, 20.0)),
    **dict.fromkeys(("softmax", "log_softmax", "softmin"), _same((X, 1))),
    "linear": _same((X[..., :3], W), (X[..., :3], W, B)),
    "conv1d": _same((X[0], R.standard_normal((4, 8, 3))), (X[0], R.standard_normal((4, 4, 3)), None, 2, 1, 1, 2)),
    "conv2d": _same((X, R.standard_normal((2, 3, 3, 2)), B[:2], (2, 1), 1)),
    "conv3d": _same((X[None], R.standard_normal((2, 2, 1, 3, 2)))),
    "conv_transpose1d": _same((X[0], R.standard_normal((8, 4, 3)), None, 2, 1, 1)),
    "conv_transpose2d": _same((X, R.standard_normal((3, 2, 3, 2)), B[:2], (2, 1))),
    "conv_transpose3d": _same((X[None], R.standard_normal((2, 2, 1, 3, 2)))),
    "conv_tbc": _same((X[0], R.standard_normal((2, 8, 3)), B)),
    "unfold": _same((X, 2), (X, (2, 3), 1, 1, 2)),
    "fold": _same((R.standard_normal((2, 12, 49)), (8, 8), 2), (R.standard_normal((2, 12, 16)), (8, 8), 2, 1, 0, 2)),
    "avg_pool1d": _same((X[0], 2), (X[0], 3, 1, 1)),
    "avg_pool2d": _same((X, 2), (X, 3, 1, 1, False, False, 2)),
    "avg_pool3d": _same((X, 2)),
    "max_pool1d": lambda f, a: [f(a(X[0]), 2), *f(a(X[0]), 3, 1, 1, return_indices=True)],
    "max_pool2d": lambda f, a: [f(a(X), 2), f(a(X), (2, 3), padding=1), *f(a(X), 2, return_indices=True)],
    "max_pool3d": lambda f, a: [f(a(X), 2), *f(a(X), 2, return_indices=True)],
    "adaptive_avg_pool1d": _same((X[0], 3)),
    "adaptive_avg_pool2d": _same((X, 3), (X, (2, 5))),
    "adaptive_avg_pool3d": _same((X, 2)),
    "adaptive_max_pool1d": lambda f, a: [f(a(X[0]), 3), *f(a(X[0]), 3, return_indices=True)],
    "adaptive_max_pool2d": lambda f, a: [f(a(X), (2, 5)), *f(a(X), 3, True)],
    "adaptive_max_pool3d": lambda f, a: [f(a(X), 2)],
    "layer_norm": _same((X, (8, 8)), (X, (8,), X[0, 0, 0], X[0, 0, 1], 1e-3)),
    "rms_norm": _same((X, (8,)), (X, (8,), X[0, 0, 0], 1e-3)),
    "group_norm": _same((X, 3), (X, 1, B, B)),
    "batch_norm": lambda f, a: [
        f(a(X), a(B), a(B**2), a(B), a(B)),
        f(a(X), None, None, training=True),
        f(a(X), a(B), a(B**2), None, None, True),
    ],
    "instance_norm": lambda f, a: [f(a(X)), f(a(X), None, None, a(B), a(B)), f(a(X), a(B), a(B**2), None, None, False)],
    "scaled_dot_product_attention": lambda f, a: [f(*map(a, (Q, Q, Q))), f(*map(a, (Q, Q, Q)), is_causal=True)],
    "pixel_shuffle": _same((R.standard_normal((2, 8, 3, 3)), 2)),
    "pixel_unshuffle": _same((X, 2)),
    **dict.fromkeys(("channel_shuffle", "native_channel_shuffle"), _same((X, 3))),
    "pad": _same((X, (1, 2)), (X, (1, 2, 0, 1), "reflect"), (X, (1, 1), "constant", 3.0), (X[0], (1, 2), "circular")),
    "affine_grid": _same((R.standard_normal((2, 2, 3)), [2, 1, 3, 4], False)),
    "grid_sample": lambda f, a: [f(a(X), a(GRID), align_corners=False), f(a(X), a(GRID), "nearest", "border", True)],
    "cosine_similarity": _same((X, Y), (X, Y, -1)),
    "pairwise_distance": _same((ROW, OTHER), (ROW, OTHER, 1.0)),
    "pdist": _same((ROW,), (ROW, 1)),
    **dict.fromkeys(
        ("mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss", "poisson_nll_loss"),
        lambda f, a: [f(a(ROW), a(P)), f(a(ROW), a(P), reduction="sum"), f(a(ROW), a(P), reduction="none")],
    ),
    **dict.fromkeys(
        ("soft_margin_loss", "hinge_embedding_loss"),
        lambda f, a: [f(a(ROW), a(SIGN)), f(a(ROW), a(SIGN), reduction="none")],
    ),
    "multilabel_margin_loss": lambda f, a: [f(a(ROW), a(np.array([[1, 3, -1, 0, 0, 0]] * 4)))],
    "binary_cross_entropy": lambda f, a: [f(a(P), a(P)), f(a(P), a(P), a(P), reduction="sum")],
    "binary_cross_entropy_with_logits": lambda f, a: [f(a(ROW), a(P)), f(a(ROW), a(P), pos_weight=a(P))],
    **dict.fromkeys(
        ("nll_loss", "cross_entropy"),
        lambda f, a: [
            f(a(ROW), a(CLASS)),
            f(a(ROW), a(CLASS), a(P[0]), ignore_index=2, reduction="sum"),
            f(a(X), a(np.zeros((2, 8, 8), int)), reduction="none"),
        ],
    ),
    "kl_div": lambda f, a: [
        f(a(ROW), a(P), reduction="batchmean"),
        f(a(ROW), a(P), reduction="sum"),
        f(a(ROW), a(ROW), reduction="none", log_target=True),
    ],
    "multi_margin_loss": lambda f, a: [f(a(ROW), a(CLASS)), f(a(ROW), a(CLASS), 2, 0.5, reduction="sum")],
    "margin_ranking_loss": lambda f, a: [f(a(ROW), a(OTHER), a(SIGN)), f(a(ROW), a(OTHER), a(SIGN), 0.5)],
    "cosine_embedding_loss": lambda f, a: [f(a(ROW), a(OTHER), a(SIGN[:, 0])), f(a(ROW), a(OTHER), a(SIGN[:, 0]), 0.1)],
    "triplet_margin_loss": lambda f, a: [f(*map(a, (ROW, OTHER, THIRD))), f(*map(a, (ROW, OTHER, THIRD)), swap=True)],
    "ctc_loss": lambda f, a: [
        f(a(np.log(P / P.sum(1, keepdims=True))), a(np.array([1, 2])), a(np.array(4)), a(np.array(2)), reduction="sum")
    ],
    "embedding": lambda f, a: [f(a(CLASS), a(X[0, 0])), f(a(CLASS[None]), a(X[0, 0]), -1)],
    "normalize": _same((X,), (X, 1, 2)),
    "dropout": lambda f, a: [f(a(X), training=False), f(a(X), 0.0)],
}  # fmt: skip


def _pytorch(name: str) -> list[tuple[str, object]]:
    """The parameters and defaults of PyTorch's function; of one in C++ those of its documentation."""
    function = getattr(torch.nn.functional, name)
    function = getattr(torch.nn.functional, f"{name}_with_indices", function)  # what is behind a dispatch
    try:
        parameters = [(p.name, p.default) for p in inspect.signature(function).parameters.values()]
    except ValueError:
        found = re.search(rf"^\s*{name}\((.*?)\) -> ", function.__doc__ or "", re.MULTILINE | re.DOTALL)
        if found is None:
            pytest.skip("PyTorch documents no signature")
        text = re.sub(r"\s+", " ", found[1]).replace(" = ", "=")
        namespace: dict[str, Any] = {}
        exec(f"def function({text}): ...", namespace)
        parameters = [(p.name, p.default) for p in inspect.signature(namespace["function"]).parameters.values()]
    left_out = LEFT_OUT | ({"weight"} if name in WITHOUT_WEIGHT else set())
    return [each for each in parameters if each[0] not in left_out]


# `dim` has no default that is not deprecated, align_corners=None is False; a key is JAX's.
ANOTHER_DEFAULT = {"dim", "align_corners"}


@pytest.mark.parametrize("name", dir(functional))
def test_the_parameters_are_pytorchs(name: str):
    parameters = inspect.signature(getattr(functional, name)).parameters.values()
    ours = [(p.name, p.default) for p in parameters if (name, p.name) != ("dropout", "key")]
    theirs = _pytorch(name)
    assert [each for each, _ in ours] == [each for each, _ in theirs]
    assert [each for each in ours if each[0] not in ANOTHER_DEFAULT] == [
        each for each in theirs if each[0] not in ANOTHER_DEFAULT
    ]


@fast("relu", "cross_entropy", "batch_norm", "max_pool2d")
@pytest.mark.parametrize("name", dir(functional))
def test_the_values_are_pytorchs(name: str):
    def ours(*args: object, **kwargs: object) -> object:
        key = {"key": jax.random.key(0)} if name == "dropout" else {}
        return getattr(functional, name)(*args, **kwargs, **key)

    def theirs(*args: object, **kwargs: object) -> object:
        return getattr(torch.nn.functional, name)(*args, **kwargs)

    found = CALLS[name](ours, lambda x: jnp.asarray(x) if isinstance(x, np.ndarray) else x)
    right = CALLS[name](theirs, lambda x: torch.tensor(x) if isinstance(x, np.ndarray) else x)
    assert len(found) == len(right) > 0
    for i, (a, b) in enumerate(zip(found, right, strict=True)):
        assert a.shape == tuple(b.shape), i
        # The longest sums have 192 terms of about 1, of which each rounds once, and as often in PyTorch's.
        np.testing.assert_allclose(a, b.numpy(), rtol=400 * 2**-52, atol=400 * 2**-52, err_msg=str(i))


def test_dropout_keeps_the_mean_and_follows_its_key():
    x, key = jnp.ones(10_000), jax.random.key(0)
    kept = functional.dropout(x, 0.25, key=key)
    assert set(np.unique(kept)) == {0.0, 1 / 0.75}
    # Of 10000 draws the share has a standard deviation of 0.0043; six of them are never reached.
    assert abs(float((kept == 0).mean()) - 0.25) < 6 * 0.0043
    np.testing.assert_array_equal(kept, functional.dropout(x, 0.25, key=key))
    assert (kept != functional.dropout(x, 0.25, key=jax.random.key(1))).any()
    np.testing.assert_array_equal(functional.dropout(x, 1.0, key=key), jnp.zeros(10_000))


def test_what_is_wrong_is_said_in_the_words_of_the_caller():
    x = jnp.ones((2, 3))
    with pytest.raises(ValueError, match=r"functional.mse_loss: reduction is 'avg'; give one of 'none', 'mean', 'sum'"):
        functional.mse_loss(x, x, reduction="avg")
    with pytest.raises(TypeError, match=r"functional.gelu\(input, approximate='none'\): missing a required argument"):
        functional.gelu()
    with pytest.raises(ValueError, match="padding_idx is 5, but weight has 2 rows"):
        functional.embedding(jnp.array([0]), x, 5)
    with pytest.raises(AttributeError, match="no 'cross_entropi'; did you mean 'cross_entropy'"):
        functional.cross_entropi  # noqa: B018
    with pytest.raises(AttributeError, match=r"the operator is jax_ref.aten.cumsum"):
        functional.cumsum  # noqa: B018
