"""What is proved, and what must not be: programs that agree at many numbers and are not the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from parity_tests.harness.primitives.field.numbers import Unmodelled
from parity_tests.harness.proof.proof import sameness

X = np.random.default_rng(0).standard_normal((3, 4))
POSITIVE = np.abs(X) + 0.5


@pytest.fixture(autouse=True)
def in_float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def compared(one: Callable, other: Callable, *args: np.ndarray) -> list[int]:
    """The number of entries that differ, of each result."""
    programs = [jax.make_jaxpr(lambda *a, f=f: jax.tree.leaves(f(*a)))(*args) for f in (one, other)]
    return [int(differs.sum()) for differs in sameness(*programs, args).differs]


SAME: dict[str, tuple[Callable, Callable, np.ndarray]] = {
    "softmax, shifted or not": (
        lambda x: jnp.exp(x) / jnp.exp(x).sum(-1, keepdims=True), lambda x: jax.nn.softmax(x, -1), X,
    ),
    "log-sum-exp, shifted or not": (
        lambda x: x - jnp.log(jnp.exp(x).sum(-1, keepdims=True)), lambda x: jax.nn.log_softmax(x, -1), X[:, :2],
    ),
    "tanh by exp": (lambda x: (jnp.exp(2 * x) - 1) / (jnp.exp(2 * x) + 1), jnp.tanh, X),
    "sigmoid by tanh": (lambda x: (1 + jnp.tanh(x / 2)) / 2, jax.nn.sigmoid, X),
    "a double angle": (lambda x: jnp.cos(x) ** 2 - jnp.sin(x) ** 2, lambda x: 1 - 2 * jnp.sin(x) ** 2, X),
    "a variance": (lambda x: (x * x).mean(-1) - x.mean(-1) ** 2, lambda x: x.var(-1), X),
    "powers and roots": (lambda x: x**1.5 * lax.rsqrt(x), lambda x: x, POSITIVE[0, :3]),
    "exp beside numbers of one field": (lambda x: jnp.exp(jnp.stack([x, jnp.tanh(x)]))[0], jnp.exp, X),
    "a cube root": (lambda x: jnp.cbrt(x) ** 3, lambda x: x, POSITIVE[0, :3]),
    "a power by exp and log": (lambda x: x**0.3, lambda x: jnp.exp(0.3 * jnp.log(x)), POSITIVE[0, :3]),
    "the root of a product": (lambda x: jnp.sqrt(2 * x), lambda x: jnp.sqrt(2.0) * jnp.sqrt(x), POSITIVE[0, :3]),
    "a root beside a logarithm": (
        lambda x: jnp.stack([jnp.sqrt(x), 2 * jnp.log(x)]).sum(0), lambda x: jnp.log(x) + jnp.sqrt(x) + jnp.log(x),
        POSITIVE[0, :2],
    ),
    "a power and its logarithm": (
        lambda x: jax.grad(lambda y: (x**y).sum())(0.3), lambda x: (x**0.3 * jnp.log(x)).sum(), POSITIVE[0, :2],
    ),
    "a root of a logarithm": (lambda x: jnp.sqrt(jnp.log(x)) ** 2, jnp.log, 3 + POSITIVE[0, :2]),
    "powers of two": (lambda x: jnp.exp2(x / math.log(2)), jnp.exp, X),
    "a logarithm to base two": (lambda x: jnp.log2(2 * x), lambda x: 1 + jnp.log(x) / math.log(2), POSITIVE[0, :2]),
    "a logarithm to base ten": (lambda x: jnp.log10(10 * x), lambda x: 1 + jnp.log(x) / math.log(10), POSITIVE[0, :2]),
    "products of all": (lambda x: jnp.prod(x, (0, 2)), lambda x: jnp.stack([x[0, i, 0] * x[1, i, 0] for i in (0, 1)]),
                        X[:2, :2, None]),
    "products of none": (lambda x: jnp.prod(x[:0], 0), lambda x: jnp.ones_like(x[0]), X),
    "running products": (lambda x: lax.cumprod(x, 0, reverse=True)[0], lambda x: x[0] * x[1] * x[2], X),
    "a derivative of running products": (
        lambda x: jax.grad(lambda x: lax.cumprod(x, 0).sum())(x)[2], lambda x: x[0] * x[1], X,
    ),
    "a remainder": (lambda x: jnp.fmod(5 * x, 0.7), lambda x: 5 * x - jnp.trunc(5 * x / 0.7) * 0.7, X),
    "a masked softmax": (
        lambda x: jax.nn.softmax(jnp.where(x > 0.2, x, -jnp.inf), -1),
        lambda x: jnp.where(x > 0.2, jnp.exp(x), 0) / jnp.where(x > 0.2, jnp.exp(x), 0).sum(-1, keepdims=True),
        np.abs(X),
    ),
    "a convolution": (
        lambda x: lax.conv_general_dilated(x[None], x[:, None, :2], (1,), [(0, 0)], feature_group_count=3)[0],
        lambda x: x[:, :-1] * x[:, :1] + x[:, 1:] * x[:, 1:2], X,
    ),
    "a loop": (lambda x: lax.scan(lambda c, r: (c * r, c + r), x[0], x)[1], lambda x: jnp.stack(
        [2 * x[0], x[0] ** 2 + x[1], x[0] ** 2 * x[1] + x[2]]), X,
    ),
    "sorted rows": (lambda x: jnp.sort(x, -1)[:, ::-1].sum(0), lambda x: -jnp.sort(-x, -1).sum(0), X),
    "a gather and its scatter": (lambda x: x[np.array([0, 2, 2])], lambda x: jnp.stack([x[0], x[2], x[2]]), X),
    "0/0 that is not taken": (lambda x: jnp.where(x == x, x, (x - x) / (x - x)), lambda x: x, X),
    "a limit at infinity": (lambda x: x / (1 + jnp.exp(jnp.where(x < 9, -jnp.inf, x))), lambda x: x, X),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_the_same_formulas_are_proved(name: str) -> None:
    one, other, x = SAME[name]
    assert set(compared(one, other, x)) == {0}


GRADIENTS = ("softmax, shifted or not", "tanh by exp", "a double angle", "a convolution", "sorted rows")


@pytest.mark.parametrize("name", GRADIENTS)
def test_their_gradients_are_proved(name: str) -> None:
    one, other, x = SAME[name]
    bar = np.random.default_rng(1).standard_normal(jax.eval_shape(one, x).shape)
    pulled = [lambda x, bar, f=f: jax.vjp(f, x)[1](bar) for f in (one, other)]
    assert compared(*pulled, x, bar) == [0]


def _agrees_at_integers(x):
    product = x
    for k in range(1, 60):
        product = product * (x - k) * (x + k)
    return x + product


# Not the same: by how much, or where they agree, is told by the name.
DIFFERENT: dict[str, tuple[Callable, Callable, np.ndarray, list[int]]] = {
    "at integers only": (_agrees_at_integers, lambda x: x, X[0], [4]),
    "by a multiple of a prime": (lambda x: x + x * 2147471759.0 * 1e-60, lambda x: x, X, [12]),
    "by a root's sign in a small part": (lambda x: 1e6 * x + x, lambda x: 1e6 * x + jnp.sqrt(x * x), -POSITIVE, [12]),
    "by a root's sign of a constant": (
        lambda x: x - 1.1e-39,
        lambda x: x + jnp.sqrt(jnp.full_like(x, 1.1e-39) ** 2),
        X,
        [12],
    ),
    "by a logarithm's sign": (lambda x: x - 1.7e-6, lambda x: x + jnp.exp(jnp.log(jnp.full_like(x, 1.7e-6))), X, [12]),
    "by what is absorbed": (lambda x: x, lambda x: jnp.maximum(x, x + 1e-20), X, [12]),
    "by the sign of what underflows": (lambda x: x, lambda x: x + jnp.sign(x * 1e-200 * 1e-200), X, [12]),
    "by a root that a branch forces": (
        lambda x: jnp.where(x > 0, jnp.sqrt(x) ** 2, x),
        lambda x: jnp.sqrt(x * x),
        -POSITIVE,
        [12],
    ),
    "on a subspace": (lambda x: x + (x[0] - x[1]) * 1e-30, lambda x: x, X, [12]),
    "by a constant nearly another": (lambda x: x * (1 / 3 + 1e-12), lambda x: x / 3, X, [12]),
    "by a last digit of a decimal": (lambda x: x * 0.0447151, lambda x: x * 0.044715, X, [12]),
    "by a root nearly another": (lambda x: x * math.sqrt(2) * (1 + 2**-39), lambda x: x * math.sqrt(2), X, [12]),
    "by a short factor": (lambda x: x * (1 + 2.0**-30) * (1 - 2.0**-30), lambda x: x, X, [12]),
    "by a term of 1e-300": (lambda x: x + 1e-300, lambda x: x, X, [12]),
    "by n - 1 for n": (lambda x: x.var(-1), lambda x: x.var(-1, ddof=1), X, [3]),
    "by a last row": (lambda x: x[:-1].sum(0), lambda x: x.sum(0), X, [4]),
    "in one entry": (lambda x: x.at[1, 2].set(x[1, 2] * 1.001), lambda x: x, X, [1]),
    "by exp of twice": (lambda x: jnp.exp(2 * x), lambda x: jnp.exp(x) * 2, X, [12]),
    "by the base of a logarithm": (lambda x: jnp.log(x * x), jnp.log, POSITIVE[0, :2], [2]),
    "by sin for cos": (jnp.sin, jnp.cos, X, [12]),
    "by a function of a function": (lax.lgamma, lambda x: lax.lgamma(x + 1), POSITIVE, [12]),
    "by an exponent that is data": (lambda x: x**x, lambda x: x ** (x + 1), POSITIVE[0, :3], [3]),
    "by e, which is no 4": (lambda x: x * 4, lambda x: x * jnp.exp(0 * x + 1), X, [12]),
    "by a logarithm that is no 1": (lambda x: x, lambda x: x * jnp.log(4 + 0 * x), X[0, :2], [2]),
    "by a tanh that is no 3/5": (lambda x: x * 0.6, lambda x: x * jnp.tanh(0 * x + 0.5), X, [12]),
    "by a logarithm of a logarithm, beside a root": (
        lambda x: jnp.sqrt(x) * jnp.log(x),
        lambda x: jnp.sqrt(x) * jnp.log(jnp.log(x)),
        3 + POSITIVE[0, :2],
        [2],
    ),
    "by a base of powers": (lambda x: jnp.exp2(x / math.log(10)), jnp.exp, X, [12]),
    "by a log 2 nearly another": (lambda x: x * math.log(2) * (1 + 2**-39), lambda x: x * math.log(2), X, [12]),
    "by a divisor of a remainder": (lambda x: jnp.fmod(5 * x, 0.7), lambda x: jnp.fmod(5 * x, 0.75), X, [8]),
    "by log1p of a logarithm": (
        lambda x: jnp.log(jnp.log(x)),
        lambda x: jnp.log1p(jnp.log(x)),
        3 + POSITIVE[0, :2],
        [2],
    ),
    "by an empty interval": (
        lambda x: jnp.where(x < 1, 1.0, -1.0) + 0 * x,
        lambda x: lax.clamp(1.0, x, -1.0),
        X / 4,
        [12],
    ),
    "by order": (lambda x: x[:, ::-1], lambda x: x, X, [12]),
    "by the order of a product": (lambda x: x @ x.T, lambda x: (x @ x.T)[::-1], X, [9]),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_others_are_not(name: str) -> None:
    one, other, x, entries = DIFFERENT[name]
    found = compared(one, other, x)
    assert [*map(bool, found)] == [*map(bool, entries)]
    assert found == entries or name == "by the order of a product"  # whose middle row is the same


@pytest.mark.parametrize(
    ("f", "x", "reason"),
    [
        (lambda x: jnp.linalg.svdvals(x), X, "exact arithmetic has no 'svd'"),
        (lambda x: x / (x - x), X, "an infinity or NaN among"),
        (lambda x: jnp.where(x > 9, x, jnp.inf), X, "an infinity or NaN among the results"),
        (lambda x: jnp.sqrt(-1 - x * x) * 0 + 1, X, "an infinity or NaN"),
        (lambda x: jnp.where(jnp.isnan(x / 0 * 0), x, 2 * x), X, "of NaN"),
        (lambda x: (x + 1j * x).real, X, "complex numbers"),
        (lambda x: jnp.fft.rfft(x).real, X, "complex numbers"),
        pytest.param(
            lambda x: jnp.sqrt(jnp.arange(1.0, 60.0) + x[0]), POSITIVE[0], "roots or logarithms", marks=pytest.mark.slow
        ),
        (lambda x: x.astype("float32") * 2, X, "numbers that are not float64"),
        (lambda x: lax.bessel_i0e(jnp.where(x > 0, jnp.inf, x)) * x, X, "'bessel_i0e' of such numbers"),
        (lambda x: lax.integer_pow(x, 10**20), X, "a power of so many factors"),
        (lambda x: x ** jnp.full_like(x, 3.0), X, "a power of a negative number"),
        (lambda x: jnp.cbrt(x), X, "a cube root of a negative number"),
        (lambda x: jnp.where(jnp.max(jnp.stack([x, jnp.sqrt(-1 - x * x)]), 0) > 0, x, 0), X, "gt of NaN"),
        (lambda x: jnp.sort(jnp.stack([x, jnp.sqrt(-1 - x * x)]), 0), X, "'sort' of such numbers"),
    ],
)
def test_what_is_not_modelled_is_not_proved(f: Callable, x: np.ndarray, reason: str) -> None:
    with pytest.raises(Unmodelled, match=reason):
        compared(f, f, x)


@pytest.mark.parametrize(
    ("one", "other", "of"),
    [
        (lambda x: -jnp.sin(-x), jnp.sin, "sin and cos"),
        (jnp.abs, lambda x: jnp.sqrt(x * x), "roots or logarithms"),
        pytest.param(
            jnp.atanh,
            lambda x: (jnp.log1p(x) - jnp.log1p(-x)) / 2,
            "atanh, roots or logarithms",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["an odd function", "a root without a sign", "another function"],
)
def test_what_fields_do_not_know_is_neither_proved_nor_accused(one: Callable, other: Callable, of: str) -> None:
    with pytest.raises(Unmodelled, match=f"agrees to 300 digits .* by a rule that the fields do not know, as of {of}$"):
        compared(one, other, X[:1] / 4)


BLIND = {
    "below the digits of the run": lambda x: 1e-305 * (jnp.sqrt(x * x) - x),
    "beside a number that is not selected": lambda x: (
        (jnp.sqrt(x * x) - x) * 1e-200 * jnp.where(x * x >= 0, 1.0, jnp.finfo(x.dtype).min)
    ),
    "where roots that nobody selects make squares": lambda x: (
        1e-305 * (jnp.sqrt(x * x) - x) + 0 * jnp.where(x > 0, jnp.sqrt(x), 0)
    ),
}


@pytest.mark.parametrize("name", BLIND)
def test_the_sign_of_a_root_that_the_run_does_not_show_is_not_proved(name: str) -> None:
    """Of one number, at which a field has the wrong sign at every second point."""
    for x in (-0.25, -1.5, -2.0):
        with pytest.raises(Unmodelled, match="by a rule that the fields do not know"):
            compared(lambda x: x + BLIND[name](x), lambda x: x, np.array([x]))


@pytest.mark.parametrize(
    ("f", "g"),
    [
        (lambda x: x * 0.10000000000000002, lambda x: x * 0.1),
        (lambda x: x * float(np.nextafter(1 / 3, 1)), lambda x: x / 3),
        (lambda x: x * math.sqrt(2) * (1 + 2**-49), lambda x: x * math.sqrt(2)),
        (lambda x: x / (0.6000100238418579 + 1e-5), lambda x: x / (0 * x + 0.6000100238418579 + 1e-5)),
    ],
    ids=["of a decimal", "of a fraction", "of a root", "of a sum"],
)
def test_a_rounded_constant_is_neither_proved_nor_accused(f: Callable, g: Callable) -> None:
    for one, other in ((f, g), (g, f)):
        with pytest.raises(Unmodelled, match="differs by no more than rounding does, and constants may be rounded"):
            compared(one, other, X)


@pytest.mark.slow
def test_many_roots_exist_at_a_point_that_is_looked_for() -> None:
    """Of random points 2^-24 have so many."""
    x = POSITIVE.ravel()[:12]
    assert compared(lambda x: jnp.sqrt(x) * jnp.sqrt(x + 1), lambda x: jnp.sqrt(x * (x + 1)), x) == [0]


@pytest.mark.parametrize(
    ("one", "other", "x"),
    [
        (lambda x: x, lambda x: x + x / jnp.exp(x * x + 900), X),
        (lambda x: x * x, lambda x: x * -x, 0 * X),
        (
            lambda x: x,
            lambda x: x + jnp.sqrt(x) * (jnp.log(2 * x) - jnp.log(3 * x)) * 1e-305 * 1e-305 * 1e-305 * 1e-305,
            POSITIVE[0, :2],
        ),
        (
            lambda x: x,
            lambda x: x + (jnp.log2(2 * x) - jnp.log2(3 * x)) * 1e-305 * 1e-305 * 1e-305 * 1e-305,
            POSITIVE[0, :2],
        ),
        (lambda x: x, lambda x: x + (jnp.exp2(2 * x) - jnp.exp2(x)) * 1e-305 * 1e-305 * 1e-305 * 1e-305, X),
        (lambda x: x, lambda x: x + jnp.cumprod(x, 0) * 1e-305 * 1e-305 * 1e-305 * 1e-305, X),
    ],
    ids=[
        "a term that overflows in float64",
        "other signs of zero",
        "logarithms beside a root",
        "logarithms to base two",
        "powers of two",
        "products",
    ],
)
def test_what_the_run_does_not_show_is_not_proved(one: Callable, other: Callable, x: np.ndarray) -> None:
    with pytest.raises(Unmodelled, match="agrees to 300 digits"):
        compared(one, other, x)


def test_the_largest_float_is_a_constant() -> None:
    largest = float(np.finfo(np.float64).max)
    assert compared(lambda x: jnp.where(x > 9, -largest, x), lambda x: x, X) == [0]


def test_results_of_other_shapes_are_told() -> None:
    with pytest.raises(Unmodelled, match=r"results of other shapes: \[\(4,\)\] and \[\(3,\)\]"):
        compared(lambda x: x.sum(0), lambda x: x.sum(1), X)


def test_constants_that_stand_for_others_are_told() -> None:
    program = jax.make_jaxpr(lambda x: x * math.sqrt(2 / math.pi))(X)
    found = sameness(program, program, [X])
    assert found.proved
    assert {x: str(constant) for x, constant in found.read_as.items()} == {math.sqrt(2 / math.pi): "sqrt(2) / sqrt(π)"}


def test_branches_are_those_of_the_run() -> None:
    """Of positive numbers abs is x, of others it is not: the sample says for which it is proved."""
    assert compared(jnp.abs, lambda x: x, POSITIVE) == [0]
    assert compared(jnp.abs, lambda x: x, X) == [int((X < 0).sum())]


@pytest.mark.parametrize("shapes", [[(4, 5), (5, 3)], [(2, 3, 4), (4,)]])
def test_large_residues_are_multiplied_exactly(shapes: Sequence[tuple[int, ...]]) -> None:
    """A product of matrices against sums of products, at residues of 31 bits."""
    x, y = (np.random.default_rng(2).standard_normal(shape) for shape in shapes)
    by_sums = lambda x, y: (x[..., None] * y.reshape(5, 3)).sum(-2) if y.ndim == 2 else (x * y).sum(-1)  # noqa: E731
    assert compared(jnp.matmul, by_sums, x, y) == [0]


def test_a_program_is_not_taken_for_another_one_that_prints_alike() -> None:
    long = np.arange(100.0)
    other = long.copy()
    other[50] += 1
    one, two, three = (jax.make_jaxpr(lambda x, c=c: x + c)(long) for c in (long, long.copy(), other))
    assert str(one.jaxpr) == str(three.jaxpr)
    assert not sameness(one, two, [long]).differs[0].any()
    assert sameness(one, three, [long]).differs[0].sum() == 1
