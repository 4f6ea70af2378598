"""attn by the kernels of csrc/, with the rules of `jax_ref.attn` around them; and which sizes they are for.

The kernels compute (1) to (3) and (8) to (12) of derivation/attn.md; every other derivative is jax_ref's own formula.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Inexact

from jax_ref._attn import _jvp_of_vjp, _jvp_rule, _vjp, attn_primal
from jax_ref._attn import attn as attn_by_formulas
from jax_ref._validate import validate
from jax_ref._zeros import none, with_symbolic_zeros
from jax_ref.ffi import _build

# An attn of this many entries is memory that no one has touched before, and waiting for it is most of a forward: XLA
# is then as fast.
_FRESH = 2**23


def _called(target: str, results: list[tuple[int, ...]], *args: jax.Array, **attributes: bool) -> list[jax.Array]:
    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in results]
    return list(jax.ffi.ffi_call(target, shapes, vmap_method="expand_dims")(*args, **attributes))


def _forward_kernel(q, k, v):
    (n, m, e) = (q.shape[0], k.shape[0], v.shape[1])
    return tuple(_called(_build.targets()[0], [(n, e), (n, m)], q, k, v))


def _backward_kernel(q, k, v, A, output_bar, attn_bar):
    absent = jnp.zeros((0, 0), q.dtype)
    q_bar, k_bar, v_bar = _called(
        _build.targets()[1],
        [q.shape, k.shape, (0, 0) if output_bar is None else v.shape],
        *(q, k, v, A),
        *(absent if x is None else x for x in (output_bar, attn_bar)),
        has_output_bar=output_bar is not None,
        has_attn_bar=attn_bar is not None,
    )
    return q_bar, k_bar, None if output_bar is None else v_bar


# Without entries there is nothing to add up, and on another platform there are no kernels.


@jax.jit
def _forward(q, k, v):
    if q.shape[0] * k.shape[0] >= _FRESH or 0 in (*q.shape, *v.shape):
        return attn_primal(q, k, v)
    return jax.lax.platform_dependent(q, k, v, cpu=_forward_kernel, default=attn_primal)


@jax.jit
def _backward(q, k, v, A, output_bar, attn_bar):
    args = (q, k, v, A, output_bar, attn_bar)
    if (output_bar is None and attn_bar is None) or 0 in (*q.shape, *v.shape):
        return _vjp(*args)
    return jax.lax.platform_dependent(*args, cpu=_backward_kernel, default=_vjp)


# Registration: as of jax_ref.attn, with the kernels for the values and the first order.


_attn_ad = jax.custom_jvp(_forward)
_vjp_rule = jax.custom_jvp(_backward)


def _attn_ad_rule(primals, tangents):
    output, A = _attn_ad(*primals)
    tangents = _jvp_rule(*primals, A, *map(none, tangents))
    return (output, A), with_symbolic_zeros((output, A), tangents)


def _jvp_of_vjp_rule(primals, tangents):
    results = _vjp_rule(*primals)
    return results, with_symbolic_zeros(results, _jvp_of_vjp(*primals, *map(none, tangents)))


_attn_ad.defjvp(_attn_ad_rule, symbolic_zeros=True)
_vjp_rule.defjvp(_jvp_of_vjp_rule, symbolic_zeros=True)


def _checked(q, k, v) -> None:
    validate(q, k, v)
    if q.dtype != jnp.float32:
        raise TypeError(
            f"attn_fused: the kernel computes in float32, got {q.dtype}; take jax_ref.ffi.attn for any dtype"
        )


@jax.custom_vjp
def attn_fused(
    q: Float[Array, "n d"], k: Float[Array, "m d"], v: Float[Array, "m e"]
) -> tuple[Float[Array, "n e"], Float[Array, "n m"]]:
    """`jax_ref.attn` by the kernel at every size, (1) to (3), and its VJP by the other, (8) to (12).

    Args:
        q: queries (n, d) of float32. k: keys (m, d), v: values (m, e), likewise. Any size may be 0 or 1.

    Returns:
        output (n, e) and attn (n, m), of float32. From 2**23 entries of attn on the forward is XLA's.

    For a fixed number of threads the same input gives the same bits. A cotangent that is not there costs nothing.
    On devices other than the CPU these are the formulas of `jax_ref`. Forward mode: as of `jax_ref.attn`.

    Raises:
        TypeError, ValueError: another dtype than float32, or what `jax_ref.attn` refuses.
        CompilerMissing, BuildError: the kernels cannot be compiled.
    """
    _checked(q, k, v)
    return _attn_ad(q, k, v)


def _attn_fwd(q, k, v):
    q, k, v = jax.tree.map(lambda x: x.value, (q, k, v))
    _checked(q, k, v)
    output, A = _attn_ad(q, k, v)
    return (output, A), (q, k, v, A)


def _attn_bwd(residuals, cotangents):
    return _vjp_rule(*residuals, *map(none, cotangents))


attn_fused.defvjp(_attn_fwd, _attn_bwd, symbolic_zeros=True)


def attn(
    q: Inexact[Array, "n d"], k: Inexact[Array, "m d"], v: Inexact[Array, "m e"]
) -> tuple[Inexact[Array, "n e"], Inexact[Array, "n m"]]:
    """`jax_ref.attn` by whichever is faster on the CPU: `attn_fused`, or the formulas.

    The kernel is for float32, 32 queries and keys or more, and 128 features of either kind or fewer; everything else,
    and every other device, goes the way of `jax_ref.attn`. Same arguments, results, derivatives and limits.

    Raises:
        TypeError, ValueError: what `jax_ref.attn` refuses.
        CompilerMissing, BuildError: the kernels are asked for, and cannot be compiled.
    """
    validate(q, k, v)
    return attn_fused(q, k, v) if _pays(q, k, v) else attn_by_formulas(q, k, v)


def _pays(q: jax.Array, k: jax.Array, v: jax.Array) -> bool:
    # Measured, on a machine with AVX-512: with fewer rows, packing keys and values costs more than the product; with
    # more features a whole-matrix product has the better blocks.
    return q.dtype == jnp.float32 and min(q.shape[0], k.shape[0]) >= 32 and max(q.shape[1], v.shape[1]) <= 128
