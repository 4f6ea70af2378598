"""tanh and its slope as the fused kernel computes them: rows.cpp by itself, at each level it is compiled for."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import TypeAlias

import mpmath
import numpy as np
import pytest

from parity_tests.suite.torch_impl._sources import library, planted, source
from torch_impl.native.build import toolchain_missing

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(toolchain_missing() is not None, reason=f"compiles: {toolchain_missing()}"),
]

Rows: TypeAlias = ctypes.CDLL
SOURCE = source("rows.cpp")
FACE = """
extern "C" void tanh_of_a_row(float* x, int64_t size, float* y) {
  gradparity::rows::tanh(x, size, 1, size, y, size);
}
extern "C" void slope_of_a_row(const float* attn, float* P, float* A, int64_t size) {
  gradparity::rows::times_slope(gradparity::Matrix<float>{attn, 1, size, size, 1}, P, nullptr, A, P, size);
}
"""
HIGHEST, SECOND = '"arch=x86-64-v4", ', '"arch=x86-64-v3", '
LEVELS = {"best": "", "second": HIGHEST, "any": "#define LEVELS"}  # what is taken out of the source
ULP = 2.43  # as rows.h says
SATURATED = np.float32(10).view(np.uint32)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Rows]:
    """Compiles a source, once."""
    return functools.cache(lambda text: library(tmp_path_factory.mktemp("rows"), {"rows.cpp": text + FACE}))


def at_level(level: str) -> str:
    assert LEVELS[level] in SOURCE
    if level == "any":  # without the attribute
        return SOURCE.replace("#define LEVELS", "").replace(
            "__attribute__((target_clones(" + HIGHEST + SECOND + '"default")))', ""
        )
    return SOURCE.replace(LEVELS[level], "")


def _pointer(x: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(x.ctypes.data)


def tanh(rows: Rows, x: np.ndarray) -> np.ndarray:
    y, also = x.copy(), np.empty_like(x)
    rows.tanh_of_a_row(_pointer(y), ctypes.c_int64(y.size), _pointer(also))
    np.testing.assert_array_equal(y, also)
    return y


def times_slope(rows: Rows, a: np.ndarray) -> np.ndarray:
    P, A = np.ones_like(a), np.empty_like(a)
    rows.slope_of_a_row(*map(_pointer, (a, P, A)), ctypes.c_int64(a.size))
    np.testing.assert_array_equal(A, a)
    return P


def error(x: np.ndarray, y: np.ndarray) -> float:
    """The largest error of y for tanh x, in units of the last place of the result."""
    truth = np.tanh(x.astype(np.float64))
    return float(np.max(np.abs(y - truth) / np.spacing(np.abs(truth).astype(np.float32)).astype(np.float64)))


def bits(begin: int, end: int, step: int = 1) -> np.ndarray:
    return np.arange(begin, end, step, dtype=np.uint32).view(np.float32)


@pytest.mark.parametrize("level", LEVELS)
def test_tanh(compiled: Callable[[str], Rows], level: str) -> None:
    rows, x = compiled(at_level(level)), bits(0, SATURATED, 499)
    y = tanh(rows, x)
    assert 2 < error(x, y) <= ULP
    np.testing.assert_array_equal(tanh(rows, -x), -y)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 10.5, -1e30, 1e-45, -1e-38], np.float32)
    expected = np.array([np.nan, 1, -1, 0.0, -0.0, 1, -1, 1e-45, -1e-38], np.float32)
    y = tanh(rows, special)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(np.signbit(y[1:]), np.signbit(expected[1:]))


# The levels that this machine does not take need minutes even for every eleventh number.
SAMPLED = [pytest.param(level, 101) for level in LEVELS]
EVERY = [
    pytest.param(level, stride, marks=pytest.mark.soak) for level, stride in (("best", 1), ("second", 11), ("any", 11))
]


@pytest.mark.parametrize(("level", "stride"), [*SAMPLED, *EVERY])
def test_tanh_of_every_number(compiled: Callable[[str], Rows], level: str, stride: int) -> None:
    """Of all 2^32 but the NaNs one in `stride`: up to 10 against float64, above it exactly, and the sign apart."""
    rows, step, worst = compiled(at_level(level)), stride << 16, 0.0  # NumPy keeps memory of that size
    for begin in range(0, 0x7F80_0001, step):
        x = bits(begin, min(begin + step, 0x7F80_0001), stride)
        y = tanh(rows, x)
        np.testing.assert_array_equal(tanh(rows, -x), -y)
        below = int(np.searchsorted(x, np.float32(10)))
        worst = max(worst, error(x[:below], y[:below]) if below else 0.0)
        np.testing.assert_array_equal(y[below:], np.float32(1))
    assert (2.4 if stride == 1 else 2) < worst <= ULP  # that the worst is found, too


PLANTED = {
    "coefficient": ("0.16666666f", "0.166666f"),
    "saturates_early": ("> 10.f ? 10.f", "> 8.f ? 8.f"),
    "log_2_in_one_part": (" - k * 1.42860677e-6f", ""),
    "exp_for_expm1": ("(r * r * Q + r) + (two_to_k - 1.f)", "(r * r * Q + r + 1.f) - 1.f"),
    "even": ("std::copysign(E / (E + 2.f), x)", "E / (E + 2.f)"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_wrong_tanh_is_caught(compiled: Callable[[str], Rows], name: str) -> None:
    x = bits(0, SATURATED, 4999)
    rows = compiled(planted(SOURCE, *PLANTED[name]))
    assert error(x, tanh(rows, x)) > ULP or not np.array_equal(tanh(rows, -x), -tanh(rows, x))


def relative_errors(a: np.ndarray, P: np.ndarray) -> list[float]:
    """Of P for 1 - a², in units of float32's rounding."""
    with mpmath.workprec(200):
        exact = [1 - mpmath.mpf(float(x)) ** 2 for x in a]
        return [float(abs(mpmath.mpf(float(p)) - t) / t) * 2**24 for p, t in zip(P, exact, strict=True)]


@pytest.mark.parametrize("level", LEVELS)
def test_the_slope_does_not_cancel(compiled: Callable[[str], Rows], level: str) -> None:
    """Three roundings, four with the product with G, at any a; 1 - a² errs by up to 1448."""
    one = int(np.float32(1).view(np.uint32))
    near, spread = bits(one - 3000, one), bits(0, one, 500_009)
    a = np.concatenate([near, -near, spread, -spread])
    assert max(relative_errors(a, times_slope(compiled(at_level(level)), a))) <= 4
    assert 1448 < max(relative_errors(near, np.float32(1) - near * near)) < 1449
    np.testing.assert_array_equal(times_slope(compiled(at_level(level)), np.array([1, -1], np.float32)), 0)
