"""Candidates in JAX: right ones of every kind pass, each mistake is caught by the check that is there for it."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

import jax_ref
from parity_tests import JaxCandidate, OpSpec, Verdict, crosscheck
from parity_tests.catalog.attn import SPEC
from parity_tests.harness.candidates.jax_candidate import UNBATCHED_OUTPUT
from parity_tests.harness.checks import CHECKS
from parity_tests.suite.harness._ops import PAIR, SQUARE, judged, normal, rows
from parity_tests.suite.harness.candidates._jax_functions import SCALE, custom_jvp, custom_vjp, pair, pair_jvp, pair_vjp
from parity_tests.suite.marks import fast
from parity_tests.suite.rotation import rotating

ATTN = OpSpec("attn", primal=jax_ref.attn_primal, inputs=(normal(3, 2), normal(4, 2), normal(4, 3)))


def _sin_times(x_ref, y_ref, output_ref):
    output_ref[...] = jnp.sin(x_ref[...]) * y_ref[...]


def _kernel(x, y):
    return pl.pallas_call(_sin_times, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=True)(x, y)


def pallas(factor: float = 1.0) -> Callable:
    """A Pallas kernel with a custom VJP."""
    return custom_vjp(lambda x, y, w: (factor * w * y * jnp.cos(x), w * jnp.sin(x)), _kernel)


RIGHT = {
    "plain": (pair, PAIR, ()),
    "jit": (jax.jit(pair), PAIR, ()),
    "custom_vjp": (custom_vjp(pair_vjp), PAIR, ("jvp", "adjoint", "vjp_of_jvp", "jvp_of_jvp")),
    "custom_jvp": (custom_jvp(pair_jvp), PAIR, ()),
    "jit of a custom_jvp": (jax.jit(custom_jvp(pair_jvp)), PAIR, ()),
    "attn_ad": (jax_ref.attn_ad, ATTN, ()),
    "attn": (jax_ref.attn, ATTN, ("jvp", "adjoint", "vjp_of_jvp", "jvp_of_jvp", "vmap")),
    "pallas": (
        pallas(),
        SCALE,
        ("jvp", "adjoint", "vjp_of_vjp", "jvp_of_vjp", "vjp_of_jvp", "jvp_of_jvp"),
    ),
}


# "jit of a custom_jvp" is both.
PARTS = ("jit", "custom_jvp")


@rotating(4)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.soak if name in PARTS else pytest.mark.slow) for name in RIGHT]
)
def test_right(name):
    _is_right(name, ["float64"])


@pytest.mark.soak
@pytest.mark.parametrize("name", RIGHT)
def test_right_in_every_format(name):
    _is_right(name, ["float64", "float32", "bfloat16", "float16"])


def _is_right(name: str, dtypes: list[str]) -> None:
    f, spec, unsupported = RIGHT[name]
    report = crosscheck(JaxCandidate(f), spec, dtypes=dtypes)
    assert report.passed, str(report)
    assert {row.check for row in rows(report) if row.verdict is Verdict.UNSUPPORTED} <= set(unsupported), str(report)
    skipped = {row.check for row in rows(report) if row.verdict is Verdict.SKIPPED}
    assert skipped - {"points", "points_second_order", "exact"} == {
        check.name for check in CHECKS.values() if check.inapplicable_to("jax") and not check.on_request
    }


@pytest.mark.soak
@pytest.mark.parametrize("f", [jax_ref.attn, jax_ref.attn_ad], ids=["attn", "attn_ad"])
def test_the_oracle_s_own_faces(f):
    """At another seed than `test_right`, which judges all formats at fewer sizes: XLA compiles for each."""
    report = crosscheck(JaxCandidate(f), SPEC, dtypes=["float64"], seed=1)
    assert report.passed, str(report)


def _bilinear_vjp(x, y, w):
    return w @ y.T, x.T @ w


def _squared_with_a_constant(x, w):
    return (2 * jax.lax.stop_gradient(x) * w,)


def _mixes_the_batch(x, y):
    @jax.custom_batching.custom_vmap
    def f(x, y):
        return jnp.sin(x) * y

    @f.def_vmap
    def _rule(size, batched, x, y):
        return jnp.sin(x) * (y[::-1] if batched[1] else y), True

    return f(x, y)


def _mixes_the_batch_in_its_vjp(x, y, w):
    f = jax.custom_batching.custom_vmap(lambda x, y, w: (w * y * jnp.cos(x), w * jnp.sin(x)))

    @f.def_vmap
    def _rule(size, batched, x, y, w):
        x, y, w = (
            a if flag else jnp.broadcast_to(a, (size, *a.shape)) for a, flag in zip((x, y, w), batched, strict=True)
        )
        return (w[::-1] * y * jnp.cos(x), w * jnp.sin(x)), (True, True)

    return f(x, y, w)


def _with_a_state():
    calls = itertools.count()

    def noisy(x):
        return x + np.asarray(next(calls), x.dtype)

    def f(x, y):
        x = jax.pure_callback(noisy, jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="sequential")
        return jnp.sin(x) * y

    return f


def _in_float32(x, y):
    first, second = pair(x.astype(jnp.float32), y.astype(jnp.float32))
    return first.astype(x.dtype), second.astype(x.dtype)


PRODUCT = OpSpec("product", primal=lambda x, y: x @ y, inputs=(normal(3, 3), normal(3, 3, seed=1)))

MISTAKES = {
    "a factor in the VJP": (
        custom_vjp(lambda *args: (2 * pair_vjp(*args)[0], pair_vjp(*args)[1])),
        PAIR,
        "vjp",
        ("forward",),
    ),
    "a cotangent dropped": (
        custom_vjp(lambda x, y, w, v: pair_vjp(x, y, w, 0 * v)),
        PAIR,
        "vjp_partial",
        ("forward",),
    ),
    "transposed": (custom_vjp(lambda x, y, w: (w @ y, x.T @ w), PRODUCT.primal), PRODUCT, "vjp", ("forward",)),
    "a wrong JVP": (
        custom_jvp(lambda x, y, x_dot, y_dot: pair_jvp(x, y, 2 * x_dot, y_dot)),
        PAIR,
        "jvp",
        ("forward",),
    ),
    "a residual that is detached": (
        custom_vjp(_squared_with_a_constant, SQUARE.primal),
        SQUARE,
        "vjp_of_vjp",
        ("forward", "vjp", "input_subsets", "linearity"),
    ),
    "a residual that is detached, forward over reverse": (
        custom_vjp(_squared_with_a_constant, SQUARE.primal),
        SQUARE,
        "jvp_of_vjp",
        ("forward", "vjp"),
    ),
    "a JVP whose own derivative is wrong": (
        custom_jvp(lambda x, x_dot: 2 * jax.lax.stop_gradient(x) * x_dot, SQUARE.primal),
        SQUARE,
        "jvp_of_jvp",
        ("forward", "vjp", "jvp"),
    ),
    "a batching rule that mixes the examples": (_mixes_the_batch, SCALE, "vmap", ("forward", "jvp")),
    "a batching rule of the VJP that mixes the examples": (
        custom_vjp(_mixes_the_batch_in_its_vjp, SCALE.primal),
        SCALE,
        "vmap",
        ("forward", "vjp"),
    ),
    "computed in float32": (_in_float32, PAIR, "forward", ()),
    "returned in float32": (lambda x, y: jnp.float32(jnp.sin(x) * y), SCALE, "forward", ()),
    "a callback with a state": (
        custom_vjp(lambda x, y, w: (w * y * jnp.cos(x), w * jnp.sin(x)), _with_a_state()),
        SCALE,
        "determinism",
        (),
    ),
    "a state between forward and backward": (None, SCALE, "interleaved", ("forward", "vjp")),
    "a VJP that clips small cotangents": (
        custom_vjp(lambda x, w: (2 * x * jnp.where(jnp.abs(w) < 1e-3, 0, w),), SQUARE.primal),
        SQUARE,
        "linearity",
        ("vjp",),
    ),
    "a wrong Pallas kernel's VJP": (pallas(0.5), SCALE, "vjp", ("forward",)),
}


def _remembers_the_last_inputs():
    last: list = []

    def remember(x):
        last[:] = [x]
        return x

    def recall(w):
        return last[0].astype(w.dtype)

    def fwd(x, y):
        kept = jax.pure_callback(remember, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
        return jnp.sin(kept) * y, y

    def bwd(y, w):
        x = jax.pure_callback(recall, jax.ShapeDtypeStruct(w.shape, w.dtype), w)
        return w * y * jnp.cos(x), w * jnp.sin(x)

    f = jax.custom_vjp(SCALE.primal)
    f.defvjp(fwd, bwd)
    return f


@fast(
    "a factor in the VJP",
    "a wrong JVP",
    "a residual that is detached",
    "computed in float32",
    "returned in float32",
    "a VJP that clips small cotangents",
)
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_caught(name):
    f, spec, caught_by, passes = MISTAKES[name]
    f = f or _remembers_the_last_inputs()
    report = crosscheck(JaxCandidate(f), spec, checks=[caught_by, *passes], dtypes=["float64"])
    verdicts = {row.check: row.verdict for row in rows(report)}
    assert verdicts.pop(caught_by) is Verdict.MISMATCH, str(report)
    assert set(verdicts.values()) <= {Verdict.PASS}, str(report)
    assert report.exit_code == 1


# What is refused, and in whose name.


def test_what_a_custom_vjp_declines_is_listed():
    row = judged(JaxCandidate(custom_vjp(pair_vjp)), PAIR, "jvp")
    assert (row.verdict, row.listed) == (Verdict.UNSUPPORTED, True)
    assert row.reason == "is a custom_vjp, which JAX cannot differentiate forward"


def test_a_rule_that_raises_in_jaxs_words_has_not_declined():
    @jax.custom_jvp
    def f(x):
        return x * x

    @f.defjvp
    def _(primals, tangents):
        raise TypeError("can't apply forward-mode differentiation (jvp) to a custom_vjp function.")

    assert judged(JaxCandidate(f), SQUARE, "jvp").verdict is Verdict.MISMATCH


@pytest.mark.slow
def test_what_it_declines_must_be_in_its_limits_if_it_has_any():
    assert not crosscheck(JaxCandidate(custom_vjp(pair_vjp)), PAIR, checks=["jvp", "vjp"], limits={}).passed
    limits = {"jvp": "a custom_vjp"}
    assert crosscheck(JaxCandidate(custom_vjp(pair_vjp)), PAIR, checks=["jvp", "vjp"], limits=limits).passed
    assert not crosscheck(JaxCandidate(pair), PAIR, checks=["jvp", "vjp"], limits=limits).passed


@pytest.mark.parametrize(
    ("f", "reason"),
    [
        pytest.param(_kernel, "a Pallas kernel or a custom_vmap without a custom_vjp", id="Pallas"),
        pytest.param(_with_a_state(), "goes through a callback without a rule", id="callback"),
    ],
)
def test_a_first_derivative_is_not_optional(f, reason):
    row = judged(JaxCandidate(f), SCALE, "vjp")
    assert (row.verdict, row.listed) == (Verdict.UNSUPPORTED, False)
    assert reason in row.reason


def test_what_jax_itself_cannot_do_is_said():
    def f(x):
        return jax.lax.while_loop(lambda s: s[1] < 1, lambda s: (s[0] * s[0], s[1] + 1), (x, 0))[0]

    row = judged(JaxCandidate(f), SQUARE, "vjp")
    assert (row.verdict, row.listed) == (Verdict.UNSUPPORTED, False)
    assert "Reverse-mode differentiation does not work for lax.while_loop" in row.reason


def _second_of_x_alone(x, y):
    return x * y, jnp.sin(x)


def _second_of_x_alone_vjp(x, y, first_bar, second_bar):
    return first_bar * y + second_bar * jnp.cos(x), first_bar * x


SECOND_OF_X_ALONE = OpSpec("op", primal=_second_of_x_alone, inputs=(normal(3), normal(3, seed=1)))


@pytest.mark.slow
def test_jax_s_wrong_vjp_of_a_vmapped_custom_vjp_is_not_charged_to_it():
    """It is wrong, or, from JAX 0.12 on, an error; where it is neither any more, the refusal must go."""
    rule = custom_vjp(_second_of_x_alone_vjp, _second_of_x_alone)

    def gradient(f: Callable) -> float:
        x, y, w = jnp.float32(0.3), jnp.float32([1, 2]), (jnp.float32([1, 1]), jnp.float32([1, 10]))
        return float(jax.vjp(jax.vmap(f, (None, 0)), x, y)[1](w)[0])

    assert gradient(_second_of_x_alone) == pytest.approx(3 + 11 * np.cos(0.3), rel=1e-5)
    try:
        wrong = gradient(rule)
    except ValueError as error:
        assert "has a primal output that is shared across the batch" in str(error)  # noqa: PT017 - from JAX 0.12 on
    else:
        assert wrong == pytest.approx(3 + 22 * np.cos(0.3), rel=1e-5)

    row = judged(JaxCandidate(rule), SECOND_OF_X_ALONE, "vmap")
    assert (row.verdict, row.listed, row.reason) == (Verdict.UNSUPPORTED, True, UNBATCHED_OUTPUT)
    assert judged(JaxCandidate(_second_of_x_alone), SECOND_OF_X_ALONE, "vmap").verdict is Verdict.PASS


@pytest.mark.slow
@pytest.mark.skipif(
    "generic_batching" not in inspect.signature(jax.custom_vjp.defvjp).parameters,
    reason="defvjp of this JAX has no generic_batching",
)
def test_a_vmapped_custom_vjp_with_generic_batching_is_judged():
    """A mistake that only the output of x alone shows is its own."""

    def mistaken(x, y, first_bar, second_bar):
        return first_bar * y + 1.1 * second_bar * jnp.cos(x), first_bar * x

    for vjp, verdict in ((_second_of_x_alone_vjp, Verdict.PASS), (mistaken, Verdict.MISMATCH)):
        candidate = JaxCandidate(custom_vjp(vjp, _second_of_x_alone, generic_batching=True))
        assert judged(candidate, SECOND_OF_X_ALONE, "vmap").verdict is verdict
