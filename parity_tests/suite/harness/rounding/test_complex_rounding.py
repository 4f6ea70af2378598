"""Complex numbers in both frameworks and in every format, and the bounds of their rounding."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests.harness.numbers import conversion
from parity_tests.harness.numbers.formats import COMPLEX, COMPLEX128, FORMATS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.primitives.missing import NoRule
from parity_tests.harness.primitives.registry import BY_MODULUS, records
from parity_tests.harness.rounding.analysis import bounded
from parity_tests.suite.marks import fast


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


@pytest.mark.parametrize("name", COMPLEX)
def test_there_and_back(name: str):
    x = FORMATS[name].rounded(normal(5))
    assert not np.array_equal(x, normal(5)) or name == "complex128"
    tensor = conversion.to_torch(x, FORMATS[name], "cpu")
    assert tensor.dtype == getattr(torch, name)
    np.testing.assert_array_equal(conversion.to_numpy(tensor), x)
    np.testing.assert_array_equal(conversion.to_numpy(tensor.conj()), x.conj())
    with pinned():
        array = conversion.to_jax(tensor.conj())
        assert str(array.dtype) == name
        np.testing.assert_array_equal(conversion.to_numpy(conversion.from_jax(array)), x.conj())
    assert conversion.to_torch(x.real, FORMATS[name], "cpu").dtype == getattr(torch, FORMATS[name].part)


def test_rounding_keeps_the_parts_apart():
    x = np.array([complex(np.inf, 1 / 3), complex(1 / 3, np.nan), complex(-0.0, 0.0)])
    y = FORMATS["complex64"].rounded(x)
    np.testing.assert_array_equal(y.real, np.float32(x.real))
    np.testing.assert_array_equal(y.imag, np.float32(x.imag))
    assert np.signbit(y[2].real)


RULES = {name: x.complex for name, x in records().items() if x.complex not in (None, BY_MODULUS)}
FUNCTIONS = {name: getattr(np, name) for name in RULES if hasattr(np, name) and name not in ("pow", "square")}
FUNCTIONS["rsqrt"] = lambda z: 1 / np.sqrt(z)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_an_error_of_the_argument_does(name: str, subtests: pytest.Subtests):
    """The largest change on a circle: never more than the bound, and not much less."""
    for error in (1e-6, 0.01, 0.3):
        with subtests.test(error=error):
            _check_error_of_argument(name, error)


def _check_error_of_argument(name: str, error: float) -> None:
    f, z = FUNCTIONS[name], normal(200, seed=9)
    bound = RULES[name](None, [z], [np.full(200, error)], f(z), COMPLEX128)
    circle = error * np.exp(2j * np.pi * np.arange(64) / 64)
    change = np.abs(f(z[:, None] + circle) - f(z)[:, None]).max(1)
    assert (change <= bound).all()
    assert np.isfinite(bound).mean() > 0.5
    share = change[np.isfinite(bound)] / bound[np.isfinite(bound)]
    assert np.median(share) > 0.5


OWN = ("acos", "acosh", "asin", "asinh", "atan", "atanh", "exp2", "expm1", "log1p", "rsqrt")


@fast("acosh", "expm1", "rsqrt")
@pytest.mark.parametrize("name", OWN)
def test_a_function_s_own_error_in_complex64(name: str):
    """At exact inputs, small, large and close to the points where the slopes are infinite: a tenth of it is reached."""
    p = FORMATS["complex64"]
    points = [scale * normal(500, seed=5) + at for scale in (1e-4, 1, 30) for at in (0, 1, -1, 1j, -1j)]
    z = p.rounded(np.concatenate(points))
    with pinned():
        of_jax = jax.jit(getattr(jax.lax, name))
        ((value, bound),) = bounded(jax.make_jaxpr(of_jax)(z), z, precision=p, inputs=0)
        narrow = np.asarray(of_jax(z.astype(np.complex64)))
    of_torch = getattr(torch, name)(torch.tensor(z).to(torch.complex64)).numpy()
    worst = 0.0
    for found in (narrow, of_torch):
        share = np.abs(found - value) / bound
        assert share.max() <= 1, z[np.argmax(share)]
        worst = max(worst, share.max())
    assert worst > 0.1


@pytest.mark.parametrize("n", [-3, -2, -1, 2, 3, 7])
def test_powers_by_products_and_by_logarithms(n: int):
    p, z = FORMATS["complex64"], FORMATS["complex64"].rounded(normal(2000, seed=n + 10))
    value = z ** float(n) if abs(n) > 3 else np.prod([z ** np.sign(n)] * abs(n), axis=0)
    narrow = z.astype(np.complex64)
    bound = RULES["integer_pow"](SimpleNamespace(params={"y": n}), [z], [0 * z.real], value, p)
    computed = [torch.tensor(narrow) ** n]
    if n != 2:  # which everybody multiplies
        computed.append(torch.exp(n * torch.log(torch.tensor(narrow))))
    for found in computed:
        assert (np.abs(found.numpy() - value) <= bound).all()
    assert (bound <= 400 * abs(n) * p.u * np.abs(value) * (1 + np.abs(np.log(np.abs(z))))).all()


def test_powers_of_two_complex_numbers():
    """Exact arguments, and arguments that are off: never more than the bound, and a hundredth of it is reached."""
    p, z, w = FORMATS["complex64"], normal(2000, seed=3), normal(2000, seed=4)
    z, w = p.rounded(z), p.rounded(w)
    narrow = [each.astype(np.complex64) for each in (z, w)]
    none, off = np.zeros(2000), np.full(2000, 1e-3)
    exact = RULES["pow"](None, [z, w], [none, none], z**w, p)
    with pinned():
        computed = [(torch.tensor(narrow[0]) ** torch.tensor(narrow[1])).numpy(), np.asarray(jnp.power(*narrow))]
    errors = [np.abs(found - z**w) for found in computed]
    assert all((error <= exact).all() for error in errors)
    assert max((error / exact).max() for error in errors) > 0.01
    turn = 1e-3 * np.exp(2j * np.pi * np.arange(8) / 8)
    changes = [np.abs((z + s) ** (w + t) - z**w) for s in turn for t in turn]
    bound = RULES["pow"](None, [z, w], [off, off], z**w, p)
    share = np.max(changes, 0) / bound
    assert share.max() <= 1
    assert np.median(share[np.isfinite(bound)]) > 0.5


OF_TWO = {"product": lambda x, y: x * y, "quotient": lambda x, y: x / y, "matmul": lambda x, y: x @ y}


@pytest.mark.parametrize("name", OF_TWO)
def test_arithmetic_in_complex64(name: str):
    """Exact inputs: the bound is that of the operation alone, and no error is larger."""
    p, x, y = FORMATS["complex64"], normal(60, 60, seed=1), normal(60, 60, seed=2)
    x, y = p.rounded(x), p.rounded(y)
    with pinned():
        ((value, bound),) = bounded(jax.make_jaxpr(OF_TWO[name])(x, y), x, y, precision=p, inputs=0)
    narrow = OF_TWO[name](torch.tensor(x).to(torch.complex64), torch.tensor(y).to(torch.complex64))
    error = np.abs(conversion.to_numpy(narrow) - value)
    assert bound.dtype == np.float64
    assert (error <= bound).all()
    assert error.max() > p.u / 8 * np.abs(value).min()  # it does round


def test_what_has_no_rule_is_refused():
    x = normal(3, 3)
    with pinned(), pytest.raises(NoRule, match=r"svd \(of complex numbers\)"):
        bounded(jax.make_jaxpr(jnp.linalg.svd)(x), x, precision=COMPLEX128)


def test_on_the_cut_there_is_no_bound():
    x = np.array([-1 + 0j, -1 + 1j, 1 + 0j])
    for f in (jnp.log, jnp.sqrt, jax.lax.rsqrt):
        with pinned():
            ((_, bound),) = bounded(jax.make_jaxpr(f)(x), x, precision=COMPLEX128)
        assert np.isfinite(bound).tolist() == [False, True, True]


# Of each inverse: what is on its cut, and what is on the same axis and not on it.
CUTS = {
    "asin": ([1.5, -1.5, 1], [0.5, -0.5, 1.5 + 1j]),
    "acos": ([1.5, -1.5, -1], [0.5, -0.5, -1.5 - 1j]),
    "acosh": ([0.5, -1.5, 1], [1.5, 3, 0.5 + 1j]),
    "atanh": ([1.5, -1.5, 1], [0.5, -0.5, 1.5 + 1j]),
    "asinh": ([1.5j, -1.5j, 1j], [0.5j, -0.5j, 1 + 1.5j]),
    "atan": ([1.5j, -1.5j, -1j], [0.5j, -0.5j, 1 + 1.5j]),
    "log1p": ([-1.5, -1, -4], [-0.5, 1, -1.5 + 1j]),
}


@pytest.mark.parametrize("name", CUTS)
def test_on_the_cut_of_an_inverse_there_is_no_bound(name: str):
    on, off = (np.asarray(points, complex) for points in CUTS[name])
    for points, error, finite in ((on, 1e-9, False), (on, 0.0, False), (off, 1e-9, True)):
        with np.errstate(divide="ignore", invalid="ignore"):  # at the poles
            bound = RULES[name](None, [points], [np.full(3, error)], FUNCTIONS[name](points), COMPLEX128)
        assert (np.isfinite(bound) == finite).all(), (points, bound)
