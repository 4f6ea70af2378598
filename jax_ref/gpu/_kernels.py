"""The kernels: a block of A, or of P, is made, used and dropped.

`forward` and `backward_of_queries` take a block of queries each and go through the keys; `backward_of_keys` takes a
block of keys and goes through the queries. So every result has one owner, and nothing is added up between programs.
Capital letters, index letters and the numbers in the margin are those of derivation/attn.md.

Sums are float32, and float32 factors are not shortened to TF32. Axes need not be multiples of a block: what lies
outside is loaded as zeros, is no part of A or P, and is not stored. That zeros are not enough is seen where an input
is infinite: 0 times that is NaN.

A is `tanh` and not `tanh.approx`: the latter's relative error, 1.1e-5 where others measured it, could not be seen in
bfloat16, but nobody has measured what it gains here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu
from jaxtyping import Array, Float

from jax_ref._products import MaybeZero, add

LARGEST = 256  # of d and e: a program holds all features of its block
Ref: TypeAlias = Any  # Pallas has no public name for the type of a reference
Queries: TypeAlias = Float[Array, "n d"]
Keys: TypeAlias = Float[Array, "m d"]
Values: TypeAlias = Float[Array, "m e"]


# Indices are int32, as a program's own is: in 64-bit mode those of a loop are int64, and Pallas does not mix them.
_ZERO = np.int32(0)


def _int32(i: jax.Array) -> jax.Array:
    return i.astype(jnp.int32)


class Span(NamedTuple):
    """`size` indices from `start` on, of an axis that has `total`."""

    start: jax.Array | np.int32
    size: int
    total: int

    @property
    def slice(self) -> Any:
        """The indices of the block, for pl.load and pl.store."""
        return pl.ds(self.start, self.size)  # pyright: ignore[reportArgumentType]

    @property
    def inside(self) -> jax.Array:
        """True for each index of the block that lies within the axis, a bool array of shape (size,)."""
        return self.start + jnp.arange(self.size, dtype=jnp.int32) < self.total


class Layout(NamedTuple):
    """The axes of a call, and how they are cut: blocks of `block` queries and keys, with all of their features."""

    n: int
    m: int
    d: int
    e: int
    block: int

    def rows(self, i: jax.Array) -> Span:
        """Block i of the queries."""
        return Span(_int32(i) * self.block, self.block, self.n)

    def columns(self, j: jax.Array) -> Span:
        """Block j of the keys."""
        return Span(_int32(j) * self.block, self.block, self.m)

    @property
    def query_features(self) -> Span:
        """All features of q and k, padded to a power of two."""
        return Span(_ZERO, _padded(self.d), self.d)

    @property
    def value_features(self) -> Span:
        """All features of v, padded to a power of two."""
        return Span(_ZERO, _padded(self.e), self.e)

    @property
    def query_blocks(self) -> int:
        """The number of blocks of queries."""
        return pl.cdiv(self.n, self.block)

    @property
    def key_blocks(self) -> int:
        """The number of blocks of keys."""
        return pl.cdiv(self.m, self.block)

    def result(self, axes: str, dtype: Any) -> jax.ShapeDtypeStruct:
        """The shape, of the named axes, and the dtype of a result."""
        return jax.ShapeDtypeStruct(tuple(getattr(self, axis) for axis in axes), dtype)


def _padded(features: int) -> int:
    """A power of two, as the sizes in a Triton kernel are, and at least 16, as a matrix unit's are."""
    return max(16, pl.next_power_of_2(features))


def _layout(q: jax.Array, k: jax.Array, e: int) -> Layout:
    (n, d), (m, _) = q.shape, k.shape
    # A block of q or v is 16 KiB at most, for shared memory. In float32, which matrix units do not take, a product of
    # 64 x 64 entries is kept in registers, and is too much for them: Triton then spills most of it.
    row_bytes = max(_padded(d), _padded(e)) * q.dtype.itemsize
    return Layout(n, m, d, e, min(32 if q.dtype == "float32" else 64, 2**14 // row_bytes))


def _load(ref: Ref, rows: Span, columns: Span) -> jax.Array:
    return plgpu.load(ref.at[rows.slice, columns.slice], mask=_both(rows, columns), other=jnp.zeros((), ref.dtype))


def _store(ref: Ref, rows: Span, columns: Span, x: jax.Array) -> None:
    plgpu.store(ref.at[rows.slice, columns.slice], x.astype(ref.dtype), mask=_both(rows, columns))


def _both(rows: Span, columns: Span) -> jax.Array:
    return rows.inside[:, None] & columns.inside[None, :]


def _where(mask: jax.Array, x: jax.Array) -> jax.Array:
    return jax.lax.select(mask, x, jnp.zeros_like(x))


def _mm(subscripts: str, x: jax.Array, y: jax.Array) -> jax.Array:
    """One product as `jax_ref._products.mm` has it: factors in the narrower dtype, summed in float32."""
    narrow = min(x.dtype, y.dtype, key=lambda dtype: jnp.finfo(dtype).bits)
    (shared,) = set(subscripts[:2]) & set(subscripts[3:5])
    axes = (subscripts[:2].index(shared),), (subscripts[3:5].index(shared),)
    return jax.lax.dot_general(
        x.astype(narrow),
        y.astype(narrow),
        (axes, ((), ())),
        precision=jax.lax.Precision.HIGHEST,  # no TF32, whatever the caller's default
        preferred_element_type=jnp.float32,
    )


def _D(S: jax.Array) -> jax.Array:
    # 1 - tanh² without tanh, which has no digits left of it near saturation. Nothing overflows: E is at most 1.
    E = jnp.exp(-2 * jnp.abs(S))
    return 4 * E / ((1 + E) * (1 + E))  #                                        (4)


def _A_and_D(q: jax.Array, k: jax.Array) -> tuple[jax.Array, jax.Array]:
    S = _mm("nd,md->nm", q, k)  #                                                (1)
    return jnp.tanh(S).astype(q.dtype), _D(S)  #                                 (2)


def _zeros(rows: Span, columns: Span) -> jax.Array:
    return jnp.zeros((rows.size, columns.size), jnp.float32)


def _forward(layout: Layout, q_ref: Ref, k_ref: Ref, v_ref: Ref, output_ref: Ref, attn_ref: Ref = None) -> None:
    rows, d, e = layout.rows(pl.program_id(0)), layout.query_features, layout.value_features
    q = _load(q_ref, rows, d)

    def step(j: jax.Array, output: jax.Array) -> jax.Array:
        columns = layout.columns(j)
        A, _ = _A_and_D(q, _load(k_ref, columns, d))
        if attn_ref is not None:
            _store(attn_ref, rows, columns, A)
        A = _where(_both(rows, columns), A)
        return output + _mm("nm,me->ne", A, _load(v_ref, columns, e))  #         (3)

    _store(output_ref, rows, e, jax.lax.fori_loop(0, layout.key_blocks, step, _zeros(rows, e)))


class Residuals(NamedTuple):
    """The operands of both backward kernels: arrays, or references to them; `None` for one that is absent.

    Without output_bar v is not read either; without attn a block of it is computed again.
    """

    q: Any
    k: Any
    v: Any
    attn: Any
    output_bar: Any
    attn_bar: Any


def _A_and_P(
    layout: Layout, refs: Residuals, rows: Span, columns: Span, q: jax.Array, k: jax.Array, v: MaybeZero, bar: MaybeZero
) -> tuple[jax.Array, jax.Array]:
    """A block of A and of P, given the blocks of q, k, v and output_bar that it depends on."""
    if refs.attn is None:
        A, D = _A_and_D(q, k)
    else:
        A = _load(refs.attn, rows, columns)
        D = (1 - A) * (1 + A)  #                                                 (4)
    G = None if v is None or bar is None else _mm("ne,me->nm", bar, v)
    if refs.attn_bar is not None:
        G = add(_load(refs.attn_bar, rows, columns), G)  #                       (8)
    assert G is not None
    P = D * G  #                                                                 (9)
    inside = _both(rows, columns)
    return _where(inside, A), _where(inside, P)


def _backward_of_queries(layout: Layout, *args: Ref) -> None:
    refs, q_bar_ref = Residuals(*args[:-1]), args[-1]
    rows, d, e = layout.rows(pl.program_id(0)), layout.query_features, layout.value_features
    q = _load(refs.q, rows, d)
    bar = None if refs.output_bar is None else _load(refs.output_bar, rows, e)

    def step(j: jax.Array, q_bar: jax.Array) -> jax.Array:
        columns = layout.columns(j)
        k = _load(refs.k, columns, d)
        v = None if refs.v is None else _load(refs.v, columns, e)
        _, P = _A_and_P(layout, refs, rows, columns, q, k, v, bar)
        return q_bar + _mm("nm,md->nd", P, k)  #                                 (10)

    _store(q_bar_ref, rows, d, jax.lax.fori_loop(0, layout.key_blocks, step, _zeros(rows, d)))


def _backward_of_keys(layout: Layout, *args: Ref) -> None:
    refs, (k_bar_ref, *v_bar_ref) = Residuals(*args[:6]), args[6:]
    columns, d, e = layout.columns(pl.program_id(0)), layout.query_features, layout.value_features
    k = _load(refs.k, columns, d)
    v = None if refs.v is None else _load(refs.v, columns, e)

    def step(i: jax.Array, bars: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        k_bar, *v_bar = bars
        rows = layout.rows(i)
        q = _load(refs.q, rows, d)
        bar = None if refs.output_bar is None else _load(refs.output_bar, rows, e)
        A, P = _A_and_P(layout, refs, rows, columns, q, k, v, bar)
        k_bar = k_bar + _mm("nm,nd->md", P, q)  #                                (11)
        if bar is None:
            return (k_bar,)
        return k_bar, v_bar[0] + _mm("nm,ne->me", A, bar)  #                     (12)

    zeros = (_zeros(columns, d),) if v is None else (_zeros(columns, d), _zeros(columns, e))
    k_bar, *v_bar = jax.lax.fori_loop(0, layout.query_blocks, step, zeros)
    _store(k_bar_ref, columns, d, k_bar)
    if v_bar:
        _store(v_bar_ref[0], columns, e, v_bar[0])


# The calls. Every axis is at least 1, d and e are at most `LARGEST`. Jitted, since outside of jit Pallas would compile
# a kernel anew at every call.

_AXES = {"q": "nd", "k": "md", "v": "me", "output": "ne", "attn": "nm"}


def _axes(name: str) -> str:
    return _AXES[name.removesuffix("_bar")]


def _call(
    kernel: Callable, layout: Layout, programs: int, inputs: dict[str, MaybeZero], results: tuple[str, ...], **options
) -> tuple[jax.Array, ...]:
    features = max(layout.query_features.size, layout.value_features.size)
    q = inputs["q"]
    assert q is not None
    return pl.pallas_call(
        functools.partial(kernel, layout),
        grid=(programs,),
        out_shape=[layout.result(_axes(name), q.dtype) for name in results],
        compiler_params=plgpu.CompilerParams(num_warps=4 if features <= 64 else 8, num_stages=2),
        name=f"attn{kernel.__name__}",
        **options,
    )(*inputs.values())


@functools.partial(jax.jit, static_argnames=("with_attn", "interpret"))
def forward(q: Queries, k: Keys, v: Values, *, with_attn: bool, interpret: bool) -> tuple[jax.Array, ...]:
    """(output (n, e), attn (n, m)), or (output,) alone: equations (1) to (3), in the dtype of q."""
    layout = _layout(q, k, v.shape[1])
    results = ("output", "attn") if with_attn else ("output",)
    return _call(_forward, layout, layout.query_blocks, {"q": q, "k": k, "v": v}, results, interpret=interpret)


@functools.partial(jax.jit, static_argnames="interpret")
def backward(
    q: Queries, k: Keys, v: Values, attn: MaybeZero, output_bar: MaybeZero, attn_bar: MaybeZero, *, interpret: bool
) -> tuple[MaybeZero, ...]:
    """(q_bar, k_bar, v_bar) of cotangents of which one at least is there: equations (8) to (12), in the dtype of q.

    attn is the matrix if it is to be read, in float32; `None` if a block of it is to be computed again.
    """
    layout = _layout(q, k, v.shape[1])
    present = None if output_bar is None else v
    inputs = Residuals(q, k, present, attn, output_bar, attn_bar)._asdict()
    (q_bar,) = _call(_backward_of_queries, layout, layout.query_blocks, inputs, ("q_bar",), interpret=interpret)
    results = ("k_bar",) if output_bar is None else ("k_bar", "v_bar")
    k_bar, *v_bar = _call(_backward_of_keys, layout, layout.key_blocks, inputs, results, interpret=interpret)
    return q_bar, k_bar, v_bar[0] if v_bar else None
