"""PyTorch's `torch.nn.functional` in JAX: its names and arguments, by the operators of `jax_ref.aten`.

    from jax_ref import functional as F

    loss = F.cross_entropy(F.linear(x, weight, bias), target, label_smoothing=0.1)

`dir(F)` has the names. Arguments, their order and their defaults are PyTorch's. Left out are `inplace`, since no array
is written to, and what PyTorch itself has deprecated (`size_average`, `reduce`, no `dim` of a softmax): what it has
behind these is given by name. A function that draws random numbers takes a `key`. One table has most of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jax_ref import aten
from jax_ref._functional_table import MODES, NAMES, REDUCTIONS, TABLE, Row, parameter_of, signature
from jax_ref.aten._arrays import Ints
from jax_ref.aten._registry import similar


def _function(name: str, row: Row) -> Callable[..., Any]:
    operator = getattr(aten, row.operator or name)
    given = signature(row)

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = given.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"functional.{name}{given}: {error}") from None
        arguments = dict(bound.arguments)
        indices = arguments.pop("return_indices", False)
        sent = {parameter_of(row, each, operator): _sent(name, each, x) for each, x in _kept(given, arguments).items()}
        found = operator(**sent, **row.fixed)
        return found[0] if "return_indices" in given.parameters and not indices else found

    call.__name__ = call.__qualname__ = name
    call.__module__ = __name__
    call.__doc__ = f"{inspect.getdoc(operator)}\n\nThe operator is `jax_ref.aten.{row.operator or name}`."
    call.__signature__ = given  # type: ignore[attr-defined]
    return call


def _kept(given: inspect.Signature, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with PyTorch's defaults, which an operator need not have; without a stride of None."""
    every = {p.name: p.default for p in given.parameters.values() if p.default is not inspect.Parameter.empty}
    every = {name: x for name, x in (every | dict(arguments)).items() if name != "return_indices"}
    return {name: x for name, x in every.items() if not (name == "stride" and x is None)}


def _sent(function: str, parameter: str, x: Any) -> Any:
    """An argument as the operator takes it: a number for the names of reductions and modes."""
    numbers = REDUCTIONS if parameter == "reduction" else MODES.get(parameter) if function == "grid_sample" else None
    if numbers is None:
        return x
    if x not in numbers:
        raise ValueError(f"functional.{function}: {parameter} is {x!r}; give one of {', '.join(map(repr, numbers))}")
    return numbers[x]


globals().update({name: _function(name, row) for name, row in TABLE.items()})


def embedding(
    input: ArrayLike, weight: ArrayLike, padding_idx: int | None = None, *, scale_grad_by_freq: bool = False
) -> jax.Array:
    """The rows of weight (n, d) at the indices input (*), as (*, d). The row padding_idx has no derivative."""
    count = jnp.shape(weight)[0]
    if padding_idx is not None and not -count <= padding_idx < count:
        raise ValueError(f"functional.embedding: padding_idx is {padding_idx}, but weight has {count} rows")
    row = -1 if padding_idx is None else padding_idx % count
    return aten.embedding(weight, input, row, scale_grad_by_freq)


def kl_div(input: ArrayLike, target: ArrayLike, *, reduction: str = "mean", log_target: bool = False) -> jax.Array:
    """target (log(target) - input), where input has logarithms; "batchmean" divides the sum by the first axis."""
    numbers = REDUCTIONS | {"batchmean": 2}
    if reduction not in numbers:
        raise ValueError(f"functional.kl_div: reduction is {reduction!r}; give one of {', '.join(map(repr, numbers))}")
    loss = aten.kl_div(input, target, numbers[reduction], log_target=log_target)
    return loss / jnp.shape(input)[0] if reduction == "batchmean" else loss


def dropout(input: ArrayLike, p: float = 0.5, training: bool = True, *, key: jax.Array) -> jax.Array:
    """Input with a share p of its entries set to 0, drawn by a key, and the others divided by 1 - p.

    It is input itself if not training.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"functional.dropout: p is {p}; give a share from 0 to 1")
    x = jnp.asarray(input)
    if not training or p == 0:
        return x
    kept = jax.random.bernoulli(key, 1 - p, x.shape)
    return jnp.where(kept, x / (1 - p) if p < 1 else x, jnp.zeros_like(x))


def normalize(input: ArrayLike, p: float = 2.0, dim: Ints = 1, eps: float = 1e-12) -> jax.Array:
    """input divided by its p-norm along an axis, or by eps where the norm is less."""
    norm = aten.linalg_vector_norm(input, p, dim, True)
    return jnp.asarray(input) / aten.clamp_min(norm, eps)


def softmin(input: ArrayLike, dim: int, *, dtype: Any = None) -> jax.Array:
    """exp(-input) / Σ exp(-input) along an axis."""
    return aten.softmax(-jnp.asarray(input), dim, dtype)


def softsign(input: ArrayLike) -> jax.Array:
    """input / (1 + |input|)."""
    return aten.div(input, 1 + aten.abs(input))


def tanhshrink(input: ArrayLike) -> jax.Array:
    """input - tanh(input)."""
    return aten.sub(input, aten.tanh(input))


def __dir__() -> list[str]:
    return sorted(NAMES)


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(f"module 'jax_ref.functional' has no attribute {name!r}", name=name)
    message = f"jax_ref.functional has no {name!r}; {similar(name, NAMES)}"
    if hasattr(aten, name):
        message += f"the operator is jax_ref.aten.{name}; "
    raise AttributeError(f"{message}dir(jax_ref.functional) has all names", name=name)
