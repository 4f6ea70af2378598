"""attn(q, k, v) -> (output, attn): the primal, its formulas, and their registration with JAX.

Capital letters are the matrices of derivation/attn.md and the numbers in the margin its equations; q_dot is the
tangent of q, q_bar its cotangent, q_prime and q_dot_prime a second tangent of q and of q_dot. Index letters: n queries,
m keys, d and e features. `None` stands for an exact zero, in arguments and in results. Complex: JAX's convention,
in which a VJP is the plain transpose, so that no formula conjugates.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Inexact

from jax_ref._products import MaybeZero, add, mm, mul, narrowed, twice_negative, wide
from jax_ref._validate import validate, validate_directions
from jax_ref._zeros import none, with_symbolic_zeros


def attn_primal(
    q: Inexact[Array, "n d"], k: Inexact[Array, "m d"], v: Inexact[Array, "m e"]
) -> tuple[Inexact[Array, "n e"], Inexact[Array, "n m"]]:
    """output = attn v, attn = tanh(q kᵀ), in plain JAX with no rule attached: what autodiff certifies the formulas by.

    Args:
        q: queries (n, d), of float64, float32, bfloat16, float16, complex128 or complex64.
        k: keys (m, d), same dtype. v: values (m, e), same dtype. Any size may be 0 or 1.

    Returns:
        output (n, e) and attn (n, m), equations (1) to (3), in the dtype of the inputs; products of bfloat16 and
        float16 are accumulated in float32.

    Raises:
        TypeError, ValueError: a wrong type, dtype, rank or size; see `jax_ref._validate`. Batch axes: `jax.vmap`.
    """
    validate(q, k, v)
    A = _attn_matrix(q, k)
    output = mm("nm,me->ne", A, v)  #                                            (3)
    return output.astype(q.dtype), A


def _attn_matrix(q: jax.Array, k: jax.Array) -> jax.Array:
    S = mm("nd,md->nm", q, k)  #                                                 (1)
    return jnp.tanh(S).astype(q.dtype)  #                                        (2)


def _D(A):
    # (1 - A)(1 + A) and not 1 - A², which rounds once more: 1 - A is exact for A in [1/2, 1]. What rounding A itself
    # has cost near saturation is lost in either form.
    A = wide(A)
    return (1 - A) * (1 + A)  #                                                  (4)


# First order. Each formula takes the saved output A = attn instead of computing (1) and (2) again.


def _jvp(q, k, v, A, q_dot, k_dot, v_dot):
    T = add(mm("nd,md->nm", q_dot, k), mm("nd,md->nm", q, k_dot))  #             (5)
    A_dot = mul(_D(A), T)  #                                                     (6)
    output_dot = add(mm("nm,me->ne", A_dot, v), mm("nm,me->ne", A, v_dot))  #    (7)
    return narrowed((output_dot, A_dot), q.dtype)


def _vjp(q, k, v, A, output_bar, attn_bar):
    G = add(attn_bar, mm("ne,me->nm", output_bar, v))  #                         (8)
    P = mul(_D(A), G)  #                                                         (9)
    q_bar = mm("nm,md->nd", P, k)  #                                             (10)
    k_bar = mm("nm,nd->md", P, q)  #                                             (11)
    v_bar = mm("nm,ne->me", A, output_bar)  #                                    (12)
    return narrowed((q_bar, k_bar, v_bar), q.dtype)


# Second order, forward over either: the tangent A_dot (A_prime) of the saved output is one more argument.


def _jvp_of_vjp(q, k, v, A, output_bar, attn_bar, q_dot, k_dot, v_dot, A_dot, output_bar_dot, attn_bar_dot):
    D = _D(A)
    G = add(attn_bar, mm("ne,me->nm", output_bar, v))  #                         (8)
    P = mul(D, G)  #                                                             (9)
    G_dot = add(attn_bar_dot, mm("ne,me->nm", output_bar_dot, v), mm("ne,me->nm", output_bar, v_dot))  # (13)
    D_dot = twice_negative(mul(A, A_dot))  #                                     (14)
    P_dot = add(mul(D_dot, G), mul(D, G_dot))  #                                 (15)
    q_bar_dot = add(mm("nm,md->nd", P_dot, k), mm("nm,md->nd", P, k_dot))  #     (16)
    k_bar_dot = add(mm("nm,nd->md", P_dot, q), mm("nm,nd->md", P, q_dot))  #     (17)
    v_bar_dot = add(mm("nm,ne->me", A_dot, output_bar), mm("nm,ne->me", A, output_bar_dot))  # (18)
    return narrowed((q_bar_dot, k_bar_dot, v_bar_dot), q.dtype)


def _jvp_of_jvp(
    q, k, v, A, q_dot, k_dot, v_dot, q_prime, k_prime, v_prime, A_prime, q_dot_prime, k_dot_prime, v_dot_prime
):
    D = _D(A)
    T = add(mm("nd,md->nm", q_dot, k), mm("nd,md->nm", q, k_dot))  #             (5)
    A_dot = mul(D, T)  #                                                         (6)
    T_prime = add(
        mm("nd,md->nm", q_dot_prime, k),
        mm("nd,md->nm", q_dot, k_prime),
        mm("nd,md->nm", q_prime, k_dot),
        mm("nd,md->nm", q, k_dot_prime),
    )  #                                                                         (22)
    D_prime = twice_negative(mul(A, A_prime))  #                                 (14)
    A_dot_prime = add(mul(D_prime, T), mul(D, T_prime))  #                       (23)
    output_dot_prime = add(
        mm("nm,me->ne", A_dot_prime, v),
        mm("nm,me->ne", A_dot, v_prime),
        mm("nm,me->ne", A_prime, v_dot),
        mm("nm,me->ne", A, v_dot_prime),
    )  #                                                                         (24)
    return narrowed((output_dot_prime, A_dot_prime), q.dtype)


# The public formulas: plain functions of the primals and their tangents and cotangents.


def attn_jvp(q, k, v, q_dot, k_dot, v_dot) -> tuple[MaybeZero, ...]:
    """JVP of `attn`, equations (5) to (7): (output_dot (n, e), attn_dot (n, m)).

    The tangents have the shapes and dtype of q, k, v; `None` is an exact zero.
    """
    validate_directions(q, k, v, q_dot=q_dot, k_dot=k_dot, v_dot=v_dot)
    return _jvp(q, k, v, _attn_matrix(q, k), q_dot, k_dot, v_dot)


def attn_vjp(q, k, v, output_bar, attn_bar) -> tuple[MaybeZero, ...]:
    """VJP of `attn`, equations (8) to (12): (q_bar, k_bar, v_bar), shaped like q, k, v.

    The cotangents output_bar (n, e) and attn_bar (n, m) have the dtype of q; `None` is an exact zero.
    """
    validate_directions(q, k, v, output_bar=output_bar, attn_bar=attn_bar)
    return _vjp(q, k, v, _attn_matrix(q, k), output_bar, attn_bar)


def attn_jvp_of_vjp(
    q, k, v, output_bar, attn_bar, q_dot, k_dot, v_dot, output_bar_dot, attn_bar_dot
) -> tuple[MaybeZero, ...]:
    """JVP of `attn_vjp`, equations (13) to (18): the tangents (q_bar_dot, k_bar_dot, v_bar_dot).

    Arguments: those of `attn_vjp`, then a tangent for each. `None` is an exact zero.
    """
    validate_directions(
        q,
        k,
        v,
        output_bar=output_bar,
        attn_bar=attn_bar,
        q_dot=q_dot,
        k_dot=k_dot,
        v_dot=v_dot,
        output_bar_dot=output_bar_dot,
        attn_bar_dot=attn_bar_dot,
    )
    A = _attn_matrix(q, k)
    _, A_dot = _jvp(q, k, v, A, q_dot, k_dot, None)
    return _jvp_of_vjp(q, k, v, A, output_bar, attn_bar, q_dot, k_dot, v_dot, A_dot, output_bar_dot, attn_bar_dot)


def attn_vjp_of_vjp(q, k, v, output_bar, attn_bar, q_bar_bar, k_bar_bar, v_bar_bar) -> tuple[MaybeZero, ...]:
    """VJP of `attn_vjp`, equations (19) and (20): cotangents of q, k, v, output_bar, attn_bar, in this order.

    Arguments: those of `attn_vjp`, then a cotangent for each of its results. `None` is an exact zero. The Hessian of
    ⟨output_bar, output⟩ + ⟨attn_bar, attn⟩ is symmetric, so q, k, v get the JVP of the VJP along (q_bar_bar, k_bar_bar,
    v_bar_bar), (19); the VJP is linear in its cotangents, so they get its transpose, the JVP, (20).
    """
    validate_directions(q, k, v, q_bar_bar=q_bar_bar, k_bar_bar=k_bar_bar, v_bar_bar=v_bar_bar)
    hvp = attn_jvp_of_vjp(q, k, v, output_bar, attn_bar, q_bar_bar, k_bar_bar, v_bar_bar, None, None)  # (19)
    return *hvp, *attn_jvp(q, k, v, q_bar_bar, k_bar_bar, v_bar_bar)  #          (20)


def attn_vjp_of_jvp(q, k, v, q_dot, k_dot, v_dot, output_dot_bar, attn_dot_bar) -> tuple[MaybeZero, ...]:
    """VJP of `attn_jvp`, equation (21): cotangents of q, k, v, q_dot, k_dot, v_dot, in this order.

    Arguments: those of `attn_jvp`, then a cotangent for each of its results. `None` is an exact zero.
    """
    validate_directions(q, k, v, output_dot_bar=output_dot_bar, attn_dot_bar=attn_dot_bar)
    hvp = attn_jvp_of_vjp(q, k, v, output_dot_bar, attn_dot_bar, q_dot, k_dot, v_dot, None, None)
    return *hvp, *attn_vjp(q, k, v, output_dot_bar, attn_dot_bar)  #             (21)


def attn_jvp_of_jvp(
    q, k, v, q_dot, k_dot, v_dot, q_prime, k_prime, v_prime, q_dot_prime, k_dot_prime, v_dot_prime
) -> tuple[MaybeZero, ...]:
    """JVP of `attn_jvp`, equations (22) to (24): the tangents (output_dot_prime, attn_dot_prime).

    Arguments: those of `attn_jvp`, then a second tangent (a prime) for each. `None` is an exact zero.
    """
    validate_directions(
        q,
        k,
        v,
        q_dot=q_dot,
        k_dot=k_dot,
        v_dot=v_dot,
        q_prime=q_prime,
        k_prime=k_prime,
        v_prime=v_prime,
        q_dot_prime=q_dot_prime,
        k_dot_prime=k_dot_prime,
        v_dot_prime=v_dot_prime,
    )
    A = _attn_matrix(q, k)
    _, A_prime = _jvp(q, k, v, A, q_prime, k_prime, None)
    return _jvp_of_jvp(
        q, k, v, A, q_dot, k_dot, v_dot, q_prime, k_prime, v_prime, A_prime, q_dot_prime, k_dot_prime, v_dot_prime
    )


# Registration. JAX differentiates a custom_vjp in reverse only and a custom_jvp in every mode; hence two faces, and a
# first-order rule that is itself a custom_jvp, so that forward over either order is explicit, too. Reverse over
# either is JAX's transpose of these: its stable API attaches one rule a function, and this one serves every mode.


_jvp_rule = jax.custom_jvp(_jvp)
_vjp_rule = jax.custom_jvp(_vjp)


def _jvp_of_jvp_rule(primals, tangents):
    results = _jvp_rule(*primals)
    return results, with_symbolic_zeros(results, _jvp_of_jvp(*primals, *map(none, tangents)))


def _jvp_of_vjp_rule(primals, tangents):
    results = _vjp_rule(*primals)
    return results, with_symbolic_zeros(results, _jvp_of_vjp(*primals, *map(none, tangents)))


_jvp_rule.defjvp(_jvp_of_jvp_rule, symbolic_zeros=True)
_vjp_rule.defjvp(_jvp_of_vjp_rule, symbolic_zeros=True)


@jax.custom_jvp
def attn_ad(q, k, v):
    """attn with its explicit JVP: the face for forward mode, and for any mix of modes.

    Same values, arguments and errors as `attn`. Take this face where forward mode comes first (`jax.jvp`, `jax.jacfwd`,
    `jax.linearize`) and where the mode is the caller's choice; reverse mode is JAX's transpose of the explicit JVP, (5)
    to (7). Take `attn` where reverse mode comes first and should run the explicit VJP, (8) to (12).
    """
    return attn_primal(q, k, v)


def _attn_ad_rule(primals, tangents):
    output, A = attn_ad(*primals)
    tangents = _jvp_rule(*primals, A, *map(none, tangents))
    return (output, A), with_symbolic_zeros((output, A), tangents)


attn_ad.defjvp(_attn_ad_rule, symbolic_zeros=True)


@jax.custom_vjp
def attn(q, k, v):
    """output = attn v, attn = tanh(q kᵀ), with its explicit VJP, equations (1) to (3) and (8) to (12).

    Args:
        q: queries (n, d), of float64, float32, bfloat16, float16, complex128 or complex64.
        k: keys (m, d), same dtype. v: values (m, e), same dtype. Any size may be 0 or 1; batch axes: `jax.vmap`.

    Returns:
        output (n, e) and attn (n, m), in the dtype of the inputs; bfloat16 and float16 accumulate in float32.

    Take this face where reverse mode comes first: `jax.grad`, `jax.vjp`, `jax.jacrev`, `jax.hessian`, and any mode of
    those; a cotangent that is not there costs nothing. JAX refuses forward mode first (`jax.jvp`, `jax.jacfwd`,
    `jax.linearize`) on any `custom_vjp`: take `attn_ad` for it.

    Do not differentiate `jax.vmap(attn)` with neither q nor k mapped, so that the output attn is not mapped either: of
    any `custom_vjp`, JAX (0.10.2) then counts the cotangent of such an output once for every example, and q_bar and
    k_bar are silently wrong; JAX 0.12 raises a ValueError. Map q or k, too (`jnp.broadcast_to`), or take `attn_ad`,
    which is right.

    Raises:
        TypeError, ValueError: a wrong type, dtype, rank or size; see `jax_ref._validate`.
    """
    return attn_ad(q, k, v)


def _attn_fwd(q, k, v):
    # attn_ad and not attn: a custom_vjp inside its own forward rule could not be differentiated forward over reverse.
    q, k, v = jax.tree.map(lambda x: x.value, (q, k, v))  # a tree: what is not an array is refused by attn_ad
    output, A = attn_ad(q, k, v)
    return (output, A), (q, k, v, A)


def _attn_bwd(residuals, cotangents):
    return _vjp_rule(*residuals, *map(none, cotangents))


attn.defvjp(_attn_fwd, _attn_bwd, symbolic_zeros=True)
