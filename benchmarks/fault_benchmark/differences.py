"""The rules that take finite differences of a version: gradcheck and check_grads, with their own tolerances."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax.test_util import check_vjp
from torch.autograd import gradcheck

from benchmarks.fault_benchmark.versions import DTYPES, format_of
from parity_tests.operators.operator import Operator, Tensors

JACOBIAN = 2**17  # entries beyond which gradcheck in slow mode, which takes each of them, is not run: it takes minutes


def slow_is_too_slow(operator: Operator, inputs: Tensors, outputs: int) -> bool:
    """Return whether gradcheck's slow mode would take too long: it takes the whole Jacobian, entry by entry."""
    return sum(inputs[i].numel() for i in operator.differentiated) * outputs > JACOBIAN


def passes_gradcheck(call: Callable[..., Any], operator: Operator, inputs: Tensors, fast: bool) -> bool:
    """Return whether `torch.autograd.gradcheck` accepts a version, at float64 inputs, with its default tolerances."""
    leaves = [x.detach().clone().requires_grad_(i in operator.differentiated) for i, x in enumerate(inputs)]
    # When fast mode has found a mistake, it runs slow mode, on whole Jacobians, for the text of its error.
    with mock.patch.object(inspect.getmodule(gradcheck), "_run_slow_mode_and_get_error", return_value=""):
        return gradcheck(call, leaves, fast_mode=fast, raise_exception=False)


def passes_check_grads(call: Callable[..., Any], operator: Operator, inputs: Tensors) -> bool:
    """Return whether `jax.test_util.check_grads` accepts a version, in reverse mode, with its default tolerances.

    `check_grads(f, args, order=1, modes=("rev",))` is `check_vjp` with `jax.vjp` of f. The version is in PyTorch, so
    that its own VJP is handed over in the place of that; the numbers that are compared are the same.
    """
    format = format_of(inputs)

    def tensors(arrays: tuple[Any, ...]) -> list[torch.Tensor]:
        leaves = [x.detach().clone() for x in inputs]
        for i, x in zip(operator.differentiated, arrays, strict=True):
            leaves[i] = torch.from_numpy(np.asarray(x, np.float64).copy()).to(DTYPES[format]).requires_grad_()
        return leaves

    def evaluated(*arrays: Any) -> tuple[list[torch.Tensor], tuple[torch.Tensor, ...]]:
        leaves = tensors(arrays)
        found = call(*leaves)
        return leaves, (found,) if isinstance(found, torch.Tensor) else tuple(found)

    def f(*arrays: Any) -> tuple[np.ndarray, ...]:
        return tuple(_as_array(y) for y in evaluated(*arrays)[1])

    def vjp(*arrays: Any) -> tuple[Any, Callable[[Any], Any]]:
        leaves, outputs = evaluated(*arrays)

        def pulled_back(bars: Any) -> tuple[np.ndarray, ...]:
            in_torch = [torch.from_numpy(np.asarray(b, np.float64).copy()).to(DTYPES[format]) for b in bars]
            wanted = [leaves[i] for i in operator.differentiated]
            return tuple(_as_array(g) for g in torch.autograd.grad(outputs, wanted, in_torch))

        return tuple(_as_array(y) for y in outputs), pulled_back

    arguments = tuple(_as_array(inputs[i]) for i in operator.differentiated)
    with jax.enable_x64(True) if format == "float64" else contextlib.nullcontext():
        try:
            check_vjp(f, vjp, arguments)
        except AssertionError:
            return False
    return True


def _as_array(x: torch.Tensor) -> np.ndarray:
    """Return a tensor as a NumPy array of the same format."""
    return x.detach().double().numpy().astype(jnp.dtype(str(x.dtype).removeprefix("torch.")))
