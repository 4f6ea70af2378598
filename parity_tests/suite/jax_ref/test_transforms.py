"""Both faces under every JAX transformation they allow, to 1e-12 of the same transformation of the plain primal."""

import functools
import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from jax_ref import attn, attn_ad, attn_primal
from parity_tests.suite.jax_ref._cases import ALL_DIFFER, Sizes, draw, quick_jit, same

ALL = (0, 1, 2)  # argnums
SIZE = 2  # of a mapped axis


class Inputs(NamedTuple):
    """Primals and constant directions for a mode: two tangents, and cotangents."""

    primals: tuple
    dots: tuple
    primes: tuple
    bars: tuple


def inputs(sizes: Sizes) -> Inputs:
    names = ("q k v", "q_dot k_dot v_dot", "q_prime k_prime v_prime", "output_bar attn_bar")
    return Inputs(*(draw(sizes, name, seed=seed) for seed, name in enumerate(names, 10)))


DIFFER = inputs(ALL_DIFFER)
# One operation outside jit is compiled once for each shape it meets. With equal sizes there are few.
EQUAL = inputs(Sizes(4, 4, 4, 4))

# The pieces. An op is attn, attn_ad or attn_primal; a map takes q, k, v.


def loss(op: Callable, x: Inputs) -> Callable:
    """A scalar map without a linear part in either result, so that their cotangents have tangents in their turn."""

    def scalar(q, k, v):
        return sum(jnp.vdot(bar, jnp.sin(result)) for bar, result in zip(x.bars, op(q, k, v), strict=True))

    return scalar


def grad(f: Callable) -> Callable:
    return jax.grad(f, ALL)


def along(f: Callable, tangents: tuple) -> Callable:
    """The value of a map and its derivative along tangents: one step forward."""
    return lambda *primals: jax.jvp(f, primals, tangents)


def tangent(f: Callable, tangents: tuple) -> Callable:
    """The derivative alone: what the next step in reverse differentiates."""
    return lambda *primals: jax.jvp(f, primals, tangents)[1]


def paired(f: Callable, weights: tuple) -> Callable:
    """The scalar ⟨weights, f⟩ of a map with three results: what the next step in reverse differentiates."""
    return lambda *primals: sum(jnp.vdot(w, x) for w, x in zip(weights, f(*primals), strict=True))


def scanned(op: Callable) -> Callable:
    """Two steps of attention with a residual connection: what one step returns is what the next one asks."""

    def step(q, scale, k, v):
        output, A = op(q, k, v)
        return q + scale * (A @ k), (output, A)

    def both(q, k, v):
        _, results = jax.lax.scan(functools.partial(step, k=k, v=v), q, np.array([0.5, -0.25]))
        return tuple(x.sum(0) for x in results)

    return both


def branched(op: Callable) -> Callable:
    """One branch of a `cond` on a value that jit does not know, taken in one draw and not in another."""
    return lambda q, k, v: jax.lax.cond(q[0, 0] > 0, lambda: op(q, k, v), lambda: op(-2 * q, k, v))


def heads(op: Callable) -> Callable:
    """vmap below the derivative: two heads that share their keys, results stacked along different axes."""

    def both(q, k, v):
        return jax.vmap(op, in_axes=(0, None, -1), out_axes=(1, -1))(
            jnp.stack([q, -2 * q]), k, jnp.stack([v, 3 * v], -1)
        )

    return lambda q, k, v: jax.tree.map(jnp.sum, both(q, k, v), (1, -1))


def hessian(outer: Callable, inner: Callable, f: Callable) -> Callable:
    """All second derivatives, as one matrix over the entries of q, k and v."""

    def matrix(*primals):
        flat, unravel = ravel_pytree(primals)
        return outer(inner(lambda x: f(*unravel(x))))(flat)

    return matrix


# The registry: op, inputs -> a map of the primals. The reverse-first ones are all that JAX allows on a custom_vjp.

REVERSE_FIRST = {
    "value": lambda op, x: op,
    "grad": lambda op, x: grad(loss(op, x)),
    "value_and_grad": lambda op, x: jax.value_and_grad(loss(op, x), ALL),
    "vjp": lambda op, x: lambda *primals: jax.vjp(op, *primals)[1](x.bars),
    "jacrev": lambda op, x: jax.jacrev(op, ALL),
    "transpose_of_linearize": lambda op, x: (
        lambda *primals: jax.linear_transpose(jax.linearize(op, *primals)[1], *primals)(x.bars)
    ),
    "reverse_over_reverse": lambda op, x: grad(paired(grad(loss(op, x)), x.dots)),
    "forward_over_reverse": lambda op, x: along(grad(loss(op, x)), x.dots),
    "linearize_of_grad": lambda op, x: lambda *primals: jax.linearize(grad(loss(op, x)), *primals)[1](*x.dots),
    "reverse_over_reverse_over_reverse": lambda op, x: grad(paired(grad(paired(grad(loss(op, x)), x.dots)), x.primes)),
    "forward_over_forward_over_reverse": lambda op, x: along(along(grad(loss(op, x)), x.dots), x.primes),
    "reverse_over_reverse_in_jit": lambda op, x: grad(paired(grad(loss(jax.jit(op), x)), x.dots)),
    "forward_over_reverse_in_jit": lambda op, x: along(grad(loss(jax.jit(op), x)), x.dots),
    "reverse_over_reverse_in_remat": lambda op, x: grad(paired(grad(loss(jax.checkpoint(op), x)), x.dots)),
    "forward_over_reverse_in_remat": lambda op, x: along(grad(loss(jax.checkpoint(op), x)), x.dots),
    "forward_over_reverse_in_scan": lambda op, x: along(grad(loss(scanned(op), x)), x.dots),
    "forward_over_reverse_in_cond": lambda op, x: along(grad(loss(branched(op), x)), x.dots),
    "forward_over_reverse_in_vmap": lambda op, x: along(grad(loss(heads(op), x)), x.dots),
    "reverse_over_reverse_hessian": lambda op, x: hessian(jax.jacrev, jax.jacrev, loss(op, x)),
    "forward_over_reverse_hessian": lambda op, x: hessian(jax.jacfwd, jax.jacrev, loss(op, x)),
}
FORWARD_FIRST = {
    "jvp": lambda op, x: along(op, x.dots),
    "jacfwd": lambda op, x: jax.jacfwd(op, ALL),
    "linearize": lambda op, x: lambda *primals: jax.linearize(op, *primals)[1](*x.dots),
    "reverse_over_forward": lambda op, x: grad(tangent(loss(op, x), x.dots)),
    "forward_over_forward": lambda op, x: along(along(op, x.dots), x.primes),
    "forward_over_reverse_over_forward": lambda op, x: along(grad(tangent(loss(op, x), x.dots)), x.primes),
    "forward_over_forward_over_forward": lambda op, x: along(along(along(op, x.dots), x.primes), x.dots),
    "reverse_over_forward_in_jit": lambda op, x: grad(tangent(loss(jax.jit(op), x), x.dots)),
    "forward_over_forward_in_jit": lambda op, x: along(along(jax.jit(op), x.dots), x.primes),
    "reverse_over_forward_in_remat": lambda op, x: grad(tangent(loss(jax.checkpoint(op), x), x.dots)),
    "forward_over_forward_in_remat": lambda op, x: along(along(jax.checkpoint(op), x.dots), x.primes),
    "forward_over_forward_in_scan": lambda op, x: along(along(scanned(op), x.dots), x.primes),
    "forward_over_forward_in_cond": lambda op, x: along(along(branched(op), x.dots), x.primes),
    "forward_over_forward_in_vmap": lambda op, x: along(along(heads(op), x.dots), x.primes),
    "reverse_over_forward_hessian": lambda op, x: hessian(jax.jacrev, jax.jacfwd, loss(op, x)),
    "forward_over_forward_hessian": lambda op, x: hessian(jax.jacfwd, jax.jacfwd, loss(op, x)),
}


REFUSED_INSIDE = {mode for mode in FORWARD_FIRST if "over_forward" in mode and "hessian" not in mode}
ZEROS = {"jacrev": {"[1][2]"}, "jacfwd": {"[1][2]"}}  # attn does not depend on v

MODES = REVERSE_FIRST | FORWARD_FIRST
ALLOWED = [pytest.param(attn, name, id=f"attn-{name}") for name in REVERSE_FIRST] + [
    pytest.param(attn_ad, name, id=f"attn_ad-{name}") for name in MODES
]


@functools.cache
def reference(mode: str, equal: bool = False) -> Callable:
    """The mode on the plain primal; compiled once for both faces and every entry of a batch."""
    return quick_jit(MODES[mode](attn_primal, EQUAL if equal else DIFFER))


def mapped(f: Callable, *levels: tuple) -> Callable:
    """f under one vmap for each level of in_axes, the outermost first."""
    for axes in reversed(levels):
        f = jax.vmap(f, axes)
    return f


def by_hand(f: Callable, batch: tuple, *levels: tuple):
    """What `mapped` means: f of each entry of the batch, one after the other."""
    if not levels:
        return f(*batch)
    axes = levels[0]
    entries = [
        by_hand(
            f, tuple(x if axis is None else x.take(i, axis) for x, axis in zip(batch, axes, strict=True)), *levels[1:]
        )
        for i in range(SIZE)
    ]
    return jax.tree.map(lambda *x: np.stack(x), *entries)


def batch_for(*levels: tuple) -> tuple:
    """q, k, v with one more axis, of size SIZE, for each level that maps them."""
    rng = np.random.default_rng(14)
    shapes = [list(x.shape) for x in DIFFER.primals]
    for axes in reversed(levels):
        for x, axis in zip(shapes, axes, strict=True):
            if axis is not None:
                x.insert(axis % (len(x) + 1), SIZE)
    return tuple(0.7 * rng.normal(size=x) for x in shapes)


@pytest.mark.parametrize(("op", "mode"), ALLOWED)
def test_eager(op, mode):
    expected = reference(mode, equal=True)(*EQUAL.primals)
    same(MODES[mode](op, EQUAL)(*EQUAL.primals), expected, zeros=ZEROS.get(mode, False))


@pytest.mark.parametrize(("op", "mode"), ALLOWED)
def test_jit(op, mode):
    expected = reference(mode)(*DIFFER.primals)
    same(quick_jit(MODES[mode](op, DIFFER))(*DIFFER.primals), expected, zeros=ZEROS.get(mode, False))


@pytest.mark.parametrize(("op", "mode"), ALLOWED)
def test_two_vmaps(op, mode):
    """q is mapped by the inner vmap, k by the outer one, v by both, along different and negative axes."""
    levels = (None, -1, 1), (-2, None, 2)
    batch = batch_for(*levels)
    expected = by_hand(reference(mode), batch, *levels)
    same(quick_jit(mapped(MODES[mode](op, DIFFER), *levels))(*batch), expected, zeros=ZEROS.get(mode, False))


IN_AXES = [axes for axes in itertools.product((None, 0, -1), (None, 1, -3), (None, 2, -2)) if axes != (None,) * 3]


@pytest.mark.parametrize("axes", IN_AXES, ids=str)
@pytest.mark.parametrize(
    ("op", "mode"),
    [
        pytest.param(attn, "forward_over_reverse", id="attn"),
        pytest.param(attn_ad, "forward_over_forward", id="attn_ad"),
    ],
)
def test_every_combination_of_in_axes(op, mode, axes):
    """Mapped first, last and in the middle, counted from either end, or not at all, at second order (and so below)."""
    batch = batch_for(axes)
    same(quick_jit(mapped(MODES[mode](op, DIFFER), axes))(*batch), by_hand(reference(mode), batch, axes))


@pytest.mark.parametrize("mode", FORWARD_FIRST)
def test_forward_first_is_refused_on_attn(mode):
    """JAX's own rule on any custom_vjp: a day on which it is lifted shows here, and the list goes.

    Inside another derivative JAX notices only when it differentiates what the forward step left behind.
    """
    error, text = TypeError, "can't apply forward-mode autodiff (jvp) to a custom_vjp function."
    if mode in REFUSED_INSIDE:
        error, text = NotImplementedError, "Differentiation rule for 'custom_lin' not implemented"
    with pytest.raises(Exception) as info:  # noqa: PT011 - the type is compared exactly
        MODES[mode](attn, DIFFER)(*DIFFER.primals)
    assert type(info.value) is error
    assert str(info.value).splitlines()[0] == text


def test_linear_transpose_is_for_attn_ad():
    """output is linear in v: attn_ad can be transposed there; attn, like any custom_vjp, cannot."""
    q, k, v = DIFFER.primals
    transposed = jax.linear_transpose(lambda v: attn_ad(q, k, v)[0], v)(DIFFER.bars[0])
    same(transposed, (np.tanh(q @ k.T).T @ DIFFER.bars[0],))
    with pytest.raises(NotImplementedError, match=r"Transpose rule .* for 'custom_vjp_call' not implemented"):
        jax.linear_transpose(lambda v: attn(q, k, v)[0], v)(DIFFER.bars[0])


def test_the_vjp_of_attn_transposed_is_the_jvp():
    """A way to attn's tangents without forward mode."""
    vjp = jax.vjp(attn, *DIFFER.primals)[1]
    (tangents,) = jax.linear_transpose(vjp, DIFFER.bars)(DIFFER.dots)
    same(tangents, reference("jvp")(*DIFFER.primals)[1])
