"""The domains of inputs: how their points are drawn, and the directions in which a point can be left.

A derivative is compared in these directions only: two right gradients with respect to a symmetric matrix may differ by
an antisymmetric one, which no symmetric tangent can tell, and two with respect to probabilities by a constant.

The directions must be the same at every point of a domain. Those of orthogonal matrices are not; for "orthogonal" the
operator is taken to be a function of all matrices, which is judged at orthogonal ones, in every direction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeGuard

import ml_dtypes
import numpy as np

from parity_tests.harness.numbers.complex_parts import by_parts

Sizes = Mapping[str, int]
Sampler = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


class EmptyDomain(Exception):
    """Raised when a domain has no array of some shape at some sizes of the axes."""


@dataclass(frozen=True)
class Domain:
    """A set of arrays.

    Attributes:
        name: the name of the domain in reports.
        draw: (generator, shape, sizes of the named axes) -> an array of the domain, of dtype float64, complex128, int64
            or bool; may raise `EmptyDomain`.
        project: the linear projection of an array onto the directions that stay in the domain; keeps the shape.
        project_errors: maps bounds of the errors of an array to bounds of the errors of its projection. None if
            `project` itself does this, which is so if it takes no differences.
        elementwise: True if an array belongs to the domain whenever each of its entries does, so that rows may be
            repeated.
        differentiable: False for integers and booleans, which both sides are given unchanged.
        nearest_to_zero: for integers, any of which may be at any place: (sizes) -> the one of smallest magnitude; None
            for other domains.
        spread: the standard deviation of real numbers in a sample whose own is 1; in all others they have the sample's.
    """

    name: str
    draw: Callable[[np.random.Generator, tuple[int, ...], Sizes], np.ndarray]
    project: Callable[[np.ndarray], np.ndarray] = lambda x: x
    project_errors: Callable[[np.ndarray], np.ndarray] | None = None
    elementwise: bool = False
    differentiable: bool = True
    nearest_to_zero: Callable[[Sizes], int] | None = None
    spread: float = 1.0

    @property
    def unscaled(self) -> Domain:
        """The same domain without a spread of its own."""
        return self if self.spread == 1.0 else replace(self, spread=1.0)

    @property
    def is_real(self) -> bool:
        """Return whether it has all real numbers, drawn with the standard deviation of a sample."""
        return self.unscaled in (REAL, EXTENDED)


def _symmetric(x: np.ndarray) -> np.ndarray:
    return (x + np.swapaxes(x, -1, -2)) / 2


def _definite(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
    n = _square(shape, "definite")
    A = rng.standard_normal(shape)
    # Eigenvalues in [1, 1 + 4 or so]: well conditioned, so that rounding is not amplified beyond what can be judged.
    return _symmetric(A @ np.swapaxes(A, -1, -2) / max(n, 1)) + np.eye(n)


def _triangular(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
    n = _square(shape, "lower")
    return np.tril(rng.standard_normal(shape), -1) / max(n, 1) ** 0.5 + np.eye(n) * rng.uniform(1, 2, shape)


def _well_conditioned(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
    n = _square(shape, "well-conditioned")
    left, right = (_orthogonal_matrices(rng, shape) for _ in range(2))
    # Singular values in [1, 2]: a small condition number, so that rounding is not amplified beyond what can be judged.
    return left * rng.uniform(1, 2, (*shape[:-2], 1, n)) @ right


def _orthogonal(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
    if len(shape) < 2 or shape[-1] > shape[-2]:
        if len(shape) >= 2:
            raise EmptyDomain(f"{shape[-1]} columns of {shape[-2]} entries cannot be orthonormal")
        raise ValueError(f"domain 'orthogonal' is of matrices, got the shape {shape}; write (n,m) in the signature")
    return _orthogonal_matrices(rng, (*shape[:-1], shape[-2]))[..., : shape[-1]]


def _orthogonal_matrices(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Square orthogonal matrices, uniformly distributed: the signs of R's diagonal go into Q."""
    Q, R = np.linalg.qr(rng.standard_normal(shape))
    return Q * np.where(np.diagonal(R, axis1=-2, axis2=-1) < 0, -1.0, 1.0)[..., None, :]


def _probabilities(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
    if not shape:
        raise ValueError("domain 'probabilities' is of vectors, got a scalar; write (n) in the signature")
    weights = rng.uniform(1 / 4, 1, shape)
    return weights / weights.sum(-1, keepdims=True)


def _with_sum_zero(x: np.ndarray) -> np.ndarray:
    return x - x.mean(-1, keepdims=True) if x.size else x


def _errors_with_sum_zero(e: np.ndarray) -> np.ndarray:
    return e + e.mean(-1, keepdims=True) if e.size else e


def _sorted(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
    if not shape:
        raise ValueError("domain 'sorted' is of vectors, got a scalar; write (n) in the signature")
    return np.sort(_distinct(rng, shape, sizes), axis=-1)


# Numbers of either sign, with 8 binary digits and 2^-10 <= |x| < 4, are exact in every format, float16 included.
_SHORT_NUMBERS = np.concatenate(
    [sign * np.ldexp(np.arange(128, 256), k) for sign in (1.0, -1.0) for k in range(-17, -5)]
)


def _distinct(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
    count = int(np.prod(shape))
    if count > _SHORT_NUMBERS.size:  # a 16-bit format has fewer numbers: some become equal by rounding
        return rng.standard_normal(shape)
    density = 1 / (1 + np.abs(np.log2(np.abs(_SHORT_NUMBERS))) ** 2)  # most of them of ordinary size
    return rng.choice(_SHORT_NUMBERS, count, replace=False, p=density / density.sum()).reshape(shape)


def _nonzero(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
    return np.copysign(np.exp(rng.standard_normal(shape) / 2), rng.standard_normal(shape))


def _complex(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def _square(shape: tuple[int, ...], name: str) -> int:
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(f"domain {name!r} is of square matrices, got the shape {shape}; write (n,n) in the signature")
    return shape[-1]


DOMAINS: dict[str, Domain] = {
    domain.name: domain
    for domain in (
        Domain("real", lambda rng, shape, sizes: rng.standard_normal(shape), elementwise=True),
        Domain("extended", lambda rng, shape, sizes: rng.standard_normal(shape), elementwise=True),
        Domain("positive", lambda rng, shape, sizes: np.exp(rng.standard_normal(shape) / 2), elementwise=True),
        Domain("unit", lambda rng, shape, sizes: rng.uniform(1 / 16, 15 / 16, shape), elementwise=True),
        Domain("symmetric", lambda rng, shape, sizes: _symmetric(rng.standard_normal(shape)), _symmetric),
        Domain("definite", _definite, _symmetric),
        Domain("lower", _triangular, np.tril),
        Domain("nonzero", _nonzero, elementwise=True),
        Domain("well-conditioned", _well_conditioned),
        Domain("orthogonal", _orthogonal),
        Domain("probabilities", _probabilities, _with_sum_zero, _errors_with_sum_zero),
        Domain("sorted", _sorted),
        Domain("distinct", _distinct),
        Domain("complex", _complex, elementwise=True),
    )
}
REAL, COMPLEX_NUMBERS = DOMAINS["real"], DOMAINS["complex"]
EXTENDED = DOMAINS["extended"]  # real numbers, and infinities, which are judged at special points
# Three of four are True: with half of them a row of three has one or none so often that its softmax has no slope.
BOOLEAN = Domain("boolean", lambda rng, shape, sizes: rng.random(shape) < 0.75, elementwise=True, differentiable=False)


def integer(low: int | str, high: int | str) -> Domain:
    """Return the domain of integers from `low` up to, not including, `high`; the name of an axis means its size."""

    def limits(sizes: Sizes) -> tuple[int, int]:
        a, b = (sizes[x] if isinstance(x, str) else x for x in (low, high))
        return a, b

    def nearest_to_zero(sizes: Sizes) -> int:
        a, b = limits(sizes)
        return max(a, min(0, b - 1))

    def draw(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
        a, b = limits(sizes)
        if not np.prod(shape):
            return np.zeros(shape, np.int64)
        if a >= b:
            raise EmptyDomain(f"there is no integer from {a} up to {b}")
        return rng.integers(a, b, shape)

    return Domain(f"integer({low}, {high})", draw, differentiable=False, nearest_to_zero=nearest_to_zero)


def constant(domain: Domain) -> Domain:
    """Return the same domain for an input that is not differentiated; its points are exact in every format."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
        return as_constant(domain.draw(rng, shape, sizes))

    return Domain(f"constant {domain.name}", draw, differentiable=False)


def as_constant(x: np.ndarray) -> np.ndarray:
    """Return x rounded so that it is exact in every format."""
    return by_parts(lambda a: a.astype(ml_dtypes.bfloat16).astype(np.float16).astype(np.float64), x)


def domain_of(what: str | Domain | Sampler) -> Domain:
    """Return the domain that a name, a `Domain` or a user's sampler describes.

    Raises:
        ValueError: the name is unknown.
        TypeError: `what` is neither a name, nor a domain, nor a sampler.
    """
    if isinstance(what, Domain):
        return what
    if isinstance(what, str):
        if what == BOOLEAN.name:
            return BOOLEAN
        if what not in DOMAINS:
            raise ValueError(
                f"unknown domain {what!r}; there are {', '.join(DOMAINS)}, boolean, integer(low, high), or a sampler"
            )
        return DOMAINS[what]
    if not is_sampler(what):
        raise TypeError(f"a domain is a name, a Domain or a sampler (generator, shape) -> array, got {what!r}")
    name = getattr(what, "__name__", "own sampler")
    return Domain(name, _Sampled(what, name))


@dataclass(frozen=True)
class _Sampled:
    """A user's sampler as `Domain.draw`: inputs that have the same one are of the same domain."""

    sampler: Sampler
    name: str

    def __call__(self, rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
        return _widened(np.asarray(self.sampler(rng, shape)), self.name)


def is_sampler(what: object) -> TypeGuard[Sampler]:
    """Return whether an object is a user's sampler, and neither a name nor a `Domain`."""
    return callable(what) and not isinstance(what, Domain)


def draws_integers(sampler: Sampler, shape: tuple[int, ...]) -> bool:
    """Return whether a sampler draws integers or booleans at this shape.

    False if it draws nothing of this shape: where it does draw, `samples` refuses integers that were not expected.
    """
    try:
        return np.asarray(sampler(np.random.default_rng(0), shape)).dtype.kind in "iub"
    except Exception:
        return False


def undifferentiated(domain: Domain) -> Domain:
    """Return the same domain of integers or booleans, marked as not differentiable."""
    return replace(domain, differentiable=False)


def _widened(x: np.ndarray, name: str) -> np.ndarray:
    """Return the array that a sampler has drawn as float64, int64 or bool.

    Raises:
        TypeError: the array holds complex numbers, objects or text.
    """
    if x.dtype.kind in "cOSU":
        raise TypeError(f"the sampler {name!r} drew {x.dtype}; draw real numbers, integers or booleans")
    if x.dtype.kind == "b":
        return x
    return x.astype(np.int64 if x.dtype.kind in "iu" else np.float64)
