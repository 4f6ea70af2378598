"""References to compare a candidate with where no `OpSpec` is given: a function of JAX arrays, or one of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import jax
import torch

from parity_tests.harness.judging import hints
from parity_tests.harness.numbers.conversion import as_given
from parity_tests.harness.numbers.numerics import pinned_jax
from parity_tests.harness.specs.arguments import Tree, mapped
from parity_tests.harness.specs.spec import ArrayLike, OpSpec


def spec_of(reference: Callable, inputs: str | Sequence[ArrayLike | Tree], name: str) -> OpSpec:
    """Return the specification of a function at these inputs, or of a PyTorch function at inputs that a text describes.

    Raises:
        TypeError, ValueError: it cannot be used; see `OpSpec` and `OpSpec.from_torch`.
    """
    if isinstance(inputs, str) or is_of_tensors(reference, inputs):
        return OpSpec.from_torch(reference, inputs=inputs, name=name)
    return OpSpec(name, primal=reference, inputs=inputs)


def is_of_tensors(function: Callable, inputs: Sequence[ArrayLike | Tree]) -> bool:
    """Return whether a function is one of PyTorch's tensors, and not of JAX's arrays, as a call with each shows.

    What runs with both, as `lambda x: x * x` does, is one of JAX. So is what runs with neither, unless its code has
    names of PyTorch's and none of JAX's.
    """
    if hints.is_jax(function):
        return False
    if hints.is_torch(function):
        return True
    try:
        with pinned_jax():
            jax.eval_shape(function, *mapped(_abstract, tuple(inputs)))
    except Exception:  # of whatever kind: it is the author's function
        return _runs_on_tensors(function, inputs)
    return False


def _abstract(x: ArrayLike) -> jax.ShapeDtypeStruct:
    array = as_given(x)
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


def _runs_on_tensors(function: Callable, inputs: Sequence[ArrayLike | Tree]) -> bool:
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            found = function(*mapped(lambda x: torch.from_numpy(as_given(x)), tuple(inputs)))
    except Exception:
        packages = {*_packages(function)}
        return "torch" in packages and not packages & {"jax", "jaxlib"}
    return any(isinstance(y, torch.Tensor) for y in jax.tree.leaves(found))


def _packages(function: Callable) -> Iterable[str]:
    """The packages of what the code of a function refers to by the names of its module."""
    code = getattr(function, "__code__", None)
    for name in code.co_names if code is not None else ():
        found = getattr(function, "__globals__", {}).get(name)
        module = getattr(found, "__module__", None) or getattr(found, "__name__", None)
        if isinstance(module, str):
            yield module.split(".")[0]
