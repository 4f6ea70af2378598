"""What the records of primitives say is true: every kind of every primitive, sampled; and a record of one's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend import core

from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.primitives import FAMILIES
from parity_tests.harness.primitives.registry import Kind, has, kind_of, records
from parity_tests.suite.harness.primitives.examples import ABSENT, EXAMPLES, LEAST, SQUARE, equation
from parity_tests.suite.marks import fast
from parity_tests.suite.rotation import rotating


@pytest.fixture(autouse=True)
def full_precision():
    with pinned():
        yield


def values(eqn: core.JaxprEqn, x: Sequence[np.ndarray]) -> list[np.ndarray]:
    y = eqn.primitive.bind(*map(jnp.asarray, x), **eqn.params)
    return [np.asarray(a) for a in (y if eqn.primitive.multiple_results else [y])]


def drawn(eqn: core.JaxprEqn, seed: int, draw: Callable[[np.random.Generator, tuple], np.ndarray]) -> list[np.ndarray]:
    """Operands: floating-point ones as they are drawn, booleans at random, and indices 0."""
    rng = np.random.default_rng(seed)
    each = [(x.aval.shape, np.dtype(x.aval.dtype)) for x in eqn.invars]
    return [
        draw(rng, shape) if t.kind == "f" else (rng.random(shape) < 0.5 if t.kind == "b" else np.zeros(shape, t))
        for shape, t in each
    ]


def integers(rng: np.random.Generator, shape: tuple) -> np.ndarray:
    return rng.integers(1, 4, shape) * rng.choice([-1.0, 1.0], shape)


def combined(a: float, x: Sequence[np.ndarray], b: float, y: Sequence[np.ndarray]) -> list[np.ndarray]:
    """a x + b y of the floating-point operands; the others are those of x."""
    return [a * u + b * v if u.dtype.kind == "f" else u for u, v in zip(x, y, strict=True)]


def is_linear(eqn: core.JaxprEqn) -> bool:
    """In all floating-point operands together."""
    x, y = drawn(eqn, 0, integers), drawn(eqn, 0, lambda rng, shape: integers(np.random.default_rng(9), shape))
    y = [u if u.dtype.kind != "f" else v for u, v in zip(x, y, strict=True)]
    sums = combined(2, x, -3, y)
    each = zip(values(eqn, sums), values(eqn, x), values(eqn, y), strict=True)
    return all(np.array_equal(of_sum, 2 * u - 3 * v) for of_sum, u, v in each)


def is_bilinear(eqn: core.JaxprEqn) -> bool:
    x, z = drawn(eqn, 0, integers), drawn(eqn, 1, integers)
    (of_x,) = values(eqn, x)
    for i, other in enumerate(z):
        changed = [other if j == i else a for j, a in enumerate(x)]
        both = [2 * x[i] - 3 * other if j == i else a for j, a in enumerate(x)]
        if not np.array_equal(values(eqn, both)[0], 2 * of_x - 3 * values(eqn, changed)[0]):
            return False
    return len(x) == 2


def only_moves(eqn: core.JaxprEqn) -> bool:
    x = drawn(eqn, 0, lambda rng, shape: rng.standard_normal(shape))
    entries = np.concatenate([a.ravel() for a in x])
    return all(np.isin(y, entries).all() for y in values(eqn, x))


def is_itself(eqn: core.JaxprEqn) -> bool:
    x = drawn(eqn, 0, lambda rng, shape: rng.standard_normal(shape))
    return len(x) == 1 and np.array_equal(values(eqn, x)[0], x[0])


def selects(eqn: core.JaxprEqn) -> bool:
    which, *x = drawn(eqn, 0, lambda rng, shape: rng.standard_normal(shape))
    (y,) = values(eqn, [which, *x])
    return np.array_equal(y, np.choose(which.astype(int), x))


def keeps_size(eqn: core.JaxprEqn) -> bool:
    (x,) = drawn(eqn, 0, integers)
    return np.array_equal(np.abs(values(eqn, [x])[0]), np.abs(x))


def adds(eqn: core.JaxprEqn) -> bool:
    x, z = drawn(eqn, 0, integers)
    (y,) = values(eqn, [x, z])
    return np.array_equal(y, x + z) or np.array_equal(y, x - z)


def is_product(eqn: core.JaxprEqn) -> bool:
    x, z = drawn(eqn, 0, integers), drawn(eqn, 1, integers)
    (of_both,), (first,), (second,) = (values(eqn, a) for a in ([u * v for u, v in zip(x, z, strict=True)], x, z))
    return np.array_equal(of_both, first * second)


def is_homogeneous(eqn: core.JaxprEqn) -> bool:
    x = drawn(eqn, 0, integers)
    (y,), (scaled,) = values(eqn, x), values(eqn, combined(3, x, 0, x))
    return np.array_equal(scaled, 3 * y)


def is_monotone(eqn: core.JaxprEqn) -> bool:
    least, rises, falls = LEAST.get(eqn.primitive.name, 0.0), True, True
    for seed in range(20):
        x = drawn(eqn, seed, lambda rng, shape: least + rng.uniform(0.05, 0.9, shape))
        up = drawn(eqn, seed + 100, lambda rng, shape: rng.uniform(0, 0.09, shape))
        for y, above in zip(values(eqn, x), values(eqn, combined(1, x, 1, up)), strict=True):
            rises, falls = rises and bool((above >= y).all()), falls and bool((above <= y).all())
    return rises or falls


def saturates(eqn: core.JaxprEqn) -> bool:
    if len(eqn.invars) != 1:
        return False
    shape = eqn.invars[0].aval.shape
    least = min(each.largest for each in PRECISIONS.values())
    ends = [[values(eqn, [np.full(shape, sign * x)])[0] for x in (least, np.inf)] for sign in (-1, 1)]
    return all(np.array_equal(at_largest, at_infinity) for at_largest, at_infinity in ends)


def is_step(eqn: core.JaxprEqn) -> bool:
    x = drawn(eqn, 0, lambda rng, shape: 5 * rng.standard_normal(shape))
    (y,) = values(eqn, x)
    order = np.argsort(x[0].ravel())
    return bool((y == np.rint(y)).all() and (np.abs(y - x[0]) <= 1).all() and (np.diff(y.ravel()[order]) >= 0).all())


def has_limit(eqn: core.JaxprEqn) -> bool:
    """At an infinity of one operand; of a power that is negative."""
    x = drawn(eqn, 0, lambda rng, shape: rng.uniform(0.05, 0.9, shape))
    params = {**eqn.params, "y": -1} if eqn.primitive.name == "integer_pow" else eqn.params
    for i, a in enumerate(x):
        for sign in (-1, 1):
            at_infinity = [np.full(a.shape, sign * np.inf) if j == i else other for j, other in enumerate(x)]
            if np.isfinite(eqn.primitive.bind(*map(jnp.asarray, at_infinity), **params)).all():
                return True
    return False


def is_root(eqn: core.JaxprEqn) -> bool:
    """64 times the first operand has the same multiple of the result, which 64 has no integer power of."""
    first, *others = drawn(eqn, 0, lambda rng, shape: rng.uniform(0.05, 0.9, shape))
    if eqn.primitive.name == "cholesky":
        first = first @ first.T + np.eye(len(first))
    multiples = []
    for x in (first, 2 * first):
        (y,), (scaled,) = values(eqn, [x, *others]), values(eqn, [64 * x, *others])
        multiples.append((scaled / y)[np.tril_indices(len(y))] if y.ndim == 2 else scaled / y)
    one, other = multiples
    powers = np.log(one) / np.log(64)
    return np.allclose(one, other, rtol=1e-12) and bool((np.abs(powers - np.rint(powers)) > 1e-6).all())


def is_logarithm(eqn: core.JaxprEqn) -> bool:
    """Of products it is the sum, counted from where it is 0: of x y, or of (1 + x) (1 + y) - 1."""
    if len(eqn.invars) != 1:
        return False
    x, y = (drawn(eqn, seed, lambda rng, shape: rng.uniform(0.05, 0.9, shape))[0] for seed in (0, 1))
    zeros = [base for base in (0, 1) if (values(eqn, [np.full(x.shape, 1.0 - base)])[0] == 0).all()]
    return any(
        np.allclose(
            values(eqn, [(base + x) * (base + y) - base])[0],
            values(eqn, [x])[0] + values(eqn, [y])[0],
            rtol=1e-12,
        )
        for base in zeros
    )


def is_of_integers(eqn: core.JaxprEqn) -> bool:
    (y,) = values(eqn, drawn(eqn, 0, lambda rng, shape: 5 * rng.standard_normal(shape)))
    return bool((y == np.rint(y)).all())


def is_function_of_each_entry(eqn: core.JaxprEqn) -> bool:
    least = LEAST.get(eqn.primitive.name, 0.0)
    x = drawn(eqn, 0, lambda rng, shape: least + rng.uniform(0.05, 0.9, shape))
    if eqn.primitive.name in ("polygamma", "zeta"):  # whose first operand is an order, or an exponent above 1
        x[0] = np.arange(x[0].size).reshape(x[0].shape) + 2.0
    if not all(a.shape == x[0].shape for a in x):
        return False
    (y,), (backwards,) = values(eqn, x), values(eqn, [np.flip(a) for a in x])
    return bool(np.allclose(backwards, np.flip(y), rtol=1e-13, atol=0))


def is_constant(eqn: core.JaxprEqn) -> bool:
    return not any(np.dtype(x.aval.dtype).kind in "fc" for x in eqn.invars)


def goes_by_order(eqn: core.JaxprEqn, h: float = 2.0**-20) -> bool:
    """Whether it jumps, or its slope does, as an entry passes 0 and all others are 0."""
    for moved in range(len(eqn.invars)):
        low, at, high = (np.float64(values(eqn, _all_zero_but(eqn, moved, x))[0]) for x in (-h, 0.0, h))
        if np.any(high + low != 2 * at) or np.any(np.abs(high - low) > 4 * h):
            return True
    return False


def _all_zero_but(eqn: core.JaxprEqn, moved: int, entry: float) -> list[np.ndarray]:
    x = [np.zeros(x.aval.shape) for x in eqn.invars]
    x[moved].flat[0] = entry
    return x


def is_differentiable(eqn: core.JaxprEqn, h: float = 2.0**-20) -> bool:
    x, v = (drawn(eqn, seed, lambda rng, shape: rng.uniform(0.5, 0.9, shape)) for seed in (0, 1))
    if x[0].shape == SQUARE:
        x[0], v[0] = np.eye(3) + x[0] @ x[0].T, v[0] + v[0].T
    moved = [i for i, a in enumerate(x) if a.dtype.kind == "f"]

    def f(*of_moved: jax.Array) -> jax.Array:
        whole = dict(zip(moved, of_moved, strict=True))
        return eqn.primitive.bind(*(whole.get(i, a) for i, a in enumerate(x)), **eqn.params)

    _, slope = jax.jvp(f, [x[i] for i in moved], [v[i] for i in moved])
    ahead, behind = (f(*(x[i] + step * v[i] for i in moved)) for step in (h, -h))
    of = np.tril if eqn.primitive.name == "cholesky" else np.asarray  # above the diagonal are any numbers
    return np.allclose(of(slope), of((ahead - behind) / (2 * h)), rtol=1e-7, atol=1e-7)


def is_exact_of_powers_of_two(eqn: core.JaxprEqn) -> bool:
    (y,) = values(eqn, drawn(eqn, 0, lambda rng, shape: 2.0 ** rng.integers(-2, 3, shape)))
    return bool((y * 16 == np.rint(y * 16)).all())


PROPERTIES: dict[Kind, Callable[[core.JaxprEqn], bool]] = {
    Kind.MOVES: only_moves,
    Kind.MOVES_UNFOLLOWED: only_moves,
    Kind.MOVES_BY_INDEX: only_moves,
    Kind.ITSELF: is_itself,
    Kind.SELECTS: selects,
    Kind.KEEPS_SIZE: keeps_size,
    Kind.ADDS: adds,
    Kind.SUM: lambda eqn: is_linear(eqn) or is_bilinear(eqn),
    Kind.PRODUCT: is_product,
    Kind.LINEAR: lambda eqn: len(eqn.invars) == 1 and is_linear(eqn),
    Kind.BILINEAR: is_bilinear,
    Kind.HOMOGENEOUS: is_homogeneous,
    Kind.MONOTONE: is_monotone,
    Kind.SATURATES: saturates,
    Kind.STEP: is_step,
    Kind.FUNCTION: is_function_of_each_entry,
    Kind.LIMIT: has_limit,
    Kind.ROOT: lambda eqn: is_logarithm(eqn) or is_root(eqn),
    Kind.INTEGERS: is_of_integers,
    Kind.CONSTANT: is_constant,
    Kind.COMPARES: goes_by_order,
    Kind.SMOOTH: is_differentiable,
    Kind.MAY_BE_EXACT: is_exact_of_powers_of_two,
}


def test_every_family_has_records_and_no_other_file():
    assert {record.bound.__module__ for record in records().values()} == {family.__name__ for family in FAMILIES}


def test_every_primitive_with_kinds_has_an_example_and_every_kind_a_property():
    assert {name for name, record in records().items() if record.kinds} == EXAMPLES.keys() | ABSENT
    assert set(PROPERTIES) == set(Kind)


@rotating(4)
@fast("reshape", "transpose", "broadcast_in_dim", "slice", "concatenate", "pad", "neg")
@pytest.mark.parametrize("name", EXAMPLES)
def test_what_a_record_says_of_a_primitive_is_true(name):
    eqn = equation(name)
    for kind in kind_of(name):
        assert PROPERTIES[kind](eqn), f"{name} is no {kind.name}"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Kind.MOVES, "cumsum"),
        (Kind.MOVES, "neg"),
        (Kind.MOVES_UNFOLLOWED, "round"),
        (Kind.MOVES_BY_INDEX, "scatter-add"),
        (Kind.ITSELF, "neg"),
        (Kind.KEEPS_SIZE, "exp"),
        (Kind.ADDS, "mul"),
        (Kind.SUM, "reduce_max"),
        (Kind.SUM, "cumprod"),
        (Kind.PRODUCT, "add"),
        (Kind.PRODUCT, "dot_general"),
        (Kind.LINEAR, "square"),
        (Kind.LINEAR, "reduce_max"),
        (Kind.BILINEAR, "add"),
        (Kind.BILINEAR, "pow"),
        (Kind.HOMOGENEOUS, "mul"),
        (Kind.HOMOGENEOUS, "sin"),
        (Kind.MONOTONE, "sub"),
        (Kind.SATURATES, "atan"),
        (Kind.SATURATES, "asinh"),
        (Kind.STEP, "neg"),
        (Kind.FUNCTION, "cumsum"),
        (Kind.LIMIT, "log"),
        (Kind.ROOT, "square"),
        (Kind.ROOT, "exp"),
        (Kind.ROOT, "expm1"),
        (Kind.INTEGERS, "neg"),
        (Kind.CONSTANT, "neg"),
        (Kind.COMPARES, "sub"),
        (Kind.SMOOTH, "stop_gradient"),
        (Kind.MAY_BE_EXACT, "exp"),
    ],
    ids=lambda x: x if isinstance(x, str) else x.name,
)
def test_a_wrong_kind_is_noticed(kind, name):
    assert not has(name, kind)
    assert not PROPERTIES[kind](equation(name))
