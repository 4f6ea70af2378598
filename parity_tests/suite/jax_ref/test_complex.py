"""complex128: JAX's convention, in which a VJP is the plain transpose and no formula conjugates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_ref import attn, attn_ad, attn_jvp, attn_jvp_of_jvp, attn_primal, attn_vjp
from parity_tests.suite.jax_ref._cases import ALL_DIFFER, FORMULAS, Formula, draw, quick_jit, same
from parity_tests.suite.marks import fast

faces = pytest.mark.parametrize("op", [pytest.param(attn, id="attn"), pytest.param(attn_ad, id="attn_ad")])


def complex_draw(names: str | tuple[str, ...], seed: int) -> tuple[np.ndarray, ...]:
    return draw(ALL_DIFFER, names, seed=seed, complex=True)


@pytest.mark.parametrize("op", [attn, attn_ad, attn_primal], ids=["attn", "attn_ad", "attn_primal"])
def test_the_values_are_numpy_s(op):
    """Autodiff of a primal that conjugates k would agree with formulas that do; NumPy does not."""
    q, k, v = complex_draw("q k v", seed=50)
    A = np.tanh(q @ k.T)
    same(op(q, k, v), (A @ v, A))


@fast("attn_jvp", "attn_vjp")
@pytest.mark.parametrize("formula", [pytest.param(formula, id=name) for name, formula in FORMULAS.items()])
def test_formula_equals_autodiff(formula: Formula):
    args = complex_draw(formula.arguments, seed=51)
    expected = quick_jit(formula.autodiff)(*args)
    same(formula.explicit(*args), expected)
    with pytest.raises(AssertionError):  # the comparison sees a conjugate
        same(jax.tree.map(jnp.conj, formula.explicit(*args)), expected)


@pytest.mark.parametrize("formula", [pytest.param(formula, id=name) for name, formula in FORMULAS.items()])
def test_each_argument_conjugated_is_noticed(formula: Formula):
    """No argument is so drawn, or so used, that its conjugate would give the same result."""
    args = complex_draw(formula.arguments, seed=51)
    explicit = quick_jit(formula.explicit)
    results = explicit(*args)
    for i in range(len(args)):
        with pytest.raises(AssertionError):
            same(explicit(*args[:i], args[i].conj(), *args[i + 1 :]), results)


def derivative_on_a_circle(f, *args_and_directions) -> tuple[np.ndarray, ...]:
    """f'(x)[t] by Cauchy's integral over x + r exp(iφ) t: NumPy only, and as accurate as f, since f is analytic.

    With 32 points the error is r³² where the series of f converges at distance 1: nothing at r = 0.1.
    """
    half = len(args_and_directions) // 2
    args, directions = args_and_directions[:half], args_and_directions[half:]
    steps = 0.1 * np.exp(2j * np.pi * np.arange(32) / 32)
    values = [f(*(x + step * t for x, t in zip(args, directions, strict=True))) for step in steps]
    return tuple(
        np.mean([x / step for x, step in zip(of_one, steps, strict=True)], 0) for of_one in zip(*values, strict=True)
    )


def numpy_attn(q, k, v):
    A = np.tanh(q @ k.T)
    return A @ v, A


def test_tangents_are_those_of_cauchy_s_integral():
    """A witness apart from JAX, for the first order and, applied twice, for the second."""
    q_to_v_dot = complex_draw("q k v q_dot k_dot v_dot", seed=52)
    same(attn_jvp(*q_to_v_dot), derivative_on_a_circle(numpy_attn, *q_to_v_dot))

    def numpy_jvp(*args):
        return derivative_on_a_circle(numpy_attn, *args)

    args = complex_draw(FORMULAS["attn_jvp_of_jvp"].arguments, seed=53)
    same(attn_jvp_of_jvp(*args), derivative_on_a_circle(numpy_jvp, *args))


def pairing(x: tuple, y: tuple) -> jax.Array:
    """Σ x y: not the inner product, which conjugates."""
    return sum(np.sum(np.asarray(a) * np.asarray(b)) for a, b in zip(x, y, strict=True))


def test_vjp_is_the_plain_transpose_of_jvp():
    """⟨bar, J dot⟩ = ⟨Jᵀ bar, dot⟩ without a conjugate; a VJP that is the adjoint Jᴴ does not satisfy it."""
    primals, dots = complex_draw("q k v", seed=54), complex_draw("q_dot k_dot v_dot", seed=55)
    bars = complex_draw("output_bar attn_bar", seed=56)
    left = pairing(bars, attn_jvp(*primals, *dots))
    right = pairing(attn_vjp(*primals, *bars), dots)
    adjoint = pairing(jax.tree.map(np.conj, attn_vjp(*primals, *jax.tree.map(np.conj, bars))), dots)
    np.testing.assert_allclose(right, left, rtol=1e-12)
    assert abs(adjoint - left) > 0.1 * abs(left)


@faces
def test_gradient_of_a_real_loss(op):
    """The loss of a complex model: JAX's gradient of |output|² + |attn|², of which descent takes the conjugate."""
    primals = complex_draw("q k v", seed=57)

    def gradient(op):
        return jax.grad(lambda *primals: sum(jnp.sum(jnp.abs(x) ** 2) for x in op(*primals)), (0, 1, 2))

    same(quick_jit(gradient(op))(*primals), quick_jit(gradient(attn_primal))(*primals))


@pytest.mark.slow
@faces
def test_second_order(op):
    """Forward over reverse and reverse over reverse of a holomorphic scalar."""
    primals, dots = complex_draw("q k v", seed=58), complex_draw("q_dot k_dot v_dot", seed=59)

    def both(op):
        gradient = jax.grad(
            lambda *primals: sum(jnp.sum(jnp.sin(x)) for x in op(*primals)), (0, 1, 2), holomorphic=True
        )
        return lambda *primals: (jax.jvp(gradient, primals, dots), jax.vjp(gradient, *primals)[1](dots))

    same(quick_jit(both(op))(*primals), quick_jit(both(attn_primal))(*primals))
