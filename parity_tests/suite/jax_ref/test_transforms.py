"""Both faces under every JAX transformation they allow, to 1e-12 of the same transformation of the plain primal."""

import functools
import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from jax_ref import attn, attn_ad, attn_primal
from parity_tests.suite.jax_ref._cases import Sizes, draw, quick_jit, same
from parity_tests.suite.marks import fast
from parity_tests.suite.rotation import rotating

# Equal sizes: an operation outside jit is compiled once for each shape, and of these there are few then. Axes that
# differ are the business of test_formulas and test_sizes.
SIZES = Sizes(4, 4, 4, 4)
PRIMALS = draw(SIZES, "q k v", seed=10)
DOTS = draw(SIZES, "q_dot k_dot v_dot", seed=11)
PRIMES = draw(SIZES, "q_prime k_prime v_prime", seed=12)
BARS = draw(SIZES, "output_bar attn_bar", seed=13)
BATCH = 2  # the size of a mapped axis
ALL = (0, 1, 2)  # argnums

# The pieces. An op is attn, attn_ad or attn_primal; a map takes q, k, v.


def loss(op: Callable) -> Callable:
    """A scalar map without a linear part in either result, so that their cotangents have tangents in their turn."""

    def scalar(q, k, v):
        return sum(jnp.vdot(bar, jnp.sin(result)) for bar, result in zip(BARS, op(q, k, v), strict=True))

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
    """A `cond` on a value that jit does not know, and that vmap makes different for each entry of a batch."""
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


# The registry: op -> a map of q, k, v. The reverse-first ones are all that JAX allows on a custom_vjp.

REVERSE_FIRST = {
    "value": lambda op: op,
    "grad": lambda op: grad(loss(op)),
    "value_and_grad": lambda op: jax.value_and_grad(loss(op), ALL),
    "vjp": lambda op: lambda *primals: jax.vjp(op, *primals)[1](BARS),
    "jacrev": lambda op: jax.jacrev(op, ALL),
    "transpose_of_linearize": lambda op: (
        lambda *primals: jax.linear_transpose(jax.linearize(op, *primals)[1], *primals)(BARS)
    ),
    "reverse_over_reverse": lambda op: grad(paired(grad(loss(op)), DOTS)),
    "forward_over_reverse": lambda op: along(grad(loss(op)), DOTS),
    "linearize_of_grad": lambda op: lambda *primals: jax.linearize(grad(loss(op)), *primals)[1](*DOTS),
    "reverse_over_reverse_over_reverse": lambda op: grad(paired(grad(paired(grad(loss(op)), DOTS)), PRIMES)),
    "forward_over_forward_over_reverse": lambda op: along(along(grad(loss(op)), DOTS), PRIMES),
    "reverse_over_reverse_in_jit": lambda op: grad(paired(grad(loss(jax.jit(op))), DOTS)),
    "forward_over_reverse_in_jit": lambda op: along(grad(loss(jax.jit(op))), DOTS),
    "reverse_over_reverse_in_remat": lambda op: grad(paired(grad(loss(jax.checkpoint(op))), DOTS)),
    "forward_over_reverse_in_remat": lambda op: along(grad(loss(jax.checkpoint(op))), DOTS),
    "forward_over_reverse_in_scan": lambda op: along(grad(loss(scanned(op))), DOTS),
    "forward_over_reverse_in_cond": lambda op: along(grad(loss(branched(op))), DOTS),
    "forward_over_reverse_in_vmap": lambda op: along(grad(loss(heads(op))), DOTS),
    "reverse_over_reverse_hessian": lambda op: hessian(jax.jacrev, jax.jacrev, loss(op)),
    "forward_over_reverse_hessian": lambda op: hessian(jax.jacfwd, jax.jacrev, loss(op)),
}
FORWARD_FIRST = {
    "jvp": lambda op: along(op, DOTS),
    "jacfwd": lambda op: jax.jacfwd(op, ALL),
    "linearize": lambda op: lambda *primals: jax.linearize(op, *primals)[1](*DOTS),
    "reverse_over_forward": lambda op: grad(tangent(loss(op), DOTS)),
    "forward_over_forward": lambda op: along(along(op, DOTS), PRIMES),
    "forward_over_reverse_over_forward": lambda op: along(grad(tangent(loss(op), DOTS)), PRIMES),
    "forward_over_forward_over_forward": lambda op: along(along(along(op, DOTS), PRIMES), DOTS),
    "reverse_over_forward_in_jit": lambda op: grad(tangent(loss(jax.jit(op)), DOTS)),
    "forward_over_forward_in_jit": lambda op: along(along(jax.jit(op), DOTS), PRIMES),
    "reverse_over_forward_in_remat": lambda op: grad(tangent(loss(jax.checkpoint(op)), DOTS)),
    "forward_over_forward_in_remat": lambda op: along(along(jax.checkpoint(op), DOTS), PRIMES),
    "forward_over_forward_in_scan": lambda op: along(along(scanned(op), DOTS), PRIMES),
    "forward_over_forward_in_cond": lambda op: along(along(branched(op), DOTS), PRIMES),
    "forward_over_forward_in_vmap": lambda op: along(along(heads(op), DOTS), PRIMES),
    "reverse_over_forward_hessian": lambda op: hessian(jax.jacrev, jax.jacfwd, loss(op)),
    "forward_over_forward_hessian": lambda op: hessian(jax.jacfwd, jax.jacfwd, loss(op)),
}
REFUSED_INSIDE = {mode for mode in FORWARD_FIRST if "over_forward" in mode and "hessian" not in mode}
# Not tested outside jit. JAX compiles a scan and a cond in any case; a Hessian is a vmap of second derivatives that are
# tested themselves, and takes seconds operation by operation.
COMPILED = ("scan", "cond", "hessian")
ZEROS = {"jacrev": {"[1][2]"}, "jacfwd": {"[1][2]"}}  # attn does not depend on v

MODES = REVERSE_FIRST | FORWARD_FIRST
ALLOWED = [pytest.param(attn, name, id=f"attn-{name}") for name in REVERSE_FIRST] + [
    pytest.param(attn_ad, name, id=f"attn_ad-{name}") for name in MODES
]


@functools.cache
def reference(mode: str) -> Callable:
    """The mode on the plain primal; compiled once for both faces and every entry of a batch."""
    return quick_jit(MODES[mode](attn_primal))


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
        for i in range(BATCH)
    ]
    return jax.tree.map(lambda *x: np.stack(x), *entries)


def batch_for(*levels: tuple) -> tuple:
    """q, k, v with one more axis, of size BATCH, for each level that maps them."""
    rng = np.random.default_rng(14)
    shapes = [list(x.shape) for x in PRIMALS]
    for axes in reversed(levels):
        for x, axis in zip(shapes, axes, strict=True):
            if axis is not None:
                x.insert(axis % (len(x) + 1), BATCH)
    return tuple(0.7 * rng.normal(size=x) for x in shapes)


@pytest.mark.slow
@rotating(5)
@pytest.mark.parametrize(("op", "mode"), [x for x in ALLOWED if not x.values[1].endswith(COMPILED)])
def test_eager(op, mode):
    same(MODES[mode](op)(*PRIMALS), reference(mode)(*PRIMALS), zeros=ZEROS.get(mode, False))


@rotating(5)
@fast("*-value", "*-grad", "attn-transpose_of_linearize", "attn_ad-jvp")
@pytest.mark.parametrize(("op", "mode"), ALLOWED)
def test_jit(op, mode):
    expected = reference(mode)(*PRIMALS)
    same(quick_jit(MODES[mode](op))(*PRIMALS), expected, zeros=ZEROS.get(mode, False))


@pytest.mark.slow
@rotating(5)
@pytest.mark.parametrize(("op", "mode"), ALLOWED)
def test_two_vmaps(op, mode):
    """q is mapped by the inner vmap, k by the outer one, v by both, along different and negative axes."""
    levels = (None, -1, 1), (-2, None, 2)
    batch = batch_for(*levels)
    assert set((batch[0][0, :, 0] > 0).tolist()) == {True, False}, "both branches of the cond"
    expected = by_hand(reference(mode), batch, *levels)
    same(quick_jit(mapped(MODES[mode](op), *levels))(*batch), expected, zeros=ZEROS.get(mode, False))


IN_AXES = [axes for axes in itertools.product((None, 0, -1), (None, 1, -3), (None, 2, -2)) if axes != (None,) * 3]


@rotating(5)
@fast("*-(None, None, 2)", "*-(0, 1, 2)", "*-(0, None, -2)")
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
    same(quick_jit(mapped(MODES[mode](op), axes))(*batch), by_hand(reference(mode), batch, axes))


def _grad_of_mapped(op: Callable, axes: tuple) -> tuple:
    """Gradients through a vmap, of all the results of all examples."""

    def total(*batch):
        return sum(jnp.vdot(w, jnp.sin(y)) for w, y in zip(weights, jax.vmap(op, axes)(*batch), strict=True))

    weights = [np.stack([bar, 3 * bar]) for bar in BARS]
    return quick_jit(grad(total))(*batch_for(axes))


@pytest.mark.parametrize(
    ("op", "axes"),
    [(attn, (0, None, 0)), (attn, (None, 0, 0)), (attn, (0, 0, 0)), (attn_ad, (None, None, 0)), (attn_ad, (0, 0, 0))],
)
def test_gradients_through_vmap(op, axes):
    same(_grad_of_mapped(op, axes), _grad_of_mapped(attn_primal, axes))


def test_gradients_of_attn_through_vmap_of_v_alone_are_wrong():
    """JAX's mistake, which the docstring of `attn` and the README warn of; where it is gone, the warning must go."""
    right = _grad_of_mapped(attn_primal, (None, None, 0))
    try:
        wrong = _grad_of_mapped(attn, (None, None, 0))
    except ValueError as error:
        assert "has a primal output that is shared across the batch" in str(error)  # noqa: PT017 - from JAX 0.12 on
        return
    same(wrong[2:], right[2:])
    for i in range(2):
        assert np.max(np.abs(wrong[i] - right[i])) > 0.1 * np.max(np.abs(right[i]))


@fast("jvp", "linearize", "reverse_over_forward_in_jit", "forward_over_forward_in_scan")
@pytest.mark.parametrize("mode", FORWARD_FIRST)
def test_forward_first_is_refused_on_attn(mode):
    """JAX's own rule on any custom_vjp: a day on which it is lifted shows here, and the list goes.

    Inside another derivative JAX notices only when it differentiates what the forward step left behind.
    """
    error, text = TypeError, "can't apply forward-mode autodiff (jvp) to a custom_vjp function."
    if mode in REFUSED_INSIDE:
        error, text = NotImplementedError, "Differentiation rule for 'custom_lin' not implemented"
    with pytest.raises(Exception) as info:  # noqa: PT011 - the type is compared exactly
        MODES[mode](attn)(*PRIMALS)
    assert type(info.value) is error
    assert str(info.value).splitlines()[0] == text


def test_linear_transpose_is_for_attn_ad():
    """output is linear in v: attn_ad can be transposed there; attn, like any custom_vjp, cannot."""
    q, k, v = PRIMALS
    transposed = jax.linear_transpose(lambda v: attn_ad(q, k, v)[0], v)(BARS[0])
    same(transposed, (np.tanh(q @ k.T).T @ BARS[0],))
    with pytest.raises(NotImplementedError, match=r"Transpose rule .* for 'custom_vjp_call' not implemented"):
        jax.linear_transpose(lambda v: attn(q, k, v)[0], v)(BARS[0])


def test_the_vjp_of_attn_transposed_is_the_jvp():
    """A way to attn's tangents without forward mode."""
    vjp = jax.vjp(attn, *PRIMALS)[1]
    (tangents,) = jax.linear_transpose(vjp, BARS)(DOTS)
    same(tangents, reference("jvp")(*PRIMALS)[1])
