"""Calls of norms and distances of every order, with entries that are zero: where third derivatives are judged.

And of what divides by a deviation, whose formulas take saved statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from parity_tests.sweep.elementwise import results_of
from parity_tests.sweep.recorded_calls import RecordedCall

WITHOUT_ORDER = ("_euclidean_dist", "native_layer_norm", "native_batch_norm")
ORDERS = (0.5, 1.0, 1.5, 2.0, 3.0, float("inf"))
SOURCE = "a norm of our own"


def _arguments() -> Mapping[str, Callable[[np.ndarray, np.ndarray, float], dict[str, Any]]]:
    """The arguments of each operator, made of two arrays of two rows and the order."""
    whole = np.dtype(np.float64)
    return {
        "dist": lambda x, y, p: {"self": x, "other": y, "p": p},
        "norm.Scalar": lambda x, y, p: {"self": x, "p": p},
        "norm.ScalarOpt_dim": lambda x, y, p: {"self": x, "p": p, "dim": [1], "keepdim": False},
        "norm.ScalarOpt_dtype": lambda x, y, p: {"self": x, "p": p, "dtype": whole},
        "norm.ScalarOpt_dim_dtype": lambda x, y, p: {"self": x, "p": p, "dim": [1], "keepdim": True, "dtype": whole},
        "linalg_vector_norm": lambda x, y, p: {"self": x, "ord": p, "dim": [1], "keepdim": False},
        "_pdist_forward": lambda x, y, p: {"self": np.concatenate([x, y]), "p": p},
        "_cdist_forward": lambda x, y, p: {"x1": x, "x2": y, "p": p, "compute_mode": None},
        "_euclidean_dist": lambda x, y, p: {"x1": x, "x2": y},
        "renorm": lambda x, y, p: {"self": x, "p": p, "dim": 0, "maxnorm": 1.0},
        "_foreach_norm.Scalar": lambda x, y, p: {"self": [x, y], "ord": p},
        "native_layer_norm": lambda x, y, p: {
            **{"input": x, "normalized_shape": [3], "weight": y[0], "bias": y[1], "eps": 1e-5},
        },
        "native_batch_norm": lambda x, y, p: {
            **{"input": np.concatenate([x, y]), "weight": y[0], "bias": y[1], "running_mean": None},
            **{"running_var": None, "training": True, "momentum": 0.5, "eps": 1e-5},
        },
    }


def norm_calls(operator: str, dtype: str) -> Sequence[RecordedCall]:
    """Return calls of a norm: of each order on ordinary numbers, and where an entry, or a difference, is zero.

    Args:
        operator: with its overload; no calls are returned for one that is none of `lines.NORMS`.
        dtype: "float64" or "complex128".
    """
    make = _arguments().get(operator)
    if make is None:
        return []
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((2, 3)) for _ in range(2))
    if dtype == "complex128":
        x, y = x + 1j * rng.standard_normal(x.shape), y + 1j * rng.standard_normal(y.shape)
    with_zeros, equal = x.copy(), y.copy()
    with_zeros[0, 1] = 0
    equal[:, 2] = with_zeros[0, 2]
    found = []
    for order in ORDERS[:1] if operator in WITHOUT_ORDER else ORDERS:
        for pair in ((x, y), (with_zeros, equal)):
            given = make(*pair, order)
            arguments = {key: _of_dtype(value, dtype) for key, value in given.items()}
            results = results_of(f"aten::{operator}", arguments)
            if results is not None:
                found.append(RecordedCall(f"aten::{operator}", arguments, results, SOURCE))
    return found


def _of_dtype(value: Any, dtype: str) -> Any:
    return np.dtype(dtype) if isinstance(value, np.dtype) else value
