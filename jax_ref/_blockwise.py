"""blockwise(q, k, v, bias, mask, ...) -> output: `jax_ref._masked` without the matrix, (n, m), in any direction.

The rows of output depend on their own queries only, so that value, JVP and JVP of JVP are those of blocks of queries,
one below the other, (115). Output is a sum over blocks of keys, so that VJP and JVP of VJP are those of blocks of keys:
of k, v and bias each its own, of q their sum, (116), (117). Nothing is saved but the inputs: a block computes its part
of A again. No formula is written twice: those of a block are those of `jax_ref._masked`.

No more than one block of the matrix is ever held, of `block` rows or half as many columns. A bias or mask of full
size, and a bias's cotangent, are of course as large as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from jax_ref import _masked
from jax_ref._masked import attn_matrix, masked_primal, narrowed_bars, seen
from jax_ref._products import MaybeZero, add, mm, wide
from jax_ref._zeros import none, with_symbolic_zeros

# The arguments of `masked_primal`: scale, q, k, v, bias, mask.
Part: TypeAlias = tuple[float, Any, Any, Any, Any, Any]
Directions: TypeAlias = tuple[MaybeZero, MaybeZero, MaybeZero, MaybeZero]  # of q, k, v, bias


class Static(NamedTuple):
    """The constants of a trace: the scale, whether a query sees only the keys up to it, the size of a block of queries.

    A block of keys is half as large.
    """

    scale: float
    is_causal: bool
    block: int


class Head(NamedTuple):
    """The arguments of one head, as in `masked_primal`, and how many queries and keys there really are."""

    q: jax.Array
    k: jax.Array
    v: jax.Array
    bias: jax.Array | None
    mask: jax.Array | None
    q_length: jax.Array | None
    k_length: jax.Array | None

    def part(self, static: Static, rows: _Block, columns: _Block) -> Part:
        """The arguments of `masked_primal` for some rows and columns of the matrix."""
        mask = seen(
            columns.of(rows.of(self.mask), 1),
            rows.indices,
            columns.indices,
            static.is_causal,
            self.q_length,
            self.k_length,
        )
        bias = columns.of(rows.of(self.bias), 1)
        return static.scale, rows.of(self.q), columns.of(self.k), columns.of(self.v), bias, mask


class _Block(NamedTuple):
    """Indices from start on, size many. What is of size 1 broadcasts, and is a part of every block."""

    start: jax.Array | int
    size: int

    def of(self, x: MaybeZero, axis: int = 0) -> Any:
        """The block of x along an axis; x itself where it broadcasts, None for a zero."""
        if x is None or x.shape[axis] in (1, self.size):
            return x
        return jax.lax.dynamic_slice_in_dim(x, self.start, self.size, axis)

    @property
    def indices(self) -> jax.Array:
        """The indices of the block, an int array of shape (size,)."""
        return self.start + jnp.arange(self.size)


def _fold(f: Callable, carry: Any, count: int, size: int) -> tuple[Any, Any]:
    """carry, y = f(carry, block) for the blocks of `count` indices, one after the other; the y's, concatenated.

    The last block is smaller if need be. Differentiated, a block is computed again instead of saved.
    """
    whole, rest = divmod(count, size)
    if not whole:
        return f(carry, _Block(0, count))

    def step(carry: Any, i: jax.Array) -> tuple[Any, Any]:
        return f(carry, _Block(i * size, size))

    carry, ys = jax.lax.scan(jax.checkpoint(step, prevent_cse=False), carry, jnp.arange(whole))
    ys = jax.tree.map(lambda y: y.reshape(whole * size, *y.shape[2:]), ys)
    if not rest:
        return carry, ys
    carry, last = jax.checkpoint(lambda carry: f(carry, _Block(whole * size, rest)))(carry)
    return carry, jax.tree.map(lambda *y: jnp.concatenate(y), ys, last)


# Over blocks of queries, (115).


def _over_queries(static: Static, head: Head, formula: Callable, *directions: Directions) -> Any:
    """Apply formula(part, directions...) at each block of queries and join the results.

    Directions are shaped like (q, k, v, bias), and cut into blocks as head is.
    """
    (n, _), (m, _) = head.q.shape, head.k.shape
    every_key = _Block(0, m)

    def step(carry: tuple[()], rows: _Block) -> tuple[tuple[()], MaybeZero]:
        parts = ((rows.of(q), k, v, rows.of(bias)) for q, k, v, bias in directions)
        result = formula(head.part(static, rows, every_key), *parts)
        return carry, result

    return _fold(step, (), n, static.block)[1]


def blockwise_primal(static: Static, head: Head) -> jax.Array:
    """output (n, e) of `masked_primal`; its mask besides is that of static, q_length and k_length, see `seen`."""
    return _over_queries(static, head, lambda part: masked_primal(*part)[0])


def _jvp(static: Static, head: Head, dots: Directions) -> MaybeZero:
    def formula(part: Part, dots: Directions) -> MaybeZero:
        output_dot, _ = _masked.jvp(*part, _A(part), *dots)
        return _rounded(output_dot, head)

    return _over_queries(static, head, formula, dots)


def _jvp_of_jvp(static: Static, head: Head, dots: Directions, primes: Directions, dots_prime: Directions) -> MaybeZero:
    def formula(part: Part, dots: Directions, primes: Directions, dots_prime: Directions) -> MaybeZero:
        A = _A(part)
        _, A_prime = _masked.jvp(*part, A, *primes)
        q_prime, k_prime, v_prime, _ = primes
        output_dot_prime, _ = _masked.jvp_of_jvp(*part, A, *dots, q_prime, k_prime, v_prime, A_prime, *dots_prime)
        return _rounded(output_dot_prime, head)

    return _over_queries(static, head, formula, dots, primes, dots_prime)


def _A(part: Part) -> jax.Array:
    scale, q, k, _, bias, mask = part
    return attn_matrix(scale, q, k, bias, mask)


def _rounded(x: MaybeZero, head: Head) -> MaybeZero:
    return None if x is None else x.astype(head.q.dtype)


# Over blocks of keys, (116), (117).


def _over_keys(static: Static, head: Head, formula: Callable) -> tuple[MaybeZero, ...]:
    """Return (q_bar, k_bar, v_bar, bias_bar) over all keys, from formula(part, columns) at each block of keys."""
    (n, _), (m, _) = head.q.shape, head.k.shape
    every_query = _Block(0, n)
    # A bias that all keys share has a sum for its cotangent, too.
    shared = head.bias if head.bias is not None and head.bias.shape[1] == 1 else None

    def step(carry: tuple[jax.Array, MaybeZero], columns: _Block):
        q_bar, bias_bar = carry
        q_part, k_part, v_part, bias_part = formula(head.part(static, every_query, columns), columns)
        if shared is not None:
            bias_bar, bias_part = add(bias_bar, bias_part), None
        columns_first = None if bias_part is None else bias_part.T
        _, *parts = narrowed_bars((None, k_part, v_part, columns_first), head.q, head.bias)
        return (add(q_bar, q_part), bias_bar), tuple(parts)

    zeros = jnp.zeros_like(wide(head.q)), None if shared is None else jnp.zeros_like(wide(shared))
    half = (static.block + 1) // 2  # a derivative holds two matrices of a block where a value holds one
    (q_bar, bias_bar), (k_bar, v_bar, columns_first) = _fold(step, zeros, m, half)
    if shared is None:
        bias_bar = None if columns_first is None else columns_first.T
    return narrowed_bars((q_bar, k_bar, v_bar, bias_bar), head.q, head.bias)


def _vjp(static: Static, head: Head, output_bar: jax.Array) -> tuple[MaybeZero, ...]:
    # Of the transposed matrix. S, G and P are products of q with k and of output_bar with v, so that these change
    # places; two of the three products with A and P are then of rows as they lie, which XLA on CPU does much faster for
    # several heads.
    def formula(part: Part, columns: _Block) -> Directions:
        scale, q, k, v, bias, mask = part
        bias, mask = (None if x is None else x.T for x in (bias, mask))
        A = attn_matrix(scale, k, q, bias, mask)
        k_bar, q_bar, _, bias_bar = _masked.vjp(scale, k, q, output_bar, bias, mask, A, v, None)
        return q_bar, k_bar, mm("mn,ne->me", A, output_bar), None if bias_bar is None else bias_bar.T  # (12)

    return _over_keys(static, head, formula)


def _jvp_of_vjp(
    static: Static, head: Head, output_bar: jax.Array, dots: Directions, output_bar_dot: MaybeZero
) -> tuple[MaybeZero, ...]:
    q_dot, k_dot, v_dot, bias_dot = dots

    def formula(part: Part, columns: _Block) -> tuple[MaybeZero, ...]:
        A, dots = _A(part), (q_dot, columns.of(k_dot), columns.of(v_dot))
        _, A_dot = _masked.jvp(*part, A, *dots, columns.of(bias_dot, 1))
        return _masked.jvp_of_vjp(*part, A, output_bar, None, *dots, A_dot, output_bar_dot, None)

    return _over_keys(static, head, formula)


# Registration, as in jax_ref._masked; there is no saved A. Integers and booleans have no tangents.

COUNT = len(Head._fields)
_static = functools.partial(jax.custom_jvp, nondiff_argnums=(0,))


@_static
def _jvp_rule(static, *args):
    return (_jvp(static, Head(*args[:COUNT]), args[COUNT:]),)


@_static
def _vjp_rule(static, *args):
    *head, output_bar = args
    return _vjp(static, Head(*head), output_bar)


def _jvp_of_jvp_rule(static, primals, tangents):
    results, tangents = _jvp_rule(static, *primals), tuple(map(none, tangents))
    second = _jvp_of_jvp(static, Head(*primals[:COUNT]), primals[COUNT:], tangents[:4], tangents[COUNT:])
    return results, with_symbolic_zeros(results, (second,))


def _jvp_of_vjp_rule(static, primals, tangents):
    results, tangents = _vjp_rule(static, *primals), tuple(map(none, tangents))
    second = _jvp_of_vjp(static, Head(*primals[:COUNT]), primals[COUNT], tangents[:4], tangents[COUNT])
    return results, with_symbolic_zeros(results, second)


_jvp_rule.defjvp(_jvp_of_jvp_rule, symbolic_zeros=True)
_vjp_rule.defjvp(_jvp_of_vjp_rule, symbolic_zeros=True)


@_static
def blockwise_ad(static, q, k, v, bias, mask, q_length, k_length):
    """`blockwise_primal` with its explicit JVP: for forward mode, and for any mix of modes."""
    return blockwise_primal(static, Head(q, k, v, bias, mask, q_length, k_length))


def _blockwise_ad_rule(static, primals, tangents):
    output = blockwise_ad(static, *primals)
    dots = _jvp_rule(static, *primals, *map(none, tangents[:4]))
    return output, with_symbolic_zeros((output,), dots)[0]


blockwise_ad.defjvp(_blockwise_ad_rule, symbolic_zeros=True)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def blockwise(static, q, k, v, bias, mask, q_length, k_length):
    """`blockwise_primal` with its explicit VJP: for reverse mode first."""
    return blockwise_ad(static, q, k, v, bias, mask, q_length, k_length)


def _blockwise_fwd(static, *args):
    args = jax.tree.map(lambda x: x.value, args)
    return blockwise_ad(static, *args), args


def _blockwise_bwd(static, residuals, output_bar):
    output_bar = none(output_bar)
    bars = (None,) * 4 if output_bar is None else _vjp_rule(static, *residuals, output_bar)
    return *bars, None, None, None


blockwise.defvjp(_blockwise_fwd, _blockwise_bwd, symbolic_zeros=True)
