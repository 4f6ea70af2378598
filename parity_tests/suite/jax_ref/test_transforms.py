"""Both faces under every JAX transformation they allow, to 1e-12 of the same transformation of the plain primal."""

import functools
import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_ref import attn, attn_ad, attn_primal
from parity_tests.suite.jax_ref._cases import ALL_DIFFER, draw, quick_jit, same

PRIMALS = draw(ALL_DIFFER, "q k v", seed=10)
DOTS = draw(ALL_DIFFER, "q_dot k_dot v_dot", seed=11)
PRIMES = draw(ALL_DIFFER, "q_prime k_prime v_prime", seed=12)
BARS = draw(ALL_DIFFER, "output_bar attn_bar", seed=13)
ALL = (0, 1, 2)  # argnums

# The pieces. An op is attn, attn_ad or attn_primal; a map takes q, k, v.


def loss(op: Callable) -> Callable:
    """A scalar map without a linear part in either result, so that their cotangents have tangents in their turn."""

    def scalar(q, k, v):
        output, A = op(q, k, v)
        return jnp.vdot(BARS[0], jnp.sin(output)) + jnp.vdot(BARS[1], jnp.sin(A))

    return scalar


def grad(f: Callable) -> Callable:
    return jax.grad(f, ALL)


def along(f: Callable, tangents: tuple) -> Callable:
    """The derivative of a map along tangents: one step forward."""
    return lambda *primals: jax.jvp(f, primals, tangents)[1]


def paired(f: Callable, weights: tuple) -> Callable:
    """The scalar ⟨weights, f⟩ of a map with three results: what the next step in reverse differentiates."""
    return lambda *primals: sum(jnp.vdot(w, x) for w, x in zip(weights, f(*primals), strict=True))


def scanned(op: Callable) -> Callable:
    """Two steps of attention with residual connection, as a model has them: attn feeds the next step's queries."""

    def step(q, scale, k, v):
        output, A = op(q, k, v)
        return q + scale * (A @ k), output

    return lambda q, k, v: jax.lax.scan(functools.partial(step, k=k, v=v), q, np.array([0.5, -0.25]))[::-1]


def branched(op: Callable) -> Callable:
    """One branch of a `cond` on a value that jit does not know, taken in one draw and not in another."""
    return lambda q, k, v: jax.lax.cond(q[0, 0] > 0, lambda: op(q, k, v), lambda: op(-2 * q, k, v))


# The registry: transformation of an op -> map. The reverse-first ones are all that JAX allows on a custom_vjp.

REVERSE_FIRST = {
    "value": lambda op: op,
    "grad": lambda op: grad(loss(op)),
    "value_and_grad": lambda op: jax.value_and_grad(loss(op), ALL),
    "vjp": lambda op: lambda *primals: jax.vjp(op, *primals)[1](BARS),
    "jacrev": lambda op: jax.jacrev(op, ALL),
    "reverse_over_reverse_hessian": lambda op: jax.jacrev(jax.jacrev(loss(op), ALL), ALL),
    "forward_over_reverse_hessian": lambda op: jax.hessian(loss(op), ALL),
    "reverse_over_reverse": lambda op: grad(paired(grad(loss(op)), DOTS)),
    "forward_over_reverse": lambda op: along(grad(loss(op)), DOTS),
    "linearize_of_grad": lambda op: lambda *primals: jax.linearize(grad(loss(op)), *primals)[1](*DOTS),
    "reverse_over_reverse_over_reverse": lambda op: grad(paired(grad(paired(grad(loss(op)), DOTS)), PRIMES)),
    "forward_over_forward_over_reverse": lambda op: along(along(grad(loss(op)), DOTS), PRIMES),
    "remat_grad": lambda op: grad(loss(jax.checkpoint(op))),
    "remat_forward_over_reverse": lambda op: along(grad(loss(jax.checkpoint(op))), DOTS),
    "remat_reverse_over_reverse": lambda op: grad(paired(grad(loss(jax.checkpoint(op))), DOTS)),
    "scan_grad": lambda op: grad(loss_of_scan(op)),
    "scan_forward_over_reverse": lambda op: along(grad(loss_of_scan(op)), DOTS),
    "cond_grad": lambda op: grad(loss(branched(op))),
    "cond_forward_over_reverse": lambda op: along(grad(loss(branched(op))), DOTS),
}
FORWARD_FIRST = {
    "jvp": lambda op: lambda *primals: jax.jvp(op, primals, DOTS),
    "jacfwd": lambda op: jax.jacfwd(op, ALL),
    "linearize": lambda op: lambda *primals: jax.linearize(op, *primals)[1](*DOTS),
    "transpose_of_linearize": lambda op: (
        lambda *primals: jax.linear_transpose(jax.linearize(op, *primals)[1], *primals)(BARS)
    ),
    "reverse_over_forward_hessian": lambda op: jax.jacrev(jax.jacfwd(loss(op), ALL), ALL),
    "forward_over_forward_hessian": lambda op: jax.jacfwd(jax.jacfwd(loss(op), ALL), ALL),
    "reverse_over_forward": lambda op: grad(along(loss(op), DOTS)),
    "forward_over_forward": lambda op: along(along(op, DOTS), PRIMES),
    "forward_over_reverse_over_forward": lambda op: along(grad(along(loss(op), DOTS)), PRIMES),
    "forward_over_forward_over_forward": lambda op: along(along(along(op, DOTS), PRIMES), DOTS),
    "remat_jvp": lambda op: along(jax.checkpoint(op), DOTS),
    "remat_forward_over_forward": lambda op: along(along(jax.checkpoint(op), DOTS), PRIMES),
    "remat_reverse_over_forward": lambda op: grad(along(loss(jax.checkpoint(op)), DOTS)),
    "scan_jvp": lambda op: along(scanned(op), DOTS),
    "scan_forward_over_forward": lambda op: along(along(scanned(op), DOTS), PRIMES),
    "cond_jvp": lambda op: along(branched(op), DOTS),
    "cond_forward_over_forward": lambda op: along(along(branched(op), DOTS), PRIMES),
}


def loss_of_scan(op: Callable) -> Callable:
    def scalar(q, k, v):
        outputs, q_last = scanned(op)(q, k, v)
        return jnp.vdot(BARS[0], jnp.sin(outputs).sum(0)) + jnp.vdot(PRIMES[0], q_last)

    return scalar


ZEROS = {"jacrev": {"[1][2]"}, "jacfwd": {"[1][2]"}}  # attn does not depend on v

MODES = REVERSE_FIRST | FORWARD_FIRST
ALLOWED = [pytest.param(attn, name, id=f"attn-{name}") for name in REVERSE_FIRST] + [
    pytest.param(attn_ad, name, id=f"attn_ad-{name}") for name in MODES
]


@functools.cache
def reference(mode: str) -> Callable:
    """The mode on the plain primal; compiled once for both faces and all batch entries."""
    return quick_jit(MODES[mode](attn_primal))


def batched(primals: list[tuple], axes: tuple) -> tuple:
    """q, k, v with the draws of the batch along the mapped axes; an argument that is not mapped is the first draw's."""
    return tuple(x[0] if axis is None else np.stack(x, axis) for x, axis in zip(zip(*primals), axes, strict=True))


def expected(mode: str, primals: list[tuple], axes: tuple):
    """vmap by hand: one evaluation for each entry of the batch."""
    each = [[x[0] if axis is None else x[i] for x, axis in zip(zip(*primals), axes)] for i in range(len(primals))]
    return jax.tree.map(lambda *x: np.stack(x), *(reference(mode)(*args) for args in each))


@pytest.mark.parametrize(("op", "mode"), ALLOWED)
def test_eager(op, mode):
    same(MODES[mode](op)(*PRIMALS), reference(mode)(*PRIMALS), zeros=ZEROS.get(mode, False))


@pytest.mark.parametrize(("op", "mode"), ALLOWED)
def test_jit(op, mode):
    same(jax.jit(MODES[mode](op))(*PRIMALS), reference(mode)(*PRIMALS), zeros=ZEROS.get(mode, False))
