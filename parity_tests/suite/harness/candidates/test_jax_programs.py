"""What runs operation by operation has JAX's own bits, and few programs are compiled for it."""

from __future__ import annotations

import itertools
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import JaxCandidate, OpSpec, crosscheck
from parity_tests.harness.candidates.jax_programs import Programs
from parity_tests.harness.numbers.numerics import pinned_jax
from parity_tests.suite.marks import fast
from parity_tests.suite.rotation import rotating


@pytest.fixture(autouse=True)
def _pinned():
    with pinned_jax():
        yield


def array(*shape: int, dtype=np.float64, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)


def _rounded_in_between(x):
    return (x + 256) - 256  # nothing is left of it in bfloat16; XLA would keep more of it in one program


def _many(x):
    y = jnp.where(x > 0, jnp.tanh(x) * 3 - x, x / 7)
    return jax.nn.softmax(y), jnp.exp(x) * jnp.exp(x), jax.nn.relu(x).sum(1), x[:, ::2]


def _products(x):
    """Of integers, whose sums are exact in any order."""
    x = jnp.round(3 * x)
    y = jnp.stack([x, 2 * x])
    return x @ x.T, x[0] @ x[1], jnp.einsum("ij,ij->j", x, x), jnp.einsum("bij,bkj->bik", y, y), x[:, :0] @ x[:0]


def _loop(x):
    return jax.lax.fori_loop(0, 3, lambda i, y: jnp.sin(y) * x + i, x)


FUNCTIONS = {
    "rounded in between": _rounded_in_between,
    "products": _products,
    "a loop": _loop,
    "under jit": jax.jit(_rounded_in_between),
    "a gradient": jax.grad(lambda x: jnp.sum(jax.nn.relu(x) * jnp.tanh(x))),
}


@rotating(3)
@fast("rounded in between-float64", "a loop-float64", "under jit-bfloat16")
@pytest.mark.parametrize("dtype", [np.float64, jnp.bfloat16], ids=["float64", "bfloat16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_bits_are_those_of_jax_by_itself(name, dtype):
    x, f = array(3, 4, dtype=dtype), FUNCTIONS[name]
    expected, got = f(x), Programs().run(f, x)
    assert jax.tree.structure(expected) == jax.tree.structure(got)
    for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(got), strict=True):
        assert a.dtype == b.dtype
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def _special(dtype) -> np.ndarray:
    """Numbers of every kind: all bits at random, the ends of the format, and subnormal ones."""
    info, rng = jnp.finfo(dtype), np.random.default_rng(0)
    ends = np.array([0, -0.0, np.inf, -np.inf, np.nan, info.tiny, info.max, info.smallest_subnormal, 1], np.float64)
    anything = rng.integers(0, 256, (400, np.dtype(dtype).itemsize), np.uint8).view(dtype)[:, 0]
    return np.concatenate([np.repeat(ends.astype(dtype), 20), anything])


def _is_normal(x: np.ndarray) -> np.ndarray:
    """What NumPy computes: of numbers between 1e-3 and 1e3 no result is subnormal either."""
    with np.errstate(invalid="ignore"):  # NumPy warns of the bits of a NaN
        size = np.abs(x.astype(np.float64))
    return (size > 1e-3) & (size < 1e3)


def _assert_same_bits(expected: np.ndarray, got: np.ndarray) -> None:
    """But for those of a NaN."""
    assert expected.dtype == got.dtype
    with np.errstate(invalid="ignore"):
        undefined = expected != expected
        np.testing.assert_array_equal(undefined, got != got)
    assert expected[~undefined].tobytes() == got[~undefined].tobytes()


@rotating(3)
@fast("add-float32", "divide-bfloat16")
@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16, np.float32, np.float64])
@pytest.mark.parametrize("f", [jnp.add, jnp.subtract, jnp.multiply, jnp.divide, jnp.less, jnp.equal])
def test_numpy_has_the_bits_of_xla(f, dtype):
    """XLA flushes subnormal numbers, which NumPy does not: these XLA computes."""
    x = _special(dtype)
    y, programs = np.random.default_rng(1).permutation(x), Programs()
    for chosen in (slice(None), _is_normal(x)):
        a, b = jax.device_put(x[chosen]), jax.device_put(y[chosen])
        expected, got = np.asarray(f(a, b)), np.asarray(programs.run(f, a, b))
        _assert_same_bits(expected, got)


@rotating(3)
@fast("float32-bfloat16", "float64-float16")
@pytest.mark.parametrize("to", [np.float16, jnp.bfloat16, np.float32, np.float64])
@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16, np.float32, np.float64])
def test_numpy_converts_as_xla_does(dtype, to):
    x = _special(dtype)
    for chosen in (slice(None), _is_normal(x)):
        expected, got = (run(lambda x: x.astype(to), jax.device_put(x[chosen])) for run in (_by_jax, Programs().run))
        _assert_same_bits(np.asarray(expected), np.asarray(got))


def _by_jax(f, x):
    return f(x)


def test_what_leaves_no_choice_is_not_compiled():
    programs = Programs()
    programs.run(lambda x: jnp.where(x > 0, x / 3, -x).T[:, None] * jnp.ones((2, 1)), array(2, 3))
    assert len(programs._compiled) == 0


@fast("tanh")
@pytest.mark.parametrize("f", [jnp.tanh, lambda x: x @ x.T, lambda x: jnp.exp(x) * 2], ids=["tanh", "product", "exp"])
def test_shapes_share_a_program(f):
    programs = Programs()
    for shape in [(1, 2), (3, 2), (2, 4), (2, 1), (0, 3), (3, 0)]:
        x = array(*shape)
        np.testing.assert_allclose(programs.run(f, x), f(x), rtol=1e-14)
    assert len(programs._compiled) == 1


def test_formats_and_precisions_do_not_share_one():
    programs, low = Programs(), jnp.bfloat16
    for x in (array(2, 2), array(2, 2, dtype=low)):
        programs.run(lambda x: x @ x, x)
    programs.run(lambda x: jax.lax.dot(x, x, preferred_element_type=np.float32), array(2, 2, dtype=low))
    programs.run(lambda x: jax.lax.dot(x, x, precision="default"), array(2, 2))
    assert len(programs._compiled) == 4


def test_infinities_stay_in_their_rows():
    """An infinity times a zero that was filled in would be NaN."""
    x = array(3, 3).at[0, 0].set(np.inf).at[1, 1].set(np.nan)
    f = lambda x: x @ jnp.abs(x)  # noqa: E731
    np.testing.assert_allclose(Programs().run(f, x), f(x), rtol=1e-14)


def test_nothing_is_computed_that_is_not_asked_for():
    """The logarithm of a zero that was filled in would be infinite, which a user of jax_debug_infs would meet."""
    with jax.debug_infs(True):
        assert np.isfinite(Programs().run(jnp.log, jnp.arange(1.0, 4.0))).all()


def test_a_weak_type_stays():
    """It decides what a product with another format is."""
    _, pullback = Programs().run(lambda x: jax.vjp(lambda x: x * jnp.asarray(2.0), x), jnp.ones(2, jnp.bfloat16))
    assert Programs().run(pullback, jnp.ones(2, jnp.bfloat16))[0].dtype == jnp.bfloat16


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, jnp.bfloat16], ids=["float64", "bfloat16"])
def test_elementwise_functions_are_those_of_jax(dtype):
    """But for the last bits: XLA's exponential has others at the end of a vector."""
    x = array(3, 4, dtype=dtype)
    for a, b in zip(_many(x), Programs().run(_many, x), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(*(np.asarray(y, np.float64) for y in (a, b)), rtol=8 * float(jnp.finfo(dtype).eps))


def test_pullback_may_leave():
    x, w = array(3), array(3, seed=1)
    programs = Programs()
    y, pullback = programs.run(lambda x: jax.vjp(jnp.sin, x), x)
    np.testing.assert_array_equal(y, jnp.sin(x))
    np.testing.assert_array_equal(programs.run(pullback, w)[0], w * jnp.cos(x))


def test_one_program_for_what_computes_the_same():
    """JAX compiles an einsum for each way of writing it."""
    x, programs = array(3, 3), Programs()
    for subscripts in ("ij,jk->ik", "ab,bc->ac"):
        programs.run(lambda x, s=subscripts: jnp.einsum(s, x, x), x)
    assert len(programs._compiled) == 1


@pytest.mark.parametrize(
    ("f", "g"),
    [
        (lambda x: jax.lax.integer_pow(x, 2), lambda x: jax.lax.integer_pow(x, 3)),
        (lambda x: jax.jit(lambda x: x * 0.0)(x), lambda x: jax.jit(lambda x: x * -0.0)(x)),
        (lambda x: jax.jit(lambda x: x - x[0])(x), lambda x: jax.jit(lambda x: x[0] - x)(x)),
        (lambda x: jax.jit(lambda x: jnp.sin(x) + x)(x), lambda x: jax.jit(lambda x: jnp.sin(x) + jnp.sin(x))(x)),
        (jnp.cumsum, lambda x: jax.lax.cumsum(x, reverse=True)),
    ],
    ids=["powers", "signs of zero", "operands", "wiring", "directions"],
)
def test_what_differs_in_little_is_another_program(f, g):
    x, programs = array(3), Programs()
    for h in (f, g, f):
        assert np.asarray(programs.run(h, x)).tobytes() == np.asarray(h(x)).tobytes()


def test_only_the_last_programs_are_kept():
    programs = Programs(most=2)
    for n in (1, 2, 3, 1):
        np.testing.assert_array_equal(programs.run(jnp.cumsum, array(n)), jnp.cumsum(array(n)))
    assert len(programs._compiled) == 2


def test_values_may_decide_and_python_may_change_its_mind():
    programs, calls = Programs(), itertools.count()
    branching = lambda x: -x if x.sum() > 0 else x  # noqa: E731
    for x in (jnp.ones(2), -jnp.ones(2)):
        np.testing.assert_array_equal(programs.run(branching, x), -jnp.ones(2))
    assert [float(programs.run(lambda x: x + next(calls), jnp.zeros(()))) for _ in range(2)] == [0, 1]


def test_an_error_is_the_function_s_own():
    f, x = jax.custom_vjp(jnp.sin), array(3)
    f.defvjp(lambda x: (jnp.sin(x), x), lambda x, w: (w * jnp.cos(x),))
    with pytest.raises(TypeError, match="custom_vjp"):
        Programs().run(lambda x: jax.jvp(f, (x,), (x,))[1], x)


def test_what_no_value_changes_is_not_run():
    """Not so, all of it was compiled before it was refused again."""
    f, x, calls = jax.custom_vjp(jnp.sin), array(3), itertools.count()
    f.defvjp(lambda x: (jnp.sin(x), x), lambda x, w: (w * jnp.cos(x) + next(calls),))
    gradient = lambda x: jax.grad(lambda x: jax.jvp(f, (x,), (x,))[1].sum())(x)  # noqa: E731
    with (
        pytest.raises((TypeError, NotImplementedError), match="custom"),
        mock.patch.object(f, "fwd", wraps=f.fwd) as fwd,
    ):
        Programs().run(gradient, x)
    assert fwd.call_count == 1


@pytest.mark.slow
def test_random_keys_and_integers():
    key, x, counts = jax.random.key(0), array(3), jnp.arange(3)

    def noisy(x):
        return x * jax.random.normal(key, x.shape), x * counts, counts + 1

    def gradient(x):
        first, second, _ = noisy(x)
        return jax.vjp(noisy, x)[1]((first, second, np.zeros(3, jax.dtypes.float0)))

    for f in (noisy, gradient):
        for a, b in zip(jax.tree.leaves(f(x)), jax.tree.leaves(Programs().run(f, x)), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_programs_are_shared_by_the_checks():
    """Not so, each check compiled its own, and all of them were kept: gigabytes."""
    spec = OpSpec("scale", lambda x: jnp.sin(x) * 3, inputs=(np.linspace(0.1, 1, 3),))
    compiled, compile_it = [], jax.stages.Lowered.compile
    counted = lambda lowered: compiled.append(lowered.as_text()) or compile_it(lowered)  # noqa: E731
    with mock.patch.object(jax.stages.Lowered, "compile", counted):
        for checks in (["forward"], ["forward", "vjp", "vjp_partial", "linearity", "determinism"]):
            candidate = JaxCandidate(lambda x: jnp.sin(x) * 3)
            report = crosscheck(candidate, spec, checks=checks, dtypes=["float64"])
            assert report.passed, str(report)
    assert compiled
    assert all(compiled.count(program) <= 2 for program in compiled)  # once for each candidate


def test_a_transformed_function_is_traced_once_for_one_shape():
    """As under jit; each trial has a candidate of its own, which is traced again."""
    traced = []

    def f(x):
        traced.append(x.shape)
        return jnp.sin(x)

    def ask(candidate: JaxCandidate, size: int) -> torch.Tensor:
        x = torch.linspace(0, 1, size, dtype=torch.float64)
        return candidate.jvp_of_vjp(1, [x, x], [x, x])[0]

    candidate = JaxCandidate(f).bound({}, {})
    first = ask(candidate, 3)
    once = len(traced)
    assert torch.equal(ask(candidate, 3), first)
    assert ask(candidate, 4).shape == (4,)
    assert torch.equal(ask(candidate, 3), first)
    assert traced == [(3,)] * once + [(4,)] * once
    ask(candidate.bound({}, {}), 3)
    assert len(traced) == 3 * once


def test_different_transforms_are_different_programs():
    candidate, x = JaxCandidate(jnp.sin).bound({}, {}), torch.linspace(0, 1, 3, dtype=torch.float64)
    (value,), (slope,), (gradient,) = candidate.forward([x]), candidate.jvp([x], [x]), candidate.vjp([x], [1 + x])
    torch.testing.assert_close(value, x.sin())
    torch.testing.assert_close(slope, x.cos() * x)
    torch.testing.assert_close(gradient, x.cos() * (1 + x))


def test_the_error_of_a_callback_has_one_type_however_often_it_is_raised():
    """JAX itself raises a ValueError from the second call of a compiled program on."""

    def refuses(x: np.ndarray) -> np.ndarray:
        if not np.isfinite(x).all():
            raise RuntimeError("not finite")
        return x

    captured = jnp.ones(1)

    @jax.jit
    def f(x):
        return jax.pure_callback(refuses, jax.ShapeDtypeStruct(x.shape, x.dtype), x + captured)

    candidate, bad = JaxCandidate(f).bound({}, {}), torch.tensor([torch.inf], dtype=torch.float64)
    for _ in range(3):
        candidate.forward([torch.ones_like(bad)])
        with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL: "):
            candidate.forward([bad])
