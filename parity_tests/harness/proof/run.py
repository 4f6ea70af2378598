"""A run of a program at ordinary numbers, in so many digits that no branch of it is one of rounding.

It decides comparisons, and with them branches, maxima, masks and orders; and it shows the signs of roots and
logarithms, which fields do not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from jax.extend import core
from mpmath.ctx_mp import MPContext

from parity_tests.harness.exceptions.errors import first_line
from parity_tests.harness.extended.evaluation import Extended, numbers_of
from parity_tests.harness.language.interpret import interpret
from parity_tests.harness.language.steps import Step
from parity_tests.harness.primitives.field.constants import may_be_rounded, recognized
from parity_tests.harness.primitives.field.functions import whole_quotients
from parity_tests.harness.primitives.field.numbers import Unmodelled
from parity_tests.harness.primitives.missing import NoRule
from parity_tests.harness.primitives.registry import Kind, has, record_of
from parity_tests.harness.proof.others import of_others

BITS = 2048
# Far more than rounding in so many bits makes of a formula, far less than another sign or branch makes of one whose
# numbers are all float64's: of an entry beside the largest of its result, and beside the largest number of the run.
_OF_A_RESULT, _OF_A_RUN = -1000, -1600
_LARGEST_PART = 10**7  # of a fraction that is told


def context(bits: int = BITS) -> MPContext:
    """Return an mpmath context of so many bits."""
    mp = MPContext()
    mp.prec = bits
    return mp


def _number(mp: Any, x: float) -> Any:
    found = recognized(x)
    number = mp.mpf(found.rational.numerator) / found.rational.denominator
    for _ in range(found.order.bit_length() - 1):
        number = mp.sqrt(number)
    number *= mp.sqrt(mp.pi) ** found.pis * mp.log(found.base) ** found.logs
    return -number if found.negative else number


class Run(Extended):
    """One run of one program.

    Attributes:
        args: its arguments.
        rounded: constants that may be rounded results of another formula.
        steps_taken: the results of each equation, in the order in which they were computed.
        choices: the branches that were taken, as arrays.
        has_roots: whether there are roots, which may have the other sign in a field.
        has_tails: whether there are functions, as exp, of which a term may vanish beside all others.
        largest: the largest finite number among them.
        results: those of the program.
    """

    def __init__(self, mp: Any, program: core.ClosedJaxpr, args: Sequence[np.ndarray]) -> None:
        """Run a program at these arguments, floats exactly as they are.

        Raises:
            Unmodelled: an operation has no rule in extended precision, is of complex numbers or of another dtype than
                float64, or compares what is no number.
        """
        super().__init__(mp, self._exact)
        for x in program.jaxpr.invars:
            _check_dtype(x.aval)
        self.rounded = set[float]()
        self._constants: dict[float, Any] = {}  # the same literals are met at every point of a field
        self.has_roots = self.has_tails = False
        self.steps_taken: list[list[np.ndarray]] = []
        self.choices: list[np.ndarray] = []
        self.largest = mp.zero
        self.args = [numbers_of(mp, x) for x in args]
        with np.errstate(all="ignore"):
            self.results = interpret(program, self.args, self)

    def branches_as(self, other: Run) -> bool:
        """Whether another run of the program takes the same branches: comparisons, integers, signs, maxima, orders."""
        return len(self.choices) == len(other.choices) and all(map(np.array_equal, self.choices, other.choices))

    def constant(self, x: Any) -> np.ndarray:
        """The numbers that floats stand for; see `constants`."""
        x = np.asarray(x)
        _check_dtype(x)
        return super().constant(x)

    def _exact(self, x: np.ndarray) -> np.ndarray:
        y = np.empty(x.shape, object)
        for place, value in np.ndenumerate(x):
            y[place] = self._number(float(value))
        return y

    def _number(self, x: float) -> Any:
        if not np.isfinite(x):
            return self._mp.mpf(x)
        if x not in self._constants:
            self._constants[x] = _number(self._mp, x)
            self.rounded |= {x} if may_be_rounded(x) else set()
        return self._constants[x]

    def run(self, step: Step, operands: list[np.ndarray], known: Mapping[core.Var, np.ndarray]) -> Sequence[np.ndarray]:
        """The results of an equation, of whatever kind."""
        inner = of_others(step.eqn)
        return super().run(step, operands, known) if inner is None else self.call(step, inner, operands)

    def apply(self, step: Step, operands: list[np.ndarray]) -> Sequence[np.ndarray]:
        """The results of an equation, which are kept."""
        for atom in (*step.eqn.invars, *step.eqn.outvars):
            _check_dtype(atom.aval)
        try:
            results = [np.asarray(y) for y in self._applied(step, operands)]
        except NoRule as error:
            raise Unmodelled(f"exact arithmetic has no {error.primitive!r}") from error
        except (NotImplementedError, TypeError, ValueError, ArithmeticError) as error:
            # As mpmath raises for a Bessel function of an infinity, and a record for what it does not take.
            raise Unmodelled(f"the JAX primitive {step.name!r} of such numbers ({first_line(error)})") from error
        if all(y.dtype != object for y in results) and any(x.dtype == object and (x != x).any() for x in operands):
            raise Unmodelled(f"{step.name} of NaN")
        for y in results:
            if y.dtype == object and y.size:
                self.largest = max(self.largest, _largest(y))
        self.has_roots |= has(step.name, Kind.ROOT)
        self.has_tails |= has(step.name, Kind.ROOT) or (has(step.name, Kind.MONOTONE) and has(step.name, Kind.LIMIT))
        self.steps_taken.append(results)
        self.choices += _choices(step, operands, results)
        return results

    def _applied(self, step: Step, operands: list[np.ndarray]) -> Sequence[np.ndarray]:
        record = record_of(step.name)
        if record is None or record.run is None:
            return super().apply(step, operands)
        return record.run(self._mp, step.eqn, *operands)


def _choices(step: Step, operands: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The decisions of an equation, and a sign, which operand, or the order of entries that it takes."""
    if step.name in ("abs", "sign"):
        return [operands[0] > 0]
    if step.name in ("max", "min", "clamp"):
        return [results[0] == x for x in operands]
    if any(part in step.name for part in ("max", "min", "sort", "top_k")):
        return [np.argsort(x, axis=None, kind="stable") for x in operands if x.dtype == object]
    return decisions(step, operands, results)


def decisions(step: Step, operands: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The whole numbers and booleans that are taken from numbers by an equation."""
    if step.name == "rem":
        return [whole_quotients(*operands)]
    return [y for y in results if has(step.name, Kind.INTEGERS) or y.dtype.kind not in "fO"]


def _check_dtype(x: Any) -> None:
    dtype = getattr(x, "dtype", None)
    kind = getattr(dtype, "kind", "V")
    if kind == "c":
        raise Unmodelled("complex numbers")
    if kind not in "iub" and dtype != np.float64:
        raise Unmodelled("numbers that are not float64")


def _largest(x: np.ndarray) -> Any:
    return max((abs(a) for a in x.ravel() if a - a == 0), default=0)


def differences(mp: Any, one: Run, other: Run, of_a_result: int = _OF_A_RESULT) -> list[np.ndarray]:
    """Return where each result of two runs differs by more than a power of two, beside the largest of this result."""
    least = mp.ldexp(max(one.largest, other.largest), _OF_A_RUN)

    def differs(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if x.dtype != object or y.dtype != object:
            return np.asarray(x != y)
        allowed = max(mp.ldexp(max(_largest(x), _largest(y)), of_a_result), least)
        return np.asarray(np.frompyfunc(lambda a, b: not abs(a - b) <= allowed, 2, 1)(x, y), bool)

    return [differs(x, y) for x, y in zip(one.results, other.results, strict=True)]


def ratios(one: Run, other: Run, differs: Sequence[np.ndarray]) -> list[Fraction | None]:
    """Return, of each result, the fraction by which its entries that differ are those of the other run; None if none.

    Fractions of numbers up to 10^7, exact to all digits of the run: 2 for a factor of 2, 4/3 for n - 1 in the place of
    n = 4, 0 for what is left out, -1 for a sign, 1001/1000 for 0.1 %.
    """

    def ratio(x: np.ndarray, y: np.ndarray, where: np.ndarray) -> Fraction | None:
        if x.dtype != object or y.dtype != object or not where.any() or (y[where] == 0).any():
            return None
        found = [a / b for a, b in zip(x[where], y[where], strict=True)]
        fraction = Fraction(float(found[0])).limit_denominator(_LARGEST_PART)
        exact = all(abs(r * fraction.denominator - fraction.numerator) < 2.0**_OF_A_RESULT for r in found)
        return fraction if exact and abs(fraction.numerator) <= _LARGEST_PART else None

    return [ratio(*each) for each in zip(one.results, other.results, differs, strict=True)]
