"""Digits that torch and JAX lose, function by function: `python -m benchmarks digits`, which writes docs/digits.md.

The page says how. What the problem itself forces is what one rounding of the inputs and one of the result make: see
`parity_tests.harness.trial.digits`, whose definition of lost digits this is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from mpmath.ctx_mp import MPContext

from parity_tests.harness.numbers.formats import PRECISIONS, Precision
from parity_tests.harness.primitives.bound.base import relative
from parity_tests.harness.trial.digits import TIMES

FORMATS = ("float32", "bfloat16")
PAGE = Path(__file__).parents[1] / "docs" / "digits.md"
BITS = 600  # of mpmath: exp(-2 · 128) needs 370 below 1
_EXPONENTS = (-30.0, 7.0)  # of two: from 1e-9 to 128
_POINTS = 200  # of each sign


@dataclass(frozen=True)
class Function:
    """A function of x, or of x and y, whose derivative is that with respect to x.

    Attributes:
        value, derivative: (context, x, ...) -> number, in mpmath.
        torch, jax: the function in both frameworks.
        second: the places' y, each a function of their x; none of a function of x alone.
        positive: True if x is positive only.
    """

    value: Callable[..., Any]
    derivative: Callable[..., Any]
    torch: Callable[..., torch.Tensor]
    jax: Callable[..., jax.Array]
    second: Sequence[Callable[[np.ndarray], np.ndarray]] = ()
    positive: bool = False


def _sigmoid(mp: Any, x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


def _sinc_derivative(mp: Any, x: Any) -> Any:
    a = mp.pi * x
    return (mp.cos(a) - mp.sin(a) / a) / x


_SECOND = (np.ones_like, lambda x: 0.75 * x)
FUNCTIONS: Mapping[str, Function] = {
    "sigmoid": Function(_sigmoid, lambda mp, x: _sigmoid(mp, x) * _sigmoid(mp, -x), torch.sigmoid, jax.nn.sigmoid),
    "tanh": Function(lambda mp, x: mp.tanh(x), lambda mp, x: mp.sech(x) ** 2, torch.tanh, jnp.tanh),
    "logsigmoid": Function(
        lambda mp, x: mp.log(_sigmoid(mp, x)),
        lambda mp, x: _sigmoid(mp, -x),
        torch.nn.functional.logsigmoid,
        jax.nn.log_sigmoid,
    ),
    "expm1": Function(lambda mp, x: mp.expm1(x), lambda mp, x: mp.exp(x), torch.expm1, jnp.expm1),
    "sinc": Function(lambda mp, x: mp.sin(mp.pi * x) / (mp.pi * x), _sinc_derivative, torch.sinc, jnp.sinc),
    "softplus": Function(
        lambda mp, x: mp.log1p(mp.exp(x)),
        lambda mp, x: _sigmoid(mp, x),
        torch.nn.functional.softplus,
        jax.nn.softplus,
    ),
    "logaddexp": Function(
        lambda mp, x, y: mp.log(mp.exp(x) + mp.exp(y)),
        lambda mp, x, y: _sigmoid(mp, x - y),
        torch.logaddexp,
        jnp.logaddexp,
        _SECOND,
    ),
    "hypot": Function(
        lambda mp, x, y: mp.hypot(x, y), lambda mp, x, y: x / mp.hypot(x, y), torch.hypot, jnp.hypot, _SECOND
    ),
    "i0": Function(
        lambda mp, x: mp.besseli(0, x), lambda mp, x: mp.besseli(1, x), torch.special.i0, jax.scipy.special.i0
    ),
    "digamma": Function(
        lambda mp, x: mp.digamma(x),
        lambda mp, x: mp.psi(1, x),
        torch.special.digamma,
        jax.scipy.special.digamma,
        positive=True,
    ),
}


@dataclass(frozen=True)
class Worst:
    """Where a framework loses most of what the problem does not force to be lost.

    Attributes:
        at: the arguments.
        lost, forced: bits that are lost there, and that the problem forces to be lost.
        of: the bits that the format has.
        found: True if this is what `gradparity` calls lost digits; otherwise it is rounding.
    """

    at: tuple[float, ...]
    lost: int
    forced: int
    of: int
    found: bool

    def __str__(self) -> str:
        """ "**24 of 24** at 18.52 (4 forced)"; of what is only rounding the number of bits."""
        if not self.found:
            return f"{self.lost}"
        where = ", ".join(f"{x:.4g}" for x in self.at)
        return f"**{self.lost} of {self.of}** at {where} ({self.forced} forced)"


def places(f: Function, p: Precision) -> list[np.ndarray]:
    """The arguments at which a function is evaluated, exact in a format."""
    sizes = p.rounded(2.0 ** np.linspace(*_EXPONENTS, _POINTS))
    x = np.unique(sizes if f.positive else np.concatenate([-sizes, sizes]))
    if not f.second:
        return [x]
    return [np.concatenate([x] * len(f.second)), np.concatenate([p.rounded(second(x)) for second in f.second])]


def by_torch(f: Function, args: Sequence[np.ndarray], p: Precision) -> tuple[np.ndarray, np.ndarray]:
    """The values, and the derivatives with respect to the first argument."""
    tensors = [torch.tensor(x, dtype=getattr(torch, p.name)) for x in args]
    x = tensors[0].requires_grad_()
    y = f.torch(*tensors)
    (x_bar,) = torch.autograd.grad(y.sum(), x)
    return y.detach().double().numpy(), x_bar.double().numpy()


def by_jax(f: Function, args: Sequence[np.ndarray], p: Precision) -> tuple[np.ndarray, np.ndarray]:
    """The same by JAX, jitted."""
    arrays = [jnp.asarray(x.astype(p.storage)) for x in args]
    both = jax.jit(jax.vmap(jax.value_and_grad(f.jax)))(*arrays)
    y, x_bar = (np.asarray(a).astype(np.float64) for a in both)
    return y, x_bar


def worst(mp: Any, exact: Callable[..., Any], args: Sequence[np.ndarray], results: np.ndarray, p: Precision) -> Worst:
    """Where results lose most besides what the problem forces, among those that are far inside the format's range."""
    of, found = round(-math.log2(p.u)), None

    def bits(error: Any, size: Any) -> float:
        return of if error >= size else max(0.0, float(mp.log(error / size / p.u, 2))) if error else 0.0

    for *numbers, result in zip(*args, results, strict=True):
        at = [mp.mpf(float(x)) for x in numbers]
        y = exact(mp, *at)
        size = abs(y)
        if not p.tiny * 2**of <= size <= p.largest / 2:
            continue
        moved = ([*at[:i], x * (1 + mp.mpf(p.u)), *at[i + 1 :]] for i, x in enumerate(at))
        least = sum((abs(exact(mp, *x) - y) for x in moved), p.u * size)
        error = abs(mp.mpf(float(result)) - y) if math.isfinite(result) else mp.inf
        lost, forced = bits(error, size), bits(least, size)
        if found is None or lost - forced > found[0]:
            is_lost = bool(error > TIMES * least + relative(p) * size + TIMES * p.tiny)
            place = tuple(float(x) for x in numbers)
            found = lost - forced, Worst(place, math.floor(lost), math.floor(forced), of, is_lost)
    assert found is not None
    return found[1]


@dataclass(frozen=True)
class Row:
    """The worst losses of both frameworks in a function's value, or in its derivative, in one format."""

    format: str
    function: str
    what: str
    torch: Worst
    jax: Worst


def rows(names: Sequence[str] = tuple(FUNCTIONS), formats: Sequence[str] = FORMATS) -> Iterator[Row]:
    """A row for the value and for the derivative of each function in each format."""
    mp = MPContext()
    with mp.workprec(BITS):
        for format_name in formats:
            p = PRECISIONS[format_name]
            for name in names:
                f = FUNCTIONS[name]
                args = places(f, p)
                results = (f.value, f.derivative), ("value", "derivative"), by_torch(f, args, p), by_jax(f, args, p)
                for exact, what, *by in zip(*results, strict=True):
                    of_torch, of_jax = (worst(mp, exact, args, y, p) for y in by)
                    yield Row(format_name, name, what, of_torch, of_jax)


_TEXT = """# Digits that PyTorch and JAX lose

Written by `python -m benchmarks digits`; every number is computed. {versions}.

Each function and its first derivative (of two arguments, that with respect to the first) are evaluated at {count}
numbers x of each sign with 2^{low:.0f} <= |x| <= 2^{high:.0f} (of digamma the positive ones; of two arguments at y = 1
and at y = 3x / 4), by PyTorch eagerly and by JAX under `jit`, and compared with mpmath's own functions at {bits} bits.
A bit is lost for each factor of 2 by which the error exceeds the rounding of the result. The problem forces what one
rounding of each argument and one of the result make. Of all places the one is listed at which most is lost besides.

What is lost without need, by the definition of `OpSpec(accurate=True)`, is bold, with the place, x or x and y, and the
bits that are forced there. Otherwise it is rounding, and the number is that of its bits. Results are left out that are
below the smallest normal number times 2^24 (of bfloat16 2^8), or beyond half of the largest number.

"""


def page(found: Sequence[Row]) -> str:
    """The page in docs."""
    formats = list(dict.fromkeys(row.format for row in found))
    heads = " | ".join(f"{name}: {of}" for name in formats for of in ("PyTorch", "JAX"))
    text = _TEXT.format(
        versions=f"PyTorch {torch.__version__}, JAX {jax.__version__}, CPU",
        count=_POINTS,
        low=_EXPONENTS[0],
        high=_EXPONENTS[1],
        bits=BITS,
    )
    text += f"| function | | {heads} |\n|{'---|' * (2 + 2 * len(formats))}\n"
    cells: dict[tuple[str, str], list[str]] = {}
    for row in found:
        cells.setdefault((row.function, row.what), []).extend([str(row.torch), str(row.jax)])
    return text + "".join(f"| {name} | {what} | {' | '.join(of)} |\n" for (name, what), of in cells.items())
