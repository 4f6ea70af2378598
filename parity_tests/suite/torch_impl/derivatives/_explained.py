"""Where PyTorch's own derivative is wrong: the formula, with its functions written anew, must disagree with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from parity_tests.suite.torch_impl.derivatives._comparison import Mode


@dataclass(frozen=True)
class Explained:
    """`when` says of a call's arguments whether PyTorch may be wrong there."""

    mode: Mode
    names: tuple[str, ...]
    why: str
    when: Callable[[Mapping[str, Any]], bool] = lambda arguments: True


def _wide(arguments: Mapping[str, Any]) -> bool:
    x = arguments["self"]
    if x.is_complex():
        return bool((x.real.abs() > 20).any())
    finite = x[x.isfinite()]
    return finite.numel() < x.numel() or (x.numel() > 0 and float(finite.max() - finite.min()) > 20)


EXPLAINED: Mapping[str, Explained] = {
    "as_strided_scatter": Explained(
        "vjp", ("self",), "as_strided_scatter_backward keeps the entries that were written over, and drops the others"
    ),
    "cholesky_inverse": Explained(
        "jvp",
        ("result",),
        "cholesky_inverse_jvp has the inverse between the tangent and the factor: pytorch/pytorch#196682",
    ),
    "logcumsumexp": Explained(
        "jvp",
        ("result",),
        "logcumsumexp_jvp shifts by the largest entry, or not at all if complex, so that sums underflow",
        _wide,
    ),
    "scatter_reduce.two": Explained(
        "jvp",
        ("result",),
        "scatter_reduce_jvp returns an undefined tensor for prod: a tangent of zero",
        lambda arguments: arguments["reduce"] == "prod",
    ),
    "triangular_solve": Explained(
        "jvp", ("solution",), "triangular_solve_jvp takes all of A's tangent, untransposed also where A is transposed"
    ),
}


def is_explained(name: str, mode: Mode, names: tuple[str, ...], arguments: Mapping[str, Any]) -> bool:
    """Whether a disagreement on such a call is one that is known."""
    known = EXPLAINED.get(name)
    return known is not None and (known.mode, known.names) == (mode, names) and known.when(arguments)


def differences(f: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, x_dot: torch.Tensor) -> torch.Tensor:
    """The derivative of f at x along x_dot by central differences: the third witness."""
    step = 1e-6
    return (f(x + step * x_dot) - f(x - step * x_dot)) / (2 * step)
