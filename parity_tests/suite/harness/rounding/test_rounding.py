"""The error bound: what is computed rightly in a format stays within it, what is not exceeds it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from jax import lax

from parity_tests.harness.findings import Comparison
from parity_tests.harness.numbers import conversion
from parity_tests.harness.numbers.formats import FLOAT64, LAMBDA, PRECISIONS, Precision
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.primitives import missing
from parity_tests.harness.primitives.missing import NoRule, NotFloat64
from parity_tests.harness.rounding.analysis import bounded
from parity_tests.suite.harness._ops import normal
from parity_tests.suite.marks import fast
from parity_tests.suite.rotation import rotating

F32, BF16, F16 = (PRECISIONS[name] for name in ("float32", "bfloat16", "float16"))
INDEX = [3, 0, 3, 1]


@pytest.fixture(autouse=True)
def full_precision():
    with pinned():
        yield


def bound_of(f: Callable, args: list[np.ndarray], precision: Precision) -> tuple[np.ndarray, np.ndarray]:
    """The value of a function of one result, and its bound, at arguments that are exact in the format."""
    ((value, bound),) = bounded(jax.make_jaxpr(f)(*args), *args, precision=precision)
    return value, bound


def compared(f: Callable, args: list[np.ndarray], candidate: Any, precision: Precision) -> Comparison:
    return Comparison("y", np.asarray(candidate, np.float64), *bound_of(f, args, precision))


class Case(NamedTuple):
    jax: Callable
    torch: Callable
    shapes: tuple[tuple[int, ...], ...] = ((4, 6),)


def _scan(x, y):
    return lax.scan(lambda c, z: (c * jnp.tanh(z[0]) + z[1], c * z[1]), jnp.zeros_like(x[0]), (x, y))[1]


def _scan_torch(x, y):
    c, ys = torch.zeros_like(x[0]), []
    for a, b in zip(x, y, strict=True):
        ys.append(c * b)
        c = c * torch.tanh(a) + b
    return torch.stack(ys)


def _normalized(x):
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)


def _normalized_torch(x):
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + 1e-5)


def _placed(x, y):
    return lax.dynamic_update_slice(x, lax.dynamic_slice(y, (1, 2), (2, 3)), (0, 1)) * y


def _placed_torch(x, y):
    z = x.clone()
    z[0:2, 1:4] = y[1:3, 2:5]
    return z * y


TWO = ((4, 6), (4, 6))
CASES = {
    "matmul": Case(lambda x, y: x @ y, lambda x, y: x @ y, ((4, 40), (40, 5))),
    "matmul chain": Case(lambda x, y, z: x @ y @ z, lambda x, y, z: x @ y @ z, ((4, 7), (7, 9), (9, 3))),
    "tanh of matmul": Case(lambda x, y: jnp.tanh(x @ y), lambda x, y: torch.tanh(x @ y), ((4, 7), (7, 3))),
    "einsum": Case(
        lambda x, y: jnp.einsum("bij,bjk->ik", x, y),
        lambda x, y: torch.einsum("bij,bjk->ik", x, y),
        ((2, 3, 4), (2, 4, 3)),
    ),
    "exp": Case(jnp.exp, torch.exp),
    "log": Case(lambda x: jnp.log(jnp.abs(x) + 0.5), lambda x: torch.log(x.abs() + 0.5)),
    "log2": Case(lambda x: jnp.log2(jnp.abs(x) + 0.5), lambda x: torch.log2(x.abs() + 0.5)),
    "log near 1": Case(lambda x: jnp.log(1 + x / 8), lambda x: torch.log(1 + x / 8)),
    "expm1, log1p": Case(lambda x: jnp.expm1(x) * jnp.log1p(x * x), lambda x: torch.expm1(x) * torch.log1p(x * x)),
    "softmax": Case(lambda x: jax.nn.softmax(4 * x), lambda x: torch.softmax(4 * x, -1)),
    "logsumexp": Case(lambda x: jax.nn.logsumexp(x, axis=-1), lambda x: torch.logsumexp(x, -1)),
    "sigmoid": Case(jax.nn.sigmoid, torch.sigmoid),
    "gelu": Case(lambda x: jax.nn.gelu(x, approximate=False), torch.nn.functional.gelu),
    "div": Case(lambda x, y: x / (1 + y * y), lambda x, y: x / (1 + y * y), TWO),
    "integer_pow": Case(lambda x: x**3 - x**2, lambda x: x**3 - x**2),
    "negative integer_pow": Case(lambda x: (jnp.abs(x) + 0.5) ** -2, lambda x: (x.abs() + 0.5) ** -2),
    "pow": Case(lambda x, y: (jnp.abs(x) + 0.5) ** y, lambda x, y: (x.abs() + 0.5) ** y, TWO),
    "sqrt, rsqrt": Case(
        lambda x: jnp.sqrt(jnp.abs(x)) * lax.rsqrt(x * x + 1), lambda x: x.abs().sqrt() * torch.rsqrt(x * x + 1)
    ),
    "sin, cos": Case(lambda x, y: jnp.sin(x) * jnp.cos(3 * y), lambda x, y: torch.sin(x) * torch.cos(3 * y), TWO),
    "atan2": Case(jnp.arctan2, torch.atan2, TWO),
    "where": Case(lambda x, y: jnp.where(x > y, x * y, y), lambda x, y: torch.where(x > y, x * y, y), TWO),
    "where of a rounded condition": Case(
        lambda x, y: jnp.where(x * y > y - x, x * y, y),
        lambda x, y: torch.where(x * y > y - x, x * y, y),
        TWO,
    ),
    "relu, clamp, abs": Case(
        lambda x, y: jax.nn.relu(x) * jnp.clip(y, -0.5, 1) + jnp.abs(x - y),
        lambda x, y: torch.relu(x) * torch.clamp(y, -0.5, 1) + (x - y).abs(),
        TWO,
    ),
    "sum": Case(lambda x: x.sum(1), lambda x: x.sum(1), ((4, 300),)),
    "mean, normalized": Case(_normalized, _normalized_torch),
    "cumsum": Case(lambda x: jnp.cumsum(x, 1), lambda x: torch.cumsum(x, 1), ((3, 50),)),
    "max of a row": Case(lambda x: x - x.max(-1, keepdims=True), lambda x: x - x.amax(-1, keepdim=True)),
    "norm": Case(lambda x: jnp.sqrt((x * x).sum(0)), lambda x: torch.sqrt((x * x).sum(0))),
    "gather": Case(lambda x, y: x[jnp.array(INDEX)] * y, lambda x, y: x[INDEX] * y, TWO),
    "scatter-add": Case(
        lambda x, y: x.at[jnp.array(INDEX)].add(y * y),
        lambda x, y: x.index_add(0, torch.tensor(INDEX), y * y),
        TWO,
    ),
    "slices": Case(_placed, _placed_torch, TWO),
    "concatenate, pad, transpose": Case(
        lambda x, y: jnp.pad(jnp.concatenate([x.T, y.T], 1), 1)[::-1] * 3,
        lambda x, y: torch.nn.functional.pad(torch.cat([x.T, y.T], 1), (1, 1, 1, 1)).flip(0) * 3,
        TWO,
    ),
    "scan": Case(_scan, _scan_torch, ((7, 3), (7, 3))),
    "cond": Case(lambda x: lax.cond(jnp.asarray(x.shape[0] > 2), jnp.sin, jnp.cos, x), torch.sin),
    "cancellation": Case(lambda x, y: (x * 64 + y) - x * 64, lambda x, y: (x * 64 + y) - x * 64, TWO),
    "distributed": Case(lambda x, y: x * (x - y), lambda x, y: x * x - x * y, TWO),
    "1 - t²": Case(lambda x: (1 - jnp.tanh(x)) * (1 + jnp.tanh(x)), lambda x: 1 - torch.tanh(x) ** 2),
}
cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
formats = pytest.mark.parametrize("precision", PRECISIONS.values(), ids=PRECISIONS)
low_formats = pytest.mark.parametrize("precision", [F32, BF16, F16], ids=("float32", "bfloat16", "float16"))


def arguments(case: Case, precision: Precision, seed: int) -> list[np.ndarray]:
    return [precision.rounded(normal(*shape, seed=10 * seed + i)) for i, shape in enumerate(case.shapes)]


@functools.cache
def computed_in_jax(precision: Precision, seed: int) -> dict[str, np.ndarray]:
    """Every case, in one compiled program: a program each would take longer than everything else here."""
    args = {name: arguments(case, precision, seed) for name, case in CASES.items()}
    return _all_cases({name: [jnp.asarray(x, precision.storage) for x in xs] for name, xs in args.items()})


@jax.jit
def _all_cases(args):
    return {name: case.jax(*args[name]) for name, case in CASES.items()}


@rotating(3)
@fast("*-bfloat16")
@low_formats
@cases
def test_a_computation_in_the_format_stays_within_the_bound(case, precision):
    (name,) = (name for name, other in CASES.items() if other is case)
    for seed in range(2):
        args = arguments(case, precision, seed)
        y = computed_in_jax(precision, seed)[name]
        assert y.dtype == precision.storage
        comparison = compared(case.jax, args, y, precision)
        assert comparison.evidence, "the bound is so large that zeros would pass"
        assert comparison.error_over_bound <= 1, "JAX"

        y = case.torch(*(conversion.to_torch(x, precision, "cpu") for x in args))
        assert y.dtype == getattr(torch, precision.name)
        assert compared(case.jax, args, conversion.to_numpy(y), precision).error_over_bound <= 1, "PyTorch"


@fast("*-float32")
@pytest.mark.parametrize(
    ("precision", "relative"), [pytest.param(F32, 1e-3, id="float32"), pytest.param(FLOAT64, 1e-11, id="float64")]
)
@cases
def test_a_result_that_is_a_little_off_exceeds_the_bound(case, precision, relative):
    args = arguments(case, precision, 0)
    value, _ = bound_of(case.jax, args, precision)
    assert not compared(case.jax, args, value * (1 + relative), precision).holds


@cases
def test_an_answer_in_a_lower_format_exceeds_the_bound(case):
    """float32's bound is not met by a computation in bfloat16 that is converted at the end."""
    args = arguments(case, BF16, 0)
    y = case.torch(*(conversion.to_torch(x, BF16, "cpu") for x in args))
    assert not compared(case.jax, args, conversion.to_numpy(y), F32).holds


# Compositions of these, on a pair (a, b): in JAX, and in PyTorch.
STEPS: dict[str, tuple[Callable, Callable]] = {
    "add": (lambda a, b: (a + b, b),) * 2,
    "sub": (lambda a, b: (b, a - b),) * 2,
    "mul": (lambda a, b: (a * b, a),) * 2,
    "div": (lambda a, b: (a / (b * b + 1), b),) * 2,
    "tanh": (lambda a, b: (jnp.tanh(a), b), lambda a, b: (torch.tanh(a), b)),
    "sin": (lambda a, b: (b, jnp.sin(a)), lambda a, b: (b, torch.sin(a))),
    "exp": (lambda a, b: (jnp.exp(-a * a), b), lambda a, b: (torch.exp(-a * a), b)),
    "log1p": (lambda a, b: (jnp.log1p(jnp.abs(a)), b), lambda a, b: (torch.log1p(a.abs()), b)),
    "logistic": (lambda a, b: (b, jax.nn.sigmoid(a)), lambda a, b: (b, torch.sigmoid(a))),
    "maximum": (lambda a, b: (jnp.maximum(a, b), a), lambda a, b: (torch.maximum(a, b), a)),
    "where": (lambda a, b: (jnp.where(a > b, a, 2 * b), b), lambda a, b: (torch.where(a > b, a, 2 * b), b)),
    "cumsum": (lambda a, b: (jnp.cumsum(a), b), lambda a, b: (torch.cumsum(a, 0), b)),
    "softmax": (lambda a, b: (jax.nn.softmax(a), b), lambda a, b: (torch.softmax(a, 0), b)),
}


@pytest.mark.slow
@low_formats
@given(steps=st.lists(st.sampled_from(list(STEPS)), min_size=1, max_size=5), seed=st.integers(0, 10**6))
@hypothesis_settings(max_examples=25, deadline=None, derandomize=True)
def test_compositions_stay_within_the_bound(precision, steps, seed):
    def composed(side, *args):
        return functools.reduce(lambda pair, step: STEPS[step][side](*pair), steps, args)[0]

    args = [precision.rounded(x) for x in normal(2, 6, seed=seed)]
    y = composed(1, *(conversion.to_torch(x, precision, "cpu") for x in args))
    comparison = compared(functools.partial(composed, 0), args, conversion.to_numpy(y), precision)
    assert comparison.error_over_bound <= 1


# Negative controls.


def _ten_bits(x: np.ndarray) -> np.ndarray:
    """A float32 number as a TF32 unit reads it: 10 of its 23 bits."""
    return (x.astype(np.float32).view(np.uint32) & 0xFFFFE000).view(np.float32).astype(np.float64)


@pytest.mark.parametrize("k", [4, 64, 1024])
def test_tf32_does_not_pass_for_float32(k):
    args = [F32.rounded(normal(5, k)), F32.rounded(normal(k, 3, seed=1))]
    assert compared(jnp.matmul, args, args[0].astype(np.float32) @ args[1].astype(np.float32), F32).holds
    assert not compared(jnp.matmul, args, _ten_bits(args[0]) @ _ten_bits(args[1]), F32).holds


@pytest.mark.parametrize("precision", [BF16, F16], ids=["bfloat16", "float16"])
def test_a_16_bit_accumulator_exceeds_the_bound(precision):
    x = precision.rounded(np.abs(normal(2000)) + 1)
    narrow, wide = precision.storage.type(0), np.float32(0)
    for entry in x:
        narrow = precision.storage.type(narrow + precision.storage.type(entry))
        wide = np.float32(wide + np.float32(entry))
    assert compared(jnp.sum, [x], precision.storage.type(wide), precision).holds
    assert not compared(jnp.sum, [x], narrow, precision).holds


def test_a_sum_that_skips_one_term_of_many_exceeds_the_bound():
    x = F32.rounded(normal(1000))
    assert not compared(jnp.sum, [x], x[:-1].sum(), F32).holds


def test_an_unstable_algorithm_exceeds_the_bound():
    """A variance as a difference of squares: right in exact arithmetic, useless far from 0."""
    x = F32.rounded(normal(50) + 1000)

    def variance(x):
        return ((x - x.mean()) ** 2).mean()

    y = x.astype(np.float32)
    assert compared(variance, [x], ((y - y.mean()) ** 2).mean(), F32).holds
    assert not compared(variance, [x], (y * y).mean() - y.mean() ** 2, F32).holds


# The documented formulas, by hand. Every bound is enlarged by the reference's own error, u64 / u of it.


def _enlarged(bound: float, p: Precision) -> float:
    return bound * (1 + FLOAT64.u / p.u)


@formats
def test_the_bound_of_a_sum_and_a_difference(precision):
    p, a, b = precision, 1.5, -2.0
    args = [np.array(a), np.array(b)]
    _, added = bound_of(lambda x, y: x + y, args, p)
    _, subtracted = bound_of(lambda x, y: x - y, args, p)
    assert added == pytest.approx(_enlarged(2 * p.u * 1.5 + 2 * p.u * 2 + p.u * 0.5, p), rel=1e-14)
    assert subtracted == pytest.approx(_enlarged(2 * p.u * 1.5 + 2 * p.u * 2 + p.u * 3.5, p), rel=1e-14)


@formats
def test_the_bound_of_a_product(precision):
    p = precision
    _, bound = bound_of(lambda x, y: x * y, [np.array(1.5), np.array(-2.0)], p)
    e_x, e_y = 2 * p.u * 1.5, 2 * p.u * 2
    assert bound == pytest.approx(_enlarged(1.5 * e_y + e_x * 2 + e_x * e_y + p.u * 3 + p.tiny, p), rel=1e-14)


@formats
def test_the_bound_of_a_contraction(precision):
    p = precision
    x, y = np.array([1.5, -2.0]), np.array([0.5, 3.0])
    _, bound = bound_of(jnp.dot, [x, y], p)
    passed_on = 1.5 * 2 * p.u * 0.5 * 2 + 2.0 * 2 * p.u * 3.0 * 2 + (2 * p.u) ** 2 * (1.5 * 0.5 + 2.0 * 3.0)
    own = 2 * p.u_acc * (1.5 * 0.5 + 2 * 3) + p.u * abs(1.5 * 0.5 - 2 * 3) + 2 * p.tiny
    assert bound == pytest.approx(_enlarged(passed_on + own, p), rel=1e-14)


@pytest.mark.parametrize(("k", "roundings"), [(16, 16), (47, 47), (48, LAMBDA * 48**0.5), (100, 10 * LAMBDA)])
def test_a_long_sum_is_charged_by_the_square_root_of_its_length(k, roundings):
    x = np.linspace(1, 2, k)
    _, bound = bound_of(jnp.sum, [x], F32)
    assert bound == pytest.approx(_enlarged((2 + roundings + 1) * F32.u * x.sum(), F32), rel=1e-4)


@pytest.mark.parametrize("k", [16, 100, 4096])
def test_a_sum_of_equal_terms_is_charged_by_its_length(k):
    _, bound = bound_of(jnp.sum, [np.full(k, 0.75)], F32)
    assert bound == pytest.approx(_enlarged((2 + k + 1) * F32.u * 0.75 * k, F32), rel=1e-14)


@formats
def test_the_bound_of_an_elementary_function(precision):
    p, x = precision, 0.75
    _, bound = bound_of(jnp.exp, [np.array(x)], p)
    change = np.exp(x + 2 * p.u * x) - np.exp(x)
    expected = _enlarged(change + (2 * p.u + 8 * p.u_acc) * np.exp(x) + p.tiny, p)
    # The change is a difference of nearly equal numbers, itself rounded to float64.
    assert bound == pytest.approx(expected, rel=1e-13 if p is not FLOAT64 else 0.3)


def test_what_moves_numbers_adds_nothing():
    x = F32.rounded(normal(4, 6))
    _, bound = bound_of(lambda x: -jnp.abs(x.T.reshape(8, 3)[::-1]), [x], F32)
    np.testing.assert_allclose(bound, _enlarged(2 * F32.u * np.abs(x.T.reshape(8, 3)[::-1]), F32), rtol=1e-14)


def test_integers_are_exact_and_constants_too():
    _, bound = bound_of(lambda x: 0 * x + jnp.arange(3.0), [np.zeros(3)], F32)
    np.testing.assert_array_equal(bound, np.zeros(3))
    _, bound = bound_of(lambda x: 0 * x + jnp.arange(3.0) / 3, [np.zeros(3)], F32)
    assert (bound[1:] > 0).all()


def test_the_derivative_of_tanh_is_exact_where_its_result_is_an_integer():
    x = np.array([0.0])
    _, bound = bound_of(lambda x: jax.vjp(jnp.tanh, x)[1](jnp.ones(1))[0], [x], FLOAT64)
    np.testing.assert_array_equal(bound, [0.0])


# What cannot be judged.


@pytest.mark.parametrize(
    ("f", "x", "precision"),
    [
        pytest.param(jnp.exp, 100.0, F32, id="exp in float32"),
        pytest.param(lambda x: x * x, 300.0, F16, id="square in float16"),
        pytest.param(lambda x: x * x / 300, 300.0, F16, id="an intermediate in float16"),
        pytest.param(lambda x: 1 / (x - 1), 1.0, F32, id="division by zero"),
        pytest.param(lambda x: jnp.log(x - 1), 1.0, F32, id="logarithm of zero"),
        pytest.param(lambda x: jnp.sqrt(x - 1), 0.5, F32, id="not a number"),
    ],
)
def test_what_may_overflow_has_an_infinite_bound_and_is_no_evidence(f, x, precision):
    value, bound = bound_of(f, [np.array([x])], precision)
    assert np.isinf(bound).all()
    for answer in (np.zeros(1), np.full(1, np.inf), value):
        comparison = Comparison("y", answer, value, bound)
        assert comparison.holds
        assert comparison.evidence == 0


def test_an_entry_that_cannot_be_judged_does_not_excuse_its_neighbour():
    x = np.array([100.0, 1.0])
    value, bound = bound_of(jnp.exp, [x], F32)
    assert np.isinf(bound).tolist() == [True, False]
    assert not Comparison("y", np.array([0.0, 2.0]), value, bound).holds
    assert Comparison("y", np.array([np.inf, np.e]), np.exp(x), bound).evidence in (0, 1)


@pytest.mark.parametrize(
    ("f", "primitive", "file"),
    [
        pytest.param(lambda x: lax.igamma_grad_a(x, 2 * x), "igamma_grad_a", "gamma.py", id="next"),
        pytest.param(lambda x: jnp.linalg.qr(jnp.outer(x, x))[1], "qr", "matrix.py", id="qr"),
        pytest.param(jax.jit(lambda x: 2 * lax.igamma_grad_a(x, x)), "igamma_grad_a", "gamma.py", id="in a call"),
    ],
)
def test_a_primitive_without_a_rule_is_named_and_the_file_where_it_belongs(f, primitive, file):
    with pytest.raises(
        NoRule, match=f"^no rounding-error rule for the JAX primitive '{primitive}'; add one record to"
    ) as caught:
        bound_of(f, [np.array([0.5, -1.0, 2.0])], F32)
    assert f"parity_tests/harness/primitives/{file}, as CONTRIBUTING.md says under 'A primitive'" in str(caught.value)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_a_primal_that_computes_in_a_lower_precision(dtype):
    def f(x):
        return jnp.sin(x.astype(dtype)).astype(x.dtype)

    with pytest.raises(NotFloat64, match=f"^the JAX function computes in {jnp.dtype(dtype).name} "):
        bound_of(f, [np.ones(2)], F32)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16], ids=["float32", "bfloat16"])
def test_a_constant_of_lower_precision_is_noticed_when_it_is_computed_with(dtype):
    constant = np.ones(2, dtype)
    with pytest.raises(NotFloat64):
        bound_of(lambda x: x * (jnp.sin(jnp.asarray(constant)) * 1).astype(x.dtype), [np.ones(2)], F32)


def test_what_cannot_be_the_largest_has_no_part_in_the_error_of_the_largest():
    def peaks(x):
        masked = jnp.where(jnp.array([False, True, True]), x, -1e9)  # not a number of bfloat16
        return jnp.max(masked), -jnp.min(-masked)

    x = np.array([4.0, 1.0, 2.0])
    with pinned():
        for value, bound in bounded(jax.make_jaxpr(peaks)(x), x, precision=PRECISIONS["bfloat16"]):
            assert value == 2
            assert bound <= 4 * PRECISIONS["bfloat16"].u * 2
            assert bound > 0


def test_the_file_where_a_rule_belongs_exists_and_so_does_the_paragraph():
    harness = Path(missing.__file__).parents[1]
    for _, file in missing._FILES:
        assert (harness / file).is_file()
    assert "\n**A primitive** that `rounding.NoRule` names" in (harness.parents[1] / "CONTRIBUTING.md").read_text()
