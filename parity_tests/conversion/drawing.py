"""PyTorch's operators that draw random numbers, by a key of JAX: the same distributions, and other numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from torch.fx import Node

from jax_ref.aten import OPERATORS
from parity_tests.conversion.cannot_convert import CannotConvert
from parity_tests.conversion.graph import Dtypes, line_of

Array = jax.Array


class Result:
    """The shape and dtype of what is drawn."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.shape, self.dtype = shape, dtype

    def of(self, drawn: Array) -> Array:
        """Return what was drawn in the dtype of the result; no derivative passes through it."""
        return lax.stop_gradient(drawn).astype(self.dtype)

    @property
    def real(self) -> np.dtype:
        """A dtype in which real numbers are drawn."""
        return self.dtype if jnp.issubdtype(self.dtype, jnp.floating) else np.dtype(np.float32)


def _kept(key: Array, p: float, like: Array) -> Array:
    return jax.random.bernoulli(key, 1 - p, like.shape)


def _native_dropout(key: Array, result: Result, input: Array, p: float, train: bool | None = True) -> tuple:
    if train is False or p == 0:
        return input, jnp.ones(input.shape, bool)
    kept = _kept(key, p, input)
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return jnp.where(kept, input * jnp.asarray(scale, input.dtype), jnp.zeros_like(input)), kept


def _attention(key: Array, result: Result, /, **named: Any) -> Array:
    query, keys, p = named["query"], named["key"], named["dropout_p"]
    batch = jnp.broadcast_shapes(query.shape[:-2], () if named.get("enable_gqa") else keys.shape[:-2])
    scores = jax.ShapeDtypeStruct((*batch, query.shape[-2], keys.shape[-2]), query.dtype)
    mask = named.get("attn_mask")
    if mask is not None and mask.dtype == bool:  # the operator below takes one that is added
        zero = jnp.zeros(mask.shape, query.dtype)
        named["attn_mask"] = jnp.where(mask, zero, jnp.full_like(zero, -jnp.inf))
    kept = jax.random.bernoulli(key, 1 - p, scores.shape)
    return OPERATORS["aten::_scaled_dot_product_attention_math"](**named, dropout_mask=kept)[0]


def _rrelu(
    key: Array, result: Result, self: Array, noise: Array, lower: float, upper: float, training: bool, **_: Any
) -> tuple[Array, Array]:
    if not training:
        return jnp.where(self > 0, self, self * jnp.asarray((lower + upper) / 2, self.dtype)), noise
    slope = jax.random.uniform(key, self.shape, self.dtype, lower, upper)
    slope = jnp.where(self > 0, jnp.ones_like(slope), slope)
    return self * slope, slope


def _bernoulli(key: Array, result: Result, self: Array, p: Any = None, **_: Any) -> Array:
    chance = self if p is None else p
    if isinstance(chance, jax.Array):
        chance = lax.stop_gradient(jnp.broadcast_to(chance, result.shape))
    return result.of(jax.random.bernoulli(key, chance, result.shape))


def _uniform(key: Array, result: Result, low: Any = 0.0, high: Any = 1.0) -> Array:
    return result.of(jax.random.uniform(key, result.shape, result.real, low, high))


def _normal(key: Array, result: Result, mean: Any = 0.0, std: Any = 1.0, **_: Any) -> Array:
    mean, std = (jnp.broadcast_to(jnp.asarray(x, result.dtype), result.shape) for x in (mean, std))
    return result.of(mean + std * jax.random.normal(key, result.shape, result.dtype))


def _integers(key: Array, result: Result, low: int, high: int) -> Array:
    wide = jax.dtypes.canonicalize_dtype(np.int64)
    return result.of(jax.random.randint(key, result.shape, low, high, wide))


def _multinomial(key: Array, result: Result, self: Array, num_samples: int, replacement: bool = False, **_: Any) -> Any:
    """Draws by Gumbel's trick: without replacement, the largest of the perturbed logarithms in their order."""
    logs = jnp.log(lax.stop_gradient(self))
    if replacement:
        return result.of(jnp.moveaxis(jax.random.categorical(key, logs, shape=(num_samples, *logs.shape[:-1])), 0, -1))
    return result.of(lax.top_k(logs + jax.random.gumbel(key, logs.shape, logs.dtype), num_samples)[1])


_DRAWN: dict[str, Callable[..., Any]] = {
    "native_dropout": _native_dropout,
    "scaled_dot_product_attention": _attention,
    "rrelu_with_noise_functional": _rrelu,
    "bernoulli": _bernoulli,
    "rand": lambda key, result, **_: _uniform(key, result),
    "rand_like": lambda key, result, **_: _uniform(key, result),
    "uniform": lambda key, result, **named: _uniform(key, result, named.get("from", 0.0), named.get("to", 1.0)),
    "randn": lambda key, result, **_: _normal(key, result),
    "randn_like": lambda key, result, **_: _normal(key, result),
    "normal": _normal,
    "normal_functional": _normal,
    "randint": lambda key, result, high, low=0, **_: _integers(key, result, low, high),
    "randint_like": lambda key, result, high, low=0, **_: _integers(key, result, low, high),
    "randperm": lambda key, result, n, **_: result.of(jax.random.permutation(key, n)),
    "exponential": lambda key, result, lambd=1.0, **_: result.of(
        jax.random.exponential(key, result.shape, result.real) / lambd
    ),
    "multinomial": _multinomial,
}


def is_drawn(name: str) -> bool:
    """Return whether an operator of a name such as "aten::bernoulli.p" can be drawn by a key."""
    return _packet(name) in _DRAWN


def _packet(name: str) -> str:
    return name.removeprefix("aten::").partition(".")[0]


def refuse(node: Node, named: Mapping[str, Any]) -> Any:
    """Raise CannotConvert: nothing is drawn without a key."""
    raise CannotConvert(f"{line_of(node)}the function draws random numbers")


class Drawing:
    """Draws for the nodes of a graph, each by a key of its own.

    Args:
        key: a key of `jax.random`.
        dtypes: those that arrays have.
    """

    def __init__(self, key: Array, dtypes: Dtypes) -> None:
        self._key, self._dtypes, self._count = key, dtypes, 0

    def __call__(self, node: Node, named: Mapping[str, Any]) -> Any:
        """Return what a node draws.

        Raises:
            CannotConvert: it cannot be drawn here; the message has the line.
        """
        target: Any = node.target
        if not is_drawn(target.name()):
            raise CannotConvert(
                f"{line_of(node)}{target.name()} draws random numbers in a way that has no counterpart here; make them "
                "an argument, or draw them by torch.rand, torch.randn or torch.bernoulli"
            )
        self._count += 1
        value = node.meta["val"]
        first = value[0] if isinstance(value, tuple | list) else value
        result = Result(tuple(first.shape), self._dtypes.of(first.dtype))
        where = ("device", "layout", "pin_memory", "memory_format", "generator", "dtype", "size")
        named = {key: x for key, x in named.items() if key not in where}
        return _DRAWN[_packet(target.name())](jax.random.fold_in(self._key, self._count), result, **named)
