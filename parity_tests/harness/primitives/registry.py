"""The primitives of JAX: one record each, which says what it is, and has a rule of it for each number system.

A record is made where the bound of its rounding errors is written, in the file of its family:

    @primitive(of_jax.cumsum_p, kinds=Kind.SUM | Kind.LINEAR, complex=BY_MODULUS, value=..., exact=..., field=...)
    def cumulative_sum(eqn, x, e, y, p, *, axis): ...

A rule takes the parameters of its equation by their names, as keyword-only arguments (see `parameters.by_name`).

It names JAX's own primitive where `jax.extend.core.primitives` or `jax.lax` has it in every version that is supported,
so that a slip is found when the package is imported. By its name stands what a version lacks, or what no public module
has.

What follows more than one equation (the order of products and sums in `products` and `fused`, sums of integers in
`exact`, scales in `scales`, the terms of a result in the diagnosis) asks this module what a primitive is by `has`, and
holds no names of its own. A rule for complex numbers stands in the same record.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, Flag, auto
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from jax.extend import core

from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.primitives.parameters import by_name


class Kind(Flag):
    """The kinds of a primitive, as far as its numbers go; most are of several kinds, and some of none.

    `suite/harness/primitives/test_primitives.py` samples every primitive and verifies what its kinds say.
    """

    MOVES = auto()
    """Each entry of the result is an entry of an operand. What is known of these entries holds of the result's."""
    MOVES_UNFOLLOWED = auto()
    """The same, where what is known of the entries is not followed: they are numbers by themselves."""
    MOVES_BY_INDEX = auto()
    """Each entry of the result is one of a floating-point operand, and operands of integers say which."""
    ITSELF = auto()
    """The result is the operand."""
    SELECTS = auto()
    """Each entry of the result is the entry at its place of one of the operands, which the first operand names."""
    KEEPS_SIZE = auto()
    """Each entry of the result is the operand's entry at its place, but for its sign or dtype."""
    ADDS = auto()
    """The sum or difference of two operands, entry by entry."""
    SUM = auto()
    """Each entry of the result is a sum, of entries or of products of two entries."""
    PRODUCT = auto()
    """Each entry of the result is a product of entries, or a power."""
    LINEAR = auto()
    """Linear in its only operand."""
    BILINEAR = auto()
    """Linear in each of its two operands."""
    HOMOGENEOUS = auto()
    """The result is multiplied by c if all floating-point operands are; MOVES, KEEPS_SIZE and ADDS imply it."""
    MONOTONE = auto()
    """Of real operands: it rises with all of them, or falls with all of them."""
    STEP = auto()
    """Rounds real numbers to integers, and is monotone; a conversion is where its result is of an integer dtype."""
    FUNCTION = auto()
    """A function of each entry: where nothing is known of an operand's entry, nothing is known of the result's."""
    SATURATES = auto()
    """A function of each entry that has reached its limit at infinity at the largest number of any format."""
    LIMIT = auto()
    """Has a finite limit at an infinity of an operand, which it has there."""
    ROOT = auto()
    """A root or a logarithm: in a field it takes -x for x where only that one is a square."""
    INTEGERS = auto()
    """The result is of integers, whatever the operand is."""
    CONSTANT = auto()
    """Has no floating-point operands, and no errors."""
    COMPARES = auto()
    """Goes one way or another by the order of two real numbers, which `rounding.compared` names."""
    SMOOTH = auto()
    """Differentiable where its results are finite, as most kinds of arithmetic are, which need not say it."""
    MAY_BE_EXACT = auto()
    """Without a rounding error for some numbers, as sums and products of integers are, which need not say it."""


class Rule(Protocol):
    """Bounds the errors of an equation's results by those of its operands."""

    def __call__(
        self, eqn: core.JaxprEqn, x: Sequence[np.ndarray], e: Sequence[np.ndarray], y: Any, p: Precision, /
    ) -> Any:
        """The bound of the result, in its shape or one that broadcasts to it; a list of them if there are several.

        Args:
            eqn: the equation, for its parameters.
            x: the values of its operands, in float64, complex128, integers or booleans.
            e: entrywise bounds of the errors of these values, in the format p and each in its operand's shape. Of
                an integer it is how far it may be off, of a boolean 1 where rounding may change it.
            y: the value of its result; a list of them if the primitive has several results.
            p: the format that a candidate computes in, with its roundoff `u`, the accumulator's `u_acc`, and `tiny`.
        """
        ...


# (context, equation, operands...) -> the result, or a list of them: numbers of an mpmath context in arrays of objects,
# integers and booleans as NumPy has them.
Exact = Callable[..., Any]
# (model, equation, operands...) -> the residues of each result: see `field.numbers`.
Residual = Callable[..., Any]


class ByModulus(Enum):
    """See `BY_MODULUS`."""

    BY_MODULUS = auto()


BY_MODULUS = ByModulus.BY_MODULUS  # the rule holds for complex numbers, too, whose bounds are of the modulus


class Value(NamedTuple):
    """A value in NumPy. `value.functions` makes them.

    compute: (operands..., the equation's parameters if it takes them) -> the result, or a list of them.
    applies: (equation, operands) -> whether that is what JAX computes; else JAX does.
    takes_parameters: whether it takes the equation's parameters, by their names.
    wherever_real: whether it applies wherever all operands and results are float64.
    """

    compute: Callable[..., Any]
    applies: Callable[[core.JaxprEqn, Sequence[np.ndarray]], bool]
    takes_parameters: bool
    wherever_real: Callable[[core.JaxprEqn], bool]


class Terms(NamedTuple):
    """Functions that count the terms of a sum, for its bound; their number follows from the shapes.

    count: (equation, values of the operands) -> how many terms each sum has, at most.
    pairs: (equation, values, that number, precision) -> how many pairs of equal terms, see `bound.terms`.
    """

    count: Callable[..., int]
    pairs: Callable[..., np.ndarray | float]


@dataclass(frozen=True)
class Primitive:
    """All that is known of a primitive of JAX.

    Attributes:
        name: what `eqn.primitive.name` is.
        kinds: what it is.
        bound: bounds its rounding errors.
        complex: the bound of complex numbers; BY_MODULUS if `bound` holds for them; None if there is none.
        terms: of a SUM whose terms are followed through further sums, see `rounding.fused`.
        value: its value in NumPy; None if JAX computes it.
        exact: its value in many bits; None if it has none, or needs none, as what moves numbers.
        field: its residues in finite fields; None if they follow from its kinds, or it has none.
        run: its values in the run of a proof, which is in many bits; None if they are those of `exact`.
    """

    name: str
    kinds: Kind
    bound: Rule
    complex: Rule | ByModulus | None = None
    terms: Terms | None = None
    value: Value | None = None
    exact: Exact | None = None
    field: Residual | None = None
    run: Exact | None = None

    def __post_init__(self) -> None:
        """Refuse terms of what is no sum.

        Raises:
            ValueError: it has `terms` and is no SUM.
        """
        if self.terms is not None and Kind.SUM not in self.kinds:
            raise ValueError(f"the primitive {self.name!r} has terms but its kinds lack Kind.SUM")

    @functools.cached_property
    def bits(self) -> int:
        """Its kinds as a number. They are asked for several times an equation, and `Flag` takes a call for each."""
        return self.kinds.value

    def is_any(self, kinds: Kind) -> bool:
        """Return whether it is of this kind, or of one of these kinds."""
        return self.bits & kinds._value_ != 0


_RECORDS: dict[str, Primitive] = {}
_edition = 0
_NONE = Kind(0)
_MOVE = Kind.MOVES | Kind.MOVES_UNFOLLOWED | Kind.MOVES_BY_INDEX | Kind.ITSELF | Kind.SELECTS
# As it is written: a `Rule`, with keyword-only arguments for the parameters of the equation.
Written = Callable[..., Any]
AnyWritten = TypeVar("AnyWritten", bound=Written)


def primitive(
    *which: core.Primitive | str,
    kinds: Kind = _NONE,
    complex: Written | ByModulus | None = None,  # the word for it
    terms: Terms | None = None,
    value: Value | None = None,
    exact: Exact | None = None,
    field: Residual | None = None,
    run: Exact | None = None,
) -> Callable[[AnyWritten], AnyWritten]:
    """Register primitives that share a bound, which is decorated; the arguments are those of `Primitive`.

    Each rule may take parameters of the equation as keyword-only arguments of their names, see `parameters.by_name`.

    Raises:
        ValueError: one of them has a record already.
    """

    def register(bound: AnyWritten) -> AnyWritten:
        global _edition
        for each in which:
            name = each if isinstance(each, str) else each.name
            known = _RECORDS.get(name)
            if known is not None:
                raise ValueError(
                    f"the JAX primitive {name!r} has a record already, with the rule {_place(known.bound)}; a "
                    f"primitive has one record: change that one instead of registering {_place(bound)}"
                )
            _RECORDS[name] = Primitive(
                name,
                kinds,
                bound=by_name(bound, 0),
                complex=by_name(complex, 0),
                terms=None if terms is None else Terms(*(by_name(rule, 0) for rule in terms)),
                value=value,
                exact=by_name(exact, 1),
                field=by_name(field, 1),
                run=by_name(run, 1),
            )
        _edition += 1
        return bound

    return register


@contextlib.contextmanager
def scoped_records() -> Iterator[None]:
    """Forget the records that are made within the block once it ends."""
    global _edition
    before = dict(_RECORDS)
    try:
        yield
    finally:
        _RECORDS.clear()
        _RECORDS.update(before)
        _edition += 1


def _place(rule: Written) -> str:
    return f"{getattr(rule, '__module__', '')}.{getattr(rule, '__qualname__', rule)}"


def record_of(name: str) -> Primitive | None:
    """The record of a primitive; None if it has none."""
    return _RECORDS.get(name)


def edition() -> int:
    """A number that changes whenever the records do: what was found by them holds for one edition."""
    return _edition


def kind_of(name: str) -> Kind:
    """All kinds of a primitive; none of one without a record."""
    record = _RECORDS.get(name)
    return _NONE if record is None else record.kinds


def has(name: str, kinds: Kind) -> bool:
    """True if a primitive is of this kind, or of one of these kinds."""
    return name in _RECORDS and _RECORDS[name].is_any(kinds)


def moves(name: str) -> bool:
    """Return whether a primitive only moves the numbers of its floating-point operands, in whatever number system."""
    return has(name, _MOVE)


def records() -> Mapping[str, Primitive]:
    """All records by name. They are complete, since the package imports every family."""
    return MappingProxyType(_RECORDS)


def adds_products(name: str) -> bool:
    """Return whether a primitive is a sum of products of its operands, as tensor cores compute it."""
    kinds = Kind.SUM | Kind.BILINEAR
    return kind_of(name) & kinds == kinds
