"""The floating-point formats in which a candidate is judged."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import ml_dtypes
import numpy as np

from parity_tests.harness.numbers.complex_parts import by_parts
from parity_tests.harness.numbers.contracts import THROUGHOUT, Arithmetic, Storing
from parity_tests.harness.numbers.jumps import Jumps

# Right code may exceed the bound of a long sum by chance, with a probability of at most 2 exp(-λ² / 2). λ is chosen so
# that in SUMS_OF_A_REPORT sums, more than one report compares, this happens with CHANCE_OF_AN_ALARM at most.
SUMS_OF_A_REPORT = 1e7
CHANCE_OF_AN_ALARM = 1e-3
LAMBDA = math.sqrt(2 * math.log(2 * SUMS_OF_A_REPORT / CHANCE_OF_AN_ALARM))  # 6.9


@dataclass(frozen=True)
class Precision:
    """One format: how it stores numbers and how sums of products are accumulated in it.

    Attributes:
        name: the dtype's name in JAX, NumPy and PyTorch alike.
        storage: the NumPy dtype; of complex numbers, that of a real or imaginary part.
        u: unit roundoff of a stored result (half the spacing at 1).
        u_acc: unit roundoff of the accumulator: float32's for the 16-bit formats.
        tiny: what one operation may lose to underflow: the smallest normal number, since XLA and CUDA may flush
            subnormals to zero; for float16, which both compute in float32, its smallest subnormal.
        smallest: the smallest positive number, a subnormal.
        largest: the largest finite number.
        part: the name of the format of a real or imaginary part; its own, if its numbers are real.
        any_choice: True if the bounds of an error analysis cover every choice between exactly equal keys of a sort,
            and False if they cover the oracle's choice alone. See `primitives.order`.
        any_order: True if a product has no bound where it overflows in another order of its factors than the oracle's.
            See `rounding.products`.
        arithmetic: what a computation in a 16-bit format rounds. See `rounding.stored`.
        stored: the intermediates that are rounded to another format. See `rounding.stored`.
        jumps: the sides of jumps for which an error analysis is made. See `rounding.integer_jumps`.
    """

    name: str
    storage: np.dtype
    u: float
    u_acc: float
    tiny: float
    smallest: float
    largest: float
    part: str
    any_choice: bool = False
    any_order: bool = False
    arithmetic: Arithmetic = THROUGHOUT
    stored: Storing | None = field(default=None, compare=False, repr=False)
    jumps: Jumps | None = field(default=None, compare=False, repr=False)

    @property
    def with_any_choice(self) -> Precision:
        """The same format, for bounds that cover every choice between exactly equal keys."""
        return replace(self, any_choice=True)

    @property
    def with_any_order(self) -> Precision:
        """The same format, for bounds of products in whatever order their factors are multiplied."""
        return replace(self, any_order=True)

    @property
    def is_short(self) -> bool:
        """True of the 16-bit formats, whose sums of products are accumulated in float32."""
        return self.u_acc < self.u

    def under(self, arithmetic: Arithmetic) -> Precision:
        """The same format, for bounds of what rounds as this contract says; the wider formats have no contracts."""
        return replace(self, arithmetic=arithmetic) if self.is_short else self

    @property
    def is_complex(self) -> bool:
        """True if the format's numbers are complex. Real quantities, such as an absolute value, are real there, too."""
        return self.part != self.name

    @property
    def double(self) -> Precision:
        """The format in which the oracle judges this one: float64, or complex128."""
        return COMPLEX128 if self.is_complex else FLOAT64

    @property
    def single(self) -> Precision:
        """float32, or complex64: numbers of the same kind in half the width of `double`."""
        return FORMATS["complex64" if self.is_complex else "float32"]

    @property
    def complex_name(self) -> str | None:
        """The name of the format of complex numbers whose parts are these; None where both frameworks have none."""
        return {"float64": "complex128", "float32": "complex64"}.get(self.part)

    def covers(self, other: Precision) -> bool:
        """Return whether this is the same format as `other`, or a wider one of numbers of the same kind."""
        wider = self.storage.itemsize > other.storage.itemsize
        return self is other or (wider and self.is_complex == other.is_complex)

    def dtype_of(self, x: np.ndarray) -> str:
        """Return the name of the dtype in which an array of float64 or complex128 is stored in this format.

        Raises:
            ValueError: the array is complex, and the format has no complex numbers.
        """
        if not np.iscomplexobj(x):
            return self.part
        if self.complex_name is None:
            raise ValueError(f"there are no complex numbers in {self.name}")
        return self.complex_name

    def rounded(self, x: np.ndarray) -> np.ndarray:
        """Return x rounded to this format, as float64; complex numbers are rounded by parts, and stay complex128.

        What is beyond the format's largest number becomes an infinity, without a warning.
        """
        with np.errstate(over="ignore"):
            return by_parts(lambda a: np.asarray(a, np.float64).astype(self.storage).astype(np.float64), np.asarray(x))

    def spacing(self, x: np.ndarray) -> np.ndarray:
        """Return the distance of the format's numbers around x: one unit in the last place."""
        _, exponent = np.frexp(x)
        return np.maximum(np.ldexp(2 * self.u, exponent - 1), self.smallest)

    def gamma(
        self, K: int, pairs: np.ndarray | float | None = None, biased: np.ndarray | float | None = None
    ) -> np.ndarray | float:
        """Return γ_K, the bound on the relative error of K roundings of the accumulator; see `rounding`.

        Args:
            K: the number of roundings.
            pairs: the number of pairs of equal terms, by default K, for K different terms; see `bound.terms`.
            biased: the contribution of roundings that are not independent; see `bound.terms`.
        """
        if biased is None and not isinstance(pairs, np.ndarray):  # a number, without the cost of arrays
            return min(K, LAMBDA * math.sqrt(K if pairs is None else pairs) + 2 * self.u_acc * K * K) * self.u_acc
        independent = LAMBDA * np.sqrt(K if pairs is None else pairs)
        return np.minimum(K, independent + (2 * self.u_acc * K * K if biased is None else biased)) * self.u_acc

    def all_roundings_add_up(self, K: int, pairs: np.ndarray | float) -> bool:
        """Return whether γ_K is known to be K u_acc whatever roundings are biased; `pairs` as of `gamma`."""
        return not isinstance(pairs, np.ndarray) and LAMBDA * math.sqrt(pairs) >= K


def _precision(
    name: str, storage: type, u_acc: float | None = None, flushes: bool = True, part: str | None = None
) -> Precision:
    info = ml_dtypes.finfo(storage)
    u = float(info.eps) / 2
    tiny = float(info.smallest_normal if flushes else info.smallest_subnormal)
    return Precision(
        name=name,
        storage=np.dtype(storage),
        u=u,
        u_acc=u if u_acc is None else u_acc,
        tiny=tiny,
        smallest=float(info.smallest_subnormal),
        largest=float(info.max),
        part=part or name,
    )


_U32 = float(np.finfo(np.float32).eps) / 2

PRECISIONS: dict[str, Precision] = {  # of real numbers
    p.name: p
    for p in (
        _precision("float64", np.float64),
        _precision("float32", np.float32),
        _precision("bfloat16", ml_dtypes.bfloat16, u_acc=_U32),
        _precision("float16", np.float16, u_acc=_U32, flushes=False),
    )
}
FLOAT64 = PRECISIONS["float64"]
COMPLEX128 = _precision("complex128", np.float64, part="float64")
COMPLEX: dict[str, Precision] = {p.name: p for p in (COMPLEX128, _precision("complex64", np.float32, part="float32"))}
FORMATS = PRECISIONS | COMPLEX
