"""The model's face: every transformation, arguments that vmap maps or does not, masks that mask, memory."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_ref import _blockwise, _dot_product_attention, _masked, dot_product_attention, dot_product_attention_ad
from parity_tests.catalog.model import plain
from parity_tests.suite.jax_ref._cases import quick_jit, same
from parity_tests.suite.marks import fast, marks
from parity_tests.suite.rotation import rotating

T, S, N, K, H, E = 5, 4, 4, 2, 3, 2
FACES = {
    "matrix": functools.partial(dot_product_attention, implementation="matrix"),
    "matrix_ad": functools.partial(dot_product_attention_ad, implementation="matrix"),
    "blockwise": functools.partial(dot_product_attention, implementation="blockwise", block_size=2),
    "blockwise_ad": functools.partial(dot_product_attention_ad, implementation="blockwise", block_size=2),
}


def draw(*batch: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """query, key, value, bias."""
    rng = np.random.default_rng(seed)
    shapes = (T, N, H), (S, K, H), (S, K, E), (N, 1, S)
    return tuple(0.7 * rng.normal(size=(*batch, *shape)) for shape in shapes)


ARGS, DOTS, PRIMES = draw(seed=1), draw(seed=2), draw(seed=3)
MASK = np.random.default_rng(4).random((T, S)) > 0.3
ALL = (0, 1, 2, 3)


def reference(query, key, value, bias) -> jax.Array:
    return plain(query, key, value, bias, MASK[None], scale=H**-0.5)[0]


def loss(f: Callable) -> Callable:
    return lambda *args: jnp.sum(jnp.sin(f(*args)))


def scanned(f: Callable) -> Callable:
    def step(query, scale, rest):
        output = f(query, *rest)
        return query + scale * jnp.pad(output, [(0, 0), (0, 0), (0, H - E)]), output

    return lambda query, *rest: jnp.sum(jax.lax.scan(functools.partial(step, rest=rest), query, np.ones(2))[1], 0)


def along(f: Callable, dots: tuple) -> Callable:
    # No NumPy arrays: JAX (0.10.2) fails on them as tangents of a mapped custom_jvp.
    return lambda *args: jax.jvp(f, args, tuple(map(jnp.asarray, dots)))[1]


def grad(f: Callable) -> Callable:
    return jax.grad(f, ALL)


def paired(f: Callable, weights: tuple) -> Callable:
    return lambda *args: sum(jnp.vdot(w, x) for w, x in zip(weights, f(*args), strict=True))


REVERSE_FIRST = {
    "value": lambda f: f,
    "grad": lambda f: grad(loss(f)),
    "forward_over_reverse": lambda f: along(grad(loss(f)), DOTS),
    "reverse_over_reverse": lambda f: grad(paired(grad(loss(f)), DOTS)),
    "grad_in_remat": lambda f: grad(loss(jax.checkpoint(f))),
    "grad_in_scan": lambda f: grad(loss(scanned(f))),
    "forward_over_reverse_in_scan": lambda f: along(grad(loss(scanned(jax.checkpoint(f)))), DOTS),
}
FORWARD_FIRST = {
    "jvp": lambda f: along(f, DOTS),
    "forward_over_forward": lambda f: along(along(f, DOTS), PRIMES),
    "reverse_over_forward": lambda f: grad(along(loss(f), DOTS)),
    "jvp_in_scan": lambda f: along(scanned(f), DOTS),
}
FAST = ("matrix-grad", "matrix_ad-jvp", "blockwise-forward_over_reverse", "blockwise_ad-forward_over_forward")


def _mark_of_mode(name: str, mode: str) -> tuple[pytest.MarkDecorator, ...]:
    """Each face in the modes that it is made for; those of the other face, which autodiff makes of it, are soak.

    So are a remat and a scan each by itself: forward_over_reverse_in_scan has both.
    """
    if f"{name}-{mode}" in FAST:
        return ()
    soak = mode in ("grad_in_remat", "grad_in_scan") or (name.endswith("_ad") and mode in REVERSE_FIRST)
    return (pytest.mark.soak if soak else pytest.mark.slow,)


MODES = [
    pytest.param(name, mode, id=f"{name}-{mode}", marks=_mark_of_mode(name, mode))
    for name in FACES
    for mode in (REVERSE_FIRST | FORWARD_FIRST if name.endswith("_ad") else REVERSE_FIRST)
]


@rotating(4)
@fast("matrix-grad", "matrix_ad-jvp")
@pytest.mark.parametrize(("name", "mode"), MODES)
def test_modes(name: str, mode: str) -> None:
    made = (REVERSE_FIRST | FORWARD_FIRST)[mode]
    got = quick_jit(made(lambda *args: FACES[name](*args, MASK)))(*ARGS)
    same(got, quick_jit(made(reference))(*ARGS))


@pytest.mark.parametrize("name", ["matrix", "blockwise"])
def test_forward_mode_is_refused_where_it_is_not_served(name: str) -> None:
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jit(lambda *args: jax.jvp(FACES[name], args, args)).lower(*ARGS)


@pytest.mark.soak
def test_outside_of_jit() -> None:
    """JAX runs the same rules there, one operation after the other: test_modes compiles them."""
    same(grad(loss(lambda *args: FACES["matrix"](*args, MASK)))(*ARGS), grad(loss(reference))(*ARGS))


# vmap over any of the arguments. JAX (0.10.2) counts the cotangent of an output that is not mapped for each example.


def _weighted(return_attn: bool, face: Callable) -> Callable:
    """A scalar of the results for a batch."""

    def scalar(in_axes, *args):
        def one(query, key, value, bias, mask):
            results = face(query, key, value, bias, mask, return_attn=return_attn)
            return results if return_attn else (results,)

        return sum(jnp.sum(jnp.sin(x)) for x in jax.vmap(one, in_axes)(*args))

    return scalar


def _by_hand(return_attn: bool) -> Callable:
    def scalar(in_axes, *args):
        total = jnp.zeros(())
        for i in range(2):
            *one, mask = (x if axis is None else x[i] for x, axis in zip(args, in_axes, strict=True))
            results = plain(*one, mask[None], scale=H**-0.5)
            total += sum(jnp.sum(jnp.sin(x)) for x in results[: 1 + return_attn])
        return total

    return scalar


def vmapped_gradients(face: Callable, in_axes: tuple, return_attn: bool) -> tuple:
    """The gradients, and those by hand."""
    batched, (*single, _) = (*draw(2, seed=5), np.stack([MASK, ~MASK])), (*draw(seed=6), MASK)
    args = [b if axis == 0 else s for b, s, axis in zip(batched, (*single, MASK), in_axes, strict=True)]
    return tuple(
        quick_jit(jax.grad(functools.partial(scalar, in_axes), ALL))(*args)
        for scalar in (_weighted(return_attn, face), _by_hand(return_attn))
    )


IN_AXES = [axes for axes in itertools.product((None, 0), repeat=5) if axes != (None,) * 5]
VALUE_ALONE = (None, None, 0, None, None)


def _mark_of(name: str, axes: tuple, return_attn: bool) -> tuple[pytest.MarkDecorator, ...]:
    """All arguments batched, or for the first face, with both results, one alone: slow. Other combinations: soak."""
    if axes == VALUE_ALONE and not name.endswith("_ad"):
        return ()
    slow = {"matrix": return_attn and axes.count(0) in (1, 5), "blockwise": axes.count(0) == 5}
    return (pytest.mark.slow if slow.get(name) else pytest.mark.soak,)


VMAPS = [
    pytest.param(name, axes, attn, id=f"{name}-{axes}-{attn}", marks=_mark_of(name, axes, attn))
    for name in FACES
    for axes in IN_AXES
    for attn in ((False,) if "blockwise" in name else (False, True))
]


@rotating(3)
@fast("matrix-(None, None, 0, None, None)-False")
@pytest.mark.parametrize(("name", "in_axes", "return_attn"), VMAPS)
def test_vmap_over_some_arguments(name: str, in_axes: tuple, return_attn: bool) -> None:
    same(*vmapped_gradients(FACES[name], in_axes, return_attn))


@pytest.mark.slow
def test_the_trap_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line that maps query with value is needed: without it JAX 0.10 is wrong, and JAX 0.12 refuses."""
    monkeypatch.setattr(_dot_product_attention, "_mapped_with", lambda other, x: x)
    with pytest.raises((AssertionError, ValueError), match=r"off by|under vmap, the custom_vjp function masked"):
        same(*vmapped_gradients(FACES["matrix"], VALUE_ALONE, True))


# The rules are those that JAX runs.


@fast("*-jvp-matrix_ad-jvp")
@pytest.mark.parametrize(
    ("module", "rule", "name", "mode"),
    [
        (_masked, "vjp", "matrix", "grad"),
        (_masked, "jvp", "matrix_ad", "jvp"),
        (_masked, "jvp_of_vjp", "matrix", "forward_over_reverse"),
        (_masked, "jvp_of_jvp", "matrix_ad", "forward_over_forward"),
        (_blockwise, "_vjp", "blockwise", "grad"),
        (_blockwise, "_jvp", "blockwise_ad", "jvp"),
    ],
)
def test_a_rule_times_three_is_the_derivative_times_three(monkeypatch, module, rule: str, name: str, mode: str) -> None:
    def derivative():
        def f(*args):  # a new function each time, of which no trace is known
            return FACES[name](*args, MASK)

        bars = np.ones((T, N, E))
        maps = {
            "grad": lambda *args: jax.vjp(f, *args)[1](bars),
            "jvp": along(f, DOTS),
            "forward_over_reverse": along(lambda *args: jax.vjp(f, *args)[1](bars), DOTS),
            "forward_over_forward": along(along(f, DOTS), PRIMES),
        }
        return jax.tree.leaves(quick_jit(maps[mode])(*ARGS))

    before, original = derivative(), getattr(module, rule)
    monkeypatch.setattr(module, rule, lambda *args: jax.tree.map(lambda x: 3 * x, original(*args)))
    for x, y in zip(derivative(), before, strict=True):
        assert np.any(y)
        np.testing.assert_allclose(x, 3 * y, rtol=1e-13)


# Masks.


@pytest.mark.slow
@pytest.mark.parametrize("name", marks(["matrix"], FACES))
def test_what_is_masked_may_be_anything(name: str) -> None:
    """An infinity or NaN in the bias of a masked entry changes nothing, and gets no gradient."""
    query, key, value, _ = ARGS
    rng = np.random.default_rng(7)
    bias = rng.normal(size=(N, T, S))
    odd = np.where(MASK, bias, rng.choice([np.inf, -np.inf, np.nan], bias.shape))

    def of_bias(bias):
        return FACES[name](query, key, value, bias, MASK)

    (got, pull), (expected, pull_of_bias) = jax.vjp(of_bias, odd), jax.vjp(of_bias, bias)
    same(got, expected)
    (bias_bar,) = pull(np.ones(got.shape))
    same(bias_bar, pull_of_bias(np.ones(got.shape))[0])
    assert not np.any(np.asarray(bias_bar)[:, ~MASK])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "lengths"),
    [
        ({"is_causal": True}, {}),
        ({}, {"query_seq_lengths": [5, 2], "key_value_seq_lengths": [1, 4]}),
        ({"is_causal": True}, {"key_value_seq_lengths": [2, 4]}),
    ],
)
def test_the_weights_are_there_where_those_of_jax_nn_are(options: dict, lengths: dict) -> None:
    rng = np.random.default_rng(8)
    query, key = (rng.normal(size=shape).astype("float32") for shape in ((2, T, N, S), (2, S, K, S)))
    identity = np.broadcast_to(np.eye(S, dtype="float32")[:, None], (2, S, K, S))  # the outputs are the weights
    options = options | {name: np.array(x, "int32") for name, x in lengths.items()}
    with jax.numpy_dtype_promotion("standard"):
        softmax = jax.nn.dot_product_attention(query, key, identity, **options)
    output, attn = dot_product_attention(query, key, identity, return_attn=True, **options)
    assert np.array_equal(np.asarray(output).swapaxes(1, 2), attn)
    assert np.array_equal(np.asarray(softmax) > 0, np.asarray(output) != 0)
    assert 0 < np.count_nonzero(output) < output.size


# Sizes, dtypes, and what help shows.


def _with_pullback(f: Callable, *args: jax.Array) -> tuple:
    output, pull = jax.vjp(f, *args)
    return output, pull(output)


@pytest.mark.slow
@rotating(3)
@pytest.mark.parametrize(
    "sizes",
    [
        (0, 5, 4, 4, 2, 3, 2),
        (2, 0, 4, 4, 2, 3, 2),
        (2, 5, 0, 4, 2, 3, 2),
        (2, 5, 4, 0, 0, 3, 2),
        (2, 5, 4, 0, 2, 3, 2),
        (2, 5, 4, 4, 2, 0, 2),
        (2, 5, 4, 4, 2, 3, 0),
        (1, 1, 1, 1, 1, 1, 1),
    ],
    ids=["B0", "T0", "S0", "NK0", "N0", "H0", "E0", "ones"],
)
@pytest.mark.parametrize("name", ["matrix", "blockwise"])
def test_empty_axes(name: str, sizes: tuple) -> None:
    b, t, s, n, k, h, e = sizes
    args = np.ones((b, t, n, h)), np.ones((b, s, k, h)), np.ones((b, s, k, e))
    output, gradients = quick_jit(lambda *args: _with_pullback(FACES[name], *args))(*args)
    assert output.shape == (b, t, n, e)
    assert [x.shape for x in gradients] == [x.shape for x in args]
    assert name == "matrix" or min(sizes) or not any(map(np.any, gradients))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["matrix", "blockwise"])
def test_bfloat16_stays(name: str) -> None:
    args = tuple(jnp.asarray(x, "bfloat16") for x in ARGS)
    output, pull = jax.vjp(lambda *args: FACES[name](*args, MASK), *args)
    assert {x.dtype for x in (output, *pull(output))} == {jnp.dtype("bfloat16")}


def test_more_batch_axes() -> None:
    args = draw(2, 3, seed=9)
    flat = tuple(x.reshape(6, *x.shape[2:]) for x in args)
    face = quick_jit(FACES["matrix"])
    same(face(*args).reshape(6, T, N, E), face(*flat))


def test_the_arguments_are_those_of_jax_nn() -> None:
    ours, theirs = ([*inspect.signature(f).parameters] for f in (dot_product_attention, jax.nn.dot_product_attention))
    assert ours[:9] == theirs[:9]
    assert ours == [*inspect.signature(dot_product_attention_ad).parameters]
    assert inspect.getdoc(dot_product_attention)
    assert inspect.getdoc(dot_product_attention_ad)


# Memory: what XLA allocates besides arguments and results.


def temporary(face: Callable, n: int) -> int:
    x = jax.ShapeDtypeStruct((n, 1, 16), jnp.float32)
    made = jax.jit(jax.grad(loss(face), (0, 1, 2))).lower(x, x, x).compile()
    return made.memory_analysis().temp_size_in_bytes


@pytest.mark.slow
def test_memory_grows_with_the_number_of_queries_and_keys() -> None:
    """Not with its square: one block of two matrices, of 64 columns, is all that is held."""
    blockwise = functools.partial(dot_product_attention, implementation="blockwise", block_size=64)
    small, large = temporary(blockwise, 512), temporary(blockwise, 2048)
    assert large <= 4.1 * small
    assert large <= 4 * 2048 * (2 * 64 + 4 * 16)
    matrix = functools.partial(dot_product_attention, implementation="matrix")
    small, large = temporary(matrix, 512), temporary(matrix, 2048)
    assert large > 14 * small, "the matrix must not pass"
    assert large >= 4 * 2048 * 2048


@pytest.mark.slow
@rotating(3)
@pytest.mark.parametrize("mode", ["forward_over_reverse", "reverse_over_reverse", "jvp", "reverse_over_forward"])
def test_memory_of_other_derivatives(mode: str) -> None:
    def of(n: int) -> int:
        x = jax.ShapeDtypeStruct((n, 1, 16), jnp.float32)
        f = functools.partial(dot_product_attention_ad, implementation="blockwise", block_size=64)
        if "over_reverse" in mode:
            f = functools.partial(dot_product_attention, implementation="blockwise", block_size=64)
        gradient = jax.grad(loss(f), (0, 1, 2))
        made = {
            "forward_over_reverse": lambda *a: jax.jvp(gradient, a, a)[1],
            "reverse_over_reverse": jax.grad(lambda *a: paired(gradient, a)(*a), (0, 1, 2)),
            "jvp": lambda *a: jax.jvp(f, a, a)[1],
            "reverse_over_forward": jax.grad(lambda *a: jax.jvp(loss(f), a, a)[1], (0, 1, 2)),
        }[mode]
        return jax.jit(made).lower(x, x, x).compile().memory_analysis().temp_size_in_bytes

    assert of(2048) <= 4.1 * of(512)


@pytest.mark.slow
def test_a_length_that_export_keeps_open() -> None:
    """One exported program for every batch and length, of the value and of the gradient."""
    batch, length = jax.export.symbolic_shape("batch, length")
    spec = jax.ShapeDtypeStruct((batch, length, 4, 8), jnp.float32)

    def value(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return dot_product_attention(q, k, v, is_causal=True)

    gradient = jax.grad(lambda *x: (value(*x) ** 2).sum(), argnums=(0, 1, 2))
    for f in (value, gradient):
        exported = jax.export.export(jax.jit(f))(spec, spec, spec)
        for size in (5, 7):
            args = jax.random.normal(jax.random.key(size), (3, 2, size, 4, 8), "float32")
            # Sums of at most 8 terms of about 1, in two programs: each rounds as often as it has terms.
            for x, y in zip(jax.tree.leaves(exported.call(*args)), jax.tree.leaves(f(*args)), strict=True):
                np.testing.assert_allclose(x, y, rtol=64 * 2**-23, atol=64 * 2**-23)


@pytest.mark.slow
@pytest.mark.parametrize("implementation", ["matrix", "blockwise"])
def test_a_bias_of_float32_is_not_rounded_to_the_query(implementation: str) -> None:
    """Scores of 0 leave tanh(bias); a bias rounded to bfloat16 would be off by 2**-9."""
    q, v = jnp.zeros((1, 1, 4), "bfloat16"), jnp.ones((1, 1, 4), "bfloat16")
    small = 1 + 2**-10

    def slope(bias: jax.Array) -> jax.Array:
        f = dot_product_attention
        return jax.grad(lambda b: f(q, q, v, b, implementation=implementation).astype("float32").sum())(bias)

    found = slope(jnp.full((1, 1, 1), small, "float32"))
    assert found.dtype == jnp.float32
    # A = tanh(bias) is rounded to bfloat16, by 2**-9 of it, before 1 - A**2, of which it is twice as much.
    np.testing.assert_allclose(found, 4 * (1 - np.tanh(small) ** 2), rtol=4 * 2**-9 / (1 - np.tanh(small) ** 2))
    score = _masked.attn_matrix(1.0, q[0], q[0], jnp.full((1, 1), 2.0**-12 + 2.0**-21, "float32"), None)
    assert float(score[0, 0]) == float(jnp.tanh(jnp.float32(2.0**-12 + 2.0**-21)).astype("bfloat16"))


@pytest.mark.slow
def test_a_traced_scale_has_a_derivative() -> None:
    with jax.enable_x64(True):
        x = jax.random.normal(jax.random.key(0), (5, 2, 3))

        def total(scale: float) -> jax.Array:
            return dot_product_attention(x, x, x, scale=scale).sum()

        value, slope = jax.jit(jax.value_and_grad(total))(0.3)
        np.testing.assert_allclose(value, total(0.3), rtol=1e-13)
        h = 2.0**-17  # central: an error of h² times a third derivative of some hundreds
        np.testing.assert_allclose(slope, (total(0.3 + h) - total(0.3 - h)) / (2 * h), rtol=1e-6)
