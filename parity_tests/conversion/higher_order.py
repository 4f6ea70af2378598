"""PyTorch's operators that take functions: control flow by that of `jax.lax`, and `flex_attention`, by its formula.

Each takes functions of arrays, which return a list of arrays, where PyTorch's takes graphs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Array = jax.Array
Function = Callable[..., list[Any]]


def _cond(pred: Any, true: Function, false: Function, operands: Sequence[Any]) -> list[Array]:
    return lax.cond(jnp.asarray(pred).reshape(()), true, false, *operands)


def _while_loop(condition: Function, body: Function, carried: Sequence[Any], others: Sequence[Any]) -> list[Array]:
    def goes_on(carry: list[Array]) -> Array:
        (found,) = condition(*carry, *others)
        return jnp.asarray(found).reshape(())

    return lax.while_loop(goes_on, lambda carry: body(*carry, *others), [*map(jnp.asarray, carried)])


def _scan(combine: Function, init: Sequence[Any], xs: Sequence[Any], others: Sequence[Any]) -> list[Array]:
    def step(carry: list[Array], x: list[Array]) -> tuple[list[Array], list[Array]]:
        found = combine(*carry, *x, *others)
        return found[: len(carry)], found[len(carry) :]

    carry, rows = lax.scan(step, [*init], [*xs])
    return [*carry, *rows]


def _map(function: Function, xs: Sequence[Any], others: Sequence[Any]) -> list[Array]:
    return lax.map(lambda x: function(*x, *others), [*xs])


def _flex_attention(
    query: Array,
    key: Array,
    value: Array,
    score: Function,
    block_mask: Sequence[Any],
    scale: float,
    kernel_options: Mapping[str, Any],
    of_score: Sequence[Any] = (),
    of_mask: Sequence[Any] = (),
) -> tuple[Array, Array, Array]:
    """Return softmax(score(scale q kᵀ)) v where the mask allows, with its logsumexp and its maxima over log 2.

    A row of which nothing is allowed is 0. As PyTorch does, it computes in float32 at least, and differentiates the
    first two results.
    """
    dtype = query.dtype
    key, value = (jnp.repeat(x, query.shape[1] // x.shape[1], axis=1) for x in (key, value))
    wide = jnp.promote_types(dtype, jnp.float32)
    scores = scale * jnp.matmul(query.astype(wide), jnp.swapaxes(key, -1, -2).astype(wide), precision="highest")
    places = [jnp.arange(size, dtype=jnp.int32) for size in scores.shape]
    allowed = _everywhere(block_mask[-1], places, of_mask)
    scores = jnp.where(allowed, _everywhere(score, places, of_score, scores), -jnp.inf)
    largest = lax.stop_gradient(scores.max(-1, keepdims=True))
    shift = jnp.where(jnp.isfinite(largest), largest, 0)
    weights = jnp.exp(scores - shift)
    total = weights.sum(-1, keepdims=True)
    of_none = total == 0
    weights = weights / jnp.where(of_none, 1, total)
    logsumexp = jnp.where(of_none, -jnp.inf, shift + jnp.log(jnp.where(of_none, 1, total)))[..., 0]
    output = jnp.matmul(weights.astype(dtype), value.astype(dtype), precision="highest")
    return output, logsumexp / math.log(2), largest[..., 0] / math.log(2)


def _everywhere(function: Function, places: Sequence[Array], others: Sequence[Any], *scores: Array) -> Array:
    """A function of a score, and of batch, head, query and key, at all of them."""

    def at(*arrays: Any) -> Any:
        (found,) = function(*arrays, *others)
        return found

    of_scores, mapped = (0,) * len(scores), at
    for i in (3, 2, 1, 0):
        mapped = jax.vmap(mapped, in_axes=(*of_scores, *(0 if k == i else None for k in range(4))))
    return mapped(*scores, *places)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "cond": _cond,
    "while_loop": _while_loop,
    "scan": _scan,
    "map_impl": _map,
    "flex_attention": _flex_attention,
}
