"""masked(q, k, v, bias, mask) -> (output, attn): attn with a scale, a bias and a mask; its formulas and registration.

Capital letters are the matrices of derivation/model.md, and the numbers in the margin its equations and those of
derivation/attn.md that it keeps. Names and index letters are those of `jax_ref._attn`. One head of one example: callers
map. The formulas return the `wide` dtype, so that sums over blocks (`jax_ref._blockwise`) are rounded once; what is
registered here narrows them.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jax_ref._products import MaybeZero, add, mm, mul, narrowed, twice_negative, wide
from jax_ref._zeros import none, with_symbolic_zeros


def masked_primal(
    scale: float,
    q: Float[Array, "n d"],
    k: Float[Array, "m d"],
    v: Float[Array, "m e"],
    bias: Float[Array, "n|1 m|1"] | None,
    mask: Bool[Array, "n|1 m|1"] | None,
) -> tuple[Float[Array, "n e"], Float[Array, "n m"]]:
    """output = attn v, attn = mask ∘ tanh(scale q kᵀ + bias), in plain JAX with no rule attached.

    Args:
        scale: a number; not differentiated.
        q: queries (n, d). k: keys (m, d). v: values (m, e).
        bias: broadcasts to (n, m); `None` for none. mask: likewise, of booleans; `None` for all true.

    Returns:
        output (n, e) and attn (n, m), equations (104), (105) and (3), in the dtype of q.
    """
    A = attn_matrix(scale, q, k, bias, mask)
    return mm("nm,me->ne", A, v).astype(q.dtype), A  #                           (3)


def attn_matrix(scale: float, q: jax.Array, k: jax.Array, bias: MaybeZero, mask: jax.Array | None) -> jax.Array:
    """A, in the dtype of q."""
    S = add(scale * mm("nd,md->nm", q, k), bias)  #                              (104)
    assert S is not None
    return _where(mask, jnp.tanh(S)).astype(q.dtype)  #                          (105)


def seen(
    mask: jax.Array | None,
    rows: Int[Array, " n"],
    columns: Int[Array, " m"],
    is_causal: bool,
    q_length: Int[Array, ""] | None,
    k_length: Int[Array, ""] | None,
) -> jax.Array | None:
    """Which of these rows and columns of a matrix are not masked, broadcasting to (n, m); `None` for all."""
    row, column = rows[:, None], columns[None, :]
    terms = [
        mask,
        row >= column if is_causal else None,
        None if q_length is None else row < q_length.astype(row.dtype),
        None if k_length is None else column < k_length.astype(column.dtype),
    ]
    present = [term for term in terms if term is not None]
    return functools.reduce(jnp.logical_and, present) if present else None


def narrowed_bars(bars: tuple[MaybeZero, ...], q: jax.Array, bias: MaybeZero) -> tuple[MaybeZero, ...]:
    """(q_bar, k_bar, v_bar, bias_bar) in the dtypes of their primals; a bias may be of float32 where q has 16 bits."""
    return *narrowed(bars[:3], q.dtype), *narrowed(bars[3:], q.dtype if bias is None else bias.dtype)


def _times(scale: float, x: MaybeZero) -> MaybeZero:
    return None if x is None else scale * x


def _where(mask: jax.Array | None, x: jax.Array) -> jax.Array:
    # A choice and no product: the score of a masked entry may be anything, an infinity or NaN, too.
    return x if mask is None else jnp.where(mask, x, 0)


def _D(A: jax.Array, mask: jax.Array | None) -> jax.Array:
    A = wide(A)
    return _where(mask, (1 - A) * (1 + A))  #                                    (106)


def _summed_to(x: MaybeZero, bias: MaybeZero) -> MaybeZero:
    """The transpose of the broadcast of bias to x: the sum over its axes of size 1, (53)."""
    if x is None or bias is None:
        return None
    axes = tuple(axis for axis in (0, 1) if bias.shape[axis] != x.shape[axis])
    return x.sum(axes, keepdims=True)


def _T(scale, q, k, q_dot, k_dot, bias_dot):
    return add(_times(scale, add(mm("nd,md->nm", q_dot, k), mm("nd,md->nm", q, k_dot))), bias_dot)  # (107)


# The formulas: as in jax_ref._attn, with the saved A.


def jvp(scale, q, k, v, bias, mask, A, q_dot, k_dot, v_dot, bias_dot) -> tuple[MaybeZero, ...]:
    """(output_dot, attn_dot)."""
    T = _T(scale, q, k, q_dot, k_dot, bias_dot)  #                               (107)
    A_dot = mul(_D(A, mask), T)  #                                               (6)
    output_dot = add(mm("nm,me->ne", A_dot, v), mm("nm,me->ne", A, v_dot))  #    (7)
    return output_dot, A_dot


def vjp(scale, q, k, v, bias, mask, A, output_bar, attn_bar) -> tuple[MaybeZero, ...]:
    """(q_bar, k_bar, v_bar, bias_bar)."""
    G = add(attn_bar, mm("ne,me->nm", output_bar, v))  #                         (8)
    P = mul(_D(A, mask), G)  #                                                   (9)
    q_bar = _times(scale, mm("nm,md->nd", P, k))  #                              (108)
    k_bar = _times(scale, mm("nm,nd->md", P, q))  #                              (109)
    v_bar = mm("nm,ne->me", A, output_bar)  #                                    (12)
    bias_bar = _summed_to(P, bias)  #                                            (110)
    return q_bar, k_bar, v_bar, bias_bar


def jvp_of_vjp(
    scale, q, k, v, bias, mask, A, output_bar, attn_bar, q_dot, k_dot, v_dot, A_dot, output_bar_dot, attn_bar_dot
) -> tuple[MaybeZero, ...]:
    """(q_bar_dot, k_bar_dot, v_bar_dot, bias_bar_dot); A_dot is the tangent of the saved A, in which bias_dot is."""
    D = _D(A, mask)
    G = add(attn_bar, mm("ne,me->nm", output_bar, v))  #                         (8)
    P = mul(D, G)  #                                                             (9)
    G_dot = add(attn_bar_dot, mm("ne,me->nm", output_bar_dot, v), mm("ne,me->nm", output_bar, v_dot))  # (13)
    D_dot = twice_negative(mul(A, A_dot))  #                                     (14)
    P_dot = add(mul(D_dot, G), mul(D, G_dot))  #                                 (15)
    q_bar_dot = _times(scale, add(mm("nm,md->nd", P_dot, k), mm("nm,md->nd", P, k_dot)))  # (111)
    k_bar_dot = _times(scale, add(mm("nm,nd->md", P_dot, q), mm("nm,nd->md", P, q_dot)))  # (112)
    v_bar_dot = add(mm("nm,ne->me", A_dot, output_bar), mm("nm,ne->me", A, output_bar_dot))  # (18)
    bias_bar_dot = _summed_to(P_dot, bias)  #                                    (113)
    return q_bar_dot, k_bar_dot, v_bar_dot, bias_bar_dot


def jvp_of_jvp(
    scale, q, k, v, bias, mask, A, q_dot, k_dot, v_dot, bias_dot, q_prime, k_prime, v_prime, A_prime,
    q_dot_prime, k_dot_prime, v_dot_prime, bias_dot_prime,
) -> tuple[MaybeZero, ...]:  # fmt: skip
    """(output_dot_prime, attn_dot_prime); A_prime is the second tangent of the saved A, in which bias_prime is."""
    D = _D(A, mask)
    T = _T(scale, q, k, q_dot, k_dot, bias_dot)  #                               (107)
    A_dot = mul(D, T)  #                                                         (6)
    T_prime = add(
        _T(scale, q, k, q_dot_prime, k_dot_prime, bias_dot_prime),
        _times(scale, add(mm("nd,md->nm", q_dot, k_prime), mm("nd,md->nm", q_prime, k_dot))),
    )  #                                                                         (114)
    D_prime = twice_negative(mul(A, A_prime))  #                                 (14)
    A_dot_prime = add(mul(D_prime, T), mul(D, T_prime))  #                       (23)
    output_dot_prime = add(
        mm("nm,me->ne", A_dot_prime, v),
        mm("nm,me->ne", A_dot, v_prime),
        mm("nm,me->ne", A_prime, v_dot),
        mm("nm,me->ne", A, v_dot_prime),
    )  #                                                                         (24)
    return output_dot_prime, A_dot_prime


# The formulas by themselves, as functions of the primals and their tangents and cotangents: what autodiff certifies.


def masked_jvp(scale, q, k, v, bias, mask, q_dot, k_dot, v_dot, bias_dot) -> tuple[MaybeZero, ...]:
    """JVP of `masked`: (output_dot, attn_dot)."""
    A = attn_matrix(scale, q, k, bias, mask)
    return narrowed(jvp(scale, q, k, v, bias, mask, A, q_dot, k_dot, v_dot, bias_dot), q.dtype)


def masked_vjp(scale, q, k, v, bias, mask, output_bar, attn_bar) -> tuple[MaybeZero, ...]:
    """VJP of `masked`: (q_bar, k_bar, v_bar, bias_bar)."""
    A = attn_matrix(scale, q, k, bias, mask)
    return narrowed_bars(vjp(scale, q, k, v, bias, mask, A, output_bar, attn_bar), q, bias)


def masked_jvp_of_vjp(
    scale, q, k, v, bias, mask, output_bar, attn_bar, q_dot, k_dot, v_dot, bias_dot, output_bar_dot, attn_bar_dot
) -> tuple[MaybeZero, ...]:
    """JVP of `masked_vjp`: the tangents of its results."""
    head = scale, q, k, v, bias, mask, attn_matrix(scale, q, k, bias, mask)
    _, A_dot = jvp(*head, q_dot, k_dot, None, bias_dot)
    second = jvp_of_vjp(*head, output_bar, attn_bar, q_dot, k_dot, v_dot, A_dot, output_bar_dot, attn_bar_dot)
    return narrowed_bars(second, q, bias)


def masked_vjp_of_vjp(
    scale, q, k, v, bias, mask, output_bar, attn_bar, q_bar_bar, k_bar_bar, v_bar_bar, bias_bar_bar
) -> tuple[MaybeZero, ...]:
    """VJP of `masked_vjp`, as (19) and (20): cotangents of q, k, v, bias, output_bar, attn_bar."""
    head, bar_bars = (scale, q, k, v, bias, mask), (q_bar_bar, k_bar_bar, v_bar_bar, bias_bar_bar)
    hvp = masked_jvp_of_vjp(*head, output_bar, attn_bar, *bar_bars, None, None)  # (19)
    return *hvp, *masked_jvp(*head, *bar_bars)  #                                (20)


def masked_vjp_of_jvp(
    scale, q, k, v, bias, mask, q_dot, k_dot, v_dot, bias_dot, output_dot_bar, attn_dot_bar
) -> tuple[MaybeZero, ...]:
    """VJP of `masked_jvp`, as (21): cotangents of q, k, v, bias, and of their tangents."""
    head, dots = (scale, q, k, v, bias, mask), (q_dot, k_dot, v_dot, bias_dot)
    hvp = masked_jvp_of_vjp(*head, output_dot_bar, attn_dot_bar, *dots, None, None)
    return *hvp, *masked_vjp(*head, output_dot_bar, attn_dot_bar)  #             (21)


def masked_jvp_of_jvp(
    scale, q, k, v, bias, mask, q_dot, k_dot, v_dot, bias_dot, q_prime, k_prime, v_prime, bias_prime,
    q_dot_prime, k_dot_prime, v_dot_prime, bias_dot_prime,
) -> tuple[MaybeZero, ...]:  # fmt: skip
    """JVP of `masked_jvp`: the tangents of its results."""
    head = scale, q, k, v, bias, mask, attn_matrix(scale, q, k, bias, mask)
    _, A_prime = jvp(*head, q_prime, k_prime, None, bias_prime)
    primes, dots_prime = (q_prime, k_prime, v_prime, A_prime), (q_dot_prime, k_dot_prime, v_dot_prime, bias_dot_prime)
    return narrowed(jvp_of_jvp(*head, q_dot, k_dot, v_dot, bias_dot, *primes, *dots_prime), q.dtype)


# Registration, as in jax_ref._attn: two faces, and first-order rules with an explicit JVP of their own. `scale` is
# static; a mask has no tangent, and its cotangent is None.


_static_scale = functools.partial(jax.custom_jvp, nondiff_argnums=(0,))


@_static_scale
def _jvp_rule(scale, q, k, v, bias, mask, A, *tangents):
    return narrowed(jvp(scale, q, k, v, bias, mask, A, *tangents), q.dtype)


@_static_scale
def _vjp_rule(scale, q, k, v, bias, mask, A, *cotangents):
    return narrowed_bars(vjp(scale, q, k, v, bias, mask, A, *cotangents), q, bias)


def _without_bias_and_mask(tangents: tuple) -> list[MaybeZero]:
    """The tangents of q, k, v, A and what follows: those of the bias are in that of A."""
    return [*map(none, tangents[:3]), *map(none, tangents[5:])]


def _jvp_of_jvp_rule(scale, primals, tangents):
    results = _jvp_rule(scale, *primals)
    second = jvp_of_jvp(scale, *primals, *_without_bias_and_mask(tangents))
    return results, with_symbolic_zeros(results, narrowed(second, primals[0].dtype))


def _jvp_of_vjp_rule(scale, primals, tangents):
    results = _vjp_rule(scale, *primals)
    second = jvp_of_vjp(scale, *primals, *_without_bias_and_mask(tangents))
    return results, with_symbolic_zeros(results, narrowed_bars(second, primals[0], primals[3]))


_jvp_rule.defjvp(_jvp_of_jvp_rule, symbolic_zeros=True)
_vjp_rule.defjvp(_jvp_of_vjp_rule, symbolic_zeros=True)


@_static_scale
def masked_ad(scale, q, k, v, bias, mask):
    """`masked_primal` with its explicit JVP, (107), (6), (7): for forward mode, and for any mix of modes."""
    return masked_primal(scale, q, k, v, bias, mask)


def _masked_ad_rule(scale, primals, tangents):
    output, A = masked_ad(scale, *primals)
    q_dot, k_dot, v_dot, bias_dot, _ = map(none, tangents)
    tangents = _jvp_rule(scale, *primals, A, q_dot, k_dot, v_dot, bias_dot)
    return (output, A), with_symbolic_zeros((output, A), tangents)


masked_ad.defjvp(_masked_ad_rule, symbolic_zeros=True)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def masked(scale, q, k, v, bias, mask):
    """`masked_primal` with its explicit VJP, (8), (9), (108) to (110), (12): for reverse mode first.

    What `jax_ref.attn` says of `jax.vmap` over v alone holds here, too: its callers map q with v.
    """
    return masked_ad(scale, q, k, v, bias, mask)


def _masked_fwd(scale, q, k, v, bias, mask):
    args = jax.tree.map(lambda x: x.value, (q, k, v, bias, mask))
    output, A = masked_ad(scale, *args)
    return (output, A), (*args, A)


def _masked_bwd(scale, residuals, cotangents):
    return *_vjp_rule(scale, *residuals, *map(none, cotangents)), None


masked.defvjp(_masked_fwd, _masked_bwd, symbolic_zeros=True)
