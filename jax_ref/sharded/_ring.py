"""The ring: output = attn v where every device holds a block of q, of k and of v, and no device ever all of k or v.

The numbers in the margin are the equations of derivation/sharding.md. A device keeps its block of q; the blocks of k
and v go around, one device at a time, and what belongs to a block (its tangents, its cotangents) travels with it. The
matrix attn is not returned: a device has one block of it at a time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Inexact

from jax_ref._attn import _D
from jax_ref._products import add, mm, mul, narrowed
from jax_ref._validate import validate
from jax_ref._zeros import none

Blocks: TypeAlias = tuple[Any, ...]  # arrays, or None for an exact zero


def _attn_block(q: jax.Array, k: jax.Array) -> jax.Array:
    return jnp.tanh(mm("nd,md->nm", q, k)).astype(q.dtype)  #                    (118)


# The terms that one block of keys adds: to what stays with the queries, and to what belongs to the block.


def _primal_terms(q, k, v):
    A = _attn_block(q, k)
    return (mm("nm,me->ne", A, v),), ()  #                                       (119)


def _jvp_terms(q, q_dot, k, v, k_dot, v_dot):
    A = _attn_block(q, k)
    T = add(mm("nd,md->nm", q_dot, k), mm("nd,md->nm", q, k_dot))
    A_dot = mul(_D(A), T)  #                                                     (120)
    return (add(mm("nm,me->ne", A_dot, v), mm("nm,me->ne", A, v_dot)),), ()  #   (121)


def _vjp_terms(q, output_bar, k, v):
    A = _attn_block(q, k)
    P = mul(_D(A), mm("ne,me->nm", output_bar, v))  #                            (122)
    q_bar = mm("nm,md->nd", P, k)  #                                             (123)
    k_bar = mm("nm,nd->md", P, q)  #                                             (124)
    v_bar = mm("nm,ne->me", A, output_bar)  #                                    (125)
    return (q_bar,), (k_bar, v_bar)


def _around(terms: Callable[..., tuple[Blocks, Blocks]], blocks: Blocks, axis: str) -> tuple[Blocks, Blocks]:
    """The terms of all blocks, added up.

    Args:
        terms: of one block: those that stay with the device, and those that belong to the block.
        blocks: this device's.
        axis: of the mesh, along which the ring goes.

    Returns:
        The sum of what stays, and that of what belongs to this device's own blocks, which has come home. The blocks
        have made size - 1 steps, the sums that travel with them size, of which the last brings them home.
    """
    size = jax.lax.axis_size(axis)
    neighbours = [(i, (i + 1) % size) for i in range(size)]

    def sent(x):
        return jax.tree.map(lambda x: jax.lax.ppermute(x, axis, neighbours), x)

    def added(x, y):
        return jax.tree.map(jnp.add, x, y)

    def step(blocks, stays, travels):
        here, there = terms(*blocks)  # nothing that is sent in the same step waits for it
        return added(stays, here), added(sent(travels), there)

    stays, travels = terms(*blocks)
    if size == 1:
        return stays, travels
    carry, _ = jax.lax.scan(
        lambda carry, _: ((sent(carry[0]), *step(*carry)), None), (sent(blocks), stays, travels), length=size - 2
    )
    stays, travels = step(*carry)
    return stays, sent(travels)


@functools.partial(jax.custom_jvp, nondiff_argnums=(3,))
def ring_ad(
    q: Inexact[Array, "n d"], k: Inexact[Array, "m d"], v: Inexact[Array, "m e"], axis: str
) -> Inexact[Array, "n e"]:
    """`ring` with its explicit JVP, equations (120) and (121): the face for forward mode, and for any mix of modes.

    Same value, arguments and errors as `ring`; reverse mode is JAX's transpose of the explicit JVP.
    """
    validate(q, k, v)
    (output,), _ = _around(functools.partial(_primal_terms, q), (k, v), axis)
    return output.astype(q.dtype)


def _ring_jvp(axis, primals, tangents):
    q, k, v = primals
    q_dot, k_dot, v_dot = map(none, tangents)
    output = ring_ad(q, k, v, axis)
    (output_dot,), _ = _around(functools.partial(_jvp_terms, q, q_dot), (k, v, k_dot, v_dot), axis)
    return output, output_dot.astype(q.dtype)


ring_ad.defjvp(_ring_jvp, symbolic_zeros=True)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def ring(
    q: Inexact[Array, "n d"], k: Inexact[Array, "m d"], v: Inexact[Array, "m e"], axis: str
) -> Inexact[Array, "n e"]:
    """output = tanh(q kᵀ) v over a ring of devices, for use inside a `jax.shard_map` of your own.

    Args:
        q: this device's block of the queries (n, d), of a dtype that `jax_ref.attn` takes.
        k: this device's block of the keys (m, d). v: its block of the values (m, e). Each varies over the axis.
        axis: the name of the mesh's axis along which the blocks lie.

    Returns:
        This device's block of the output (n, e), equations (118) and (119), with its explicit VJP, (122) to (125), in
        which the sums k_bar and v_bar travel with their blocks. Sums are kept and sent in float32 where the dtype is
        bfloat16 or float16, and rounded once. Saved for the VJP are q, k and v; attn is computed again.

    Take this face where reverse mode comes first, `ring_ad` where forward mode does. Of second order, JAX
    differentiates these formulas.

    Raises:
        TypeError, ValueError: a wrong type, dtype, rank or size, as `jax_ref.attn`.
    """
    return ring_ad(q, k, v, axis)


def _ring_fwd(q, k, v, axis):
    return ring_ad(q, k, v, axis), (q, k, v)


def _ring_bwd(axis, residuals, output_bar):
    q, k, v = residuals
    (q_bar,), (k_bar, v_bar) = _around(functools.partial(_vjp_terms, q, output_bar), (k, v), axis)
    return narrowed((q_bar, k_bar, v_bar), q.dtype)


ring.defvjp(_ring_fwd, _ring_bwd)
