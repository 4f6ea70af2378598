"""The interface of a witness of a derivative, the place at which it is asked, and the function that registers one.

A witness knows a derivative of an operator in a way of its own: by an explicit formula, by autodiff, by the transpose,
by the values of the function that is differentiated. The oracle has a certificate for a map if all witnesses that can
judge it agree (see `certificate`). Those of the harness are in `witnesses`; to add one, write a class of the shape of
`Witness` and register an instance of it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, TypeVar

import numpy as np

from parity_tests.harness.findings import Finding
from parity_tests.harness.maps import Map, Slot
from parity_tests.harness.numbers.complex_parts import products
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.oracle.truth import Truth
from parity_tests.harness.specs.samples import Sample


@dataclass(frozen=True, eq=False)
class Place:
    """A map of an oracle, and float64 arguments for it: what a witness is given.

    Attributes:
        oracle: has the map, and every other map of the operator.
        name: the map, a VJP or JVP of the map F = BASES[name].
        sample: whose random directions are used.
        x: the arguments of F.
        directions: what the map takes besides x: cotangents for a VJP, tangents for a JVP.
    """

    oracle: Oracle
    name: str
    sample: Sample
    x: Sequence[np.ndarray]
    directions: Sequence[np.ndarray]

    @classmethod
    def of(cls, oracle: Oracle, name: str, sample: Sample, inputs: Sequence[np.ndarray]) -> Place:
        """The place with these inputs of the operator, and random directions for all else."""
        m = oracle.map(name)
        x = [*inputs, *_drawn(oracle, sample, inputs, m.arguments[len(inputs) : m.base])]
        return cls(oracle, name, sample, x, _drawn(oracle, sample, inputs, m.arguments[m.base :]))

    @property
    def map(self) -> Map:
        """The names of the map's arguments and results."""
        return self.oracle.map(self.name)

    @functools.cached_property
    def weights(self) -> list[np.ndarray]:
        """Random arrays, one for each result of the map: tangents of F for a VJP, cotangents for a JVP."""
        return self.draw(self.map.results)

    @functools.cached_property
    def results(self) -> list[Truth]:
        """Return the results of the oracle, by the formula that judges, with the bounds of their rounding."""
        return self.oracle.evaluate(self.name, [*self.x, *self.directions], FLOAT64)

    @functools.cached_property
    def results_by_autodiff(self) -> list[Truth]:
        """The same by JAX autodiff of the plain primal, where the formula that judges is an explicit one."""
        if not self.oracle.has_formula(self.name):
            return self.results
        return self.oracle.evaluate(self.name, [*self.x, *self.directions], FLOAT64, by_autodiff=True)

    def draw(self, slots: Sequence[Slot], which: str = "") -> list[np.ndarray]:
        """Random tangents or cotangents; others for another word."""
        return _drawn(self.oracle, self.sample, self.x[: len(self.oracle.inputs)], slots, which)


def _drawn(
    oracle: Oracle, sample: Sample, inputs: Sequence[np.ndarray], slots: Sequence[Slot], which: str = ""
) -> list[np.ndarray]:
    shapes = oracle.shapes(tuple(x.shape for x in inputs))
    roles = (" ".join(filter(None, ("certificate", which, slot.label))) for slot in slots)
    return [oracle.direction(sample, role, slot.like, shapes) for role, slot in zip(roles, slots, strict=True)]


class Witness(Protocol):
    """A way to know a derivative, or a property of it, that does not rest on the formula that judges."""

    @property
    def name(self) -> str:
        """The name of the witness in a report; no two witnesses share one."""
        ...

    def can_judge(self, oracle: Oracle, name: str) -> bool:
        """True if the witness can say anything about this map of the oracle."""
        ...

    def findings(self, place: Place) -> Iterator[Finding]:
        """Yield the findings of the witness about the map, at a place where the operator has a value and a derivative.

        A `Comparison` has the oracle's number as its `candidate`, the witness's own as its `oracle`, and as its bound
        all that the rounding and the method of both may explain, so that the same number can judge other candidates.
        None where it cannot tell. A finding without a `circumstance` gets the witness's name there, unless its label
        has it already.
        """
        ...


_WITNESSES: dict[str, Witness] = {}
AnyWitness = TypeVar("AnyWitness", bound=Witness)


def register(witness: AnyWitness) -> AnyWitness:
    """Make a witness take part in every certificate from now on, after those that are registered already.

    Raises:
        ValueError: another one has its name.
    """
    known = _WITNESSES.get(witness.name)
    if known is not None:
        raise ValueError(
            f"a witness named {witness.name!r} is registered already, a {type(known).__name__}; give the new "
            f"{type(witness).__name__} another name"
        )
    _WITNESSES[witness.name] = witness
    return witness


@contextmanager
def registered(witness: AnyWitness) -> Iterator[AnyWitness]:
    """Register a witness for the length of a block."""
    register(witness)
    try:
        yield witness
    finally:
        del _WITNESSES[witness.name]


def witnesses() -> Mapping[str, Witness]:
    """All witnesses by name, in the order in which they are heard; `certificate` imports those of the harness."""
    return MappingProxyType(_WITNESSES)


def paired(directions: Sequence[np.ndarray], results: Sequence[Truth]) -> tuple[float, float]:
    """The inner product of directions and results, real of complex arrays, too; and how far rounding may move it."""
    pairs = list(zip(directions, results, strict=True))
    value = sum(float(np.sum(products(d, y.value))) for d, y in pairs)
    # The sum itself rounds, too: at worst once for each term, of which a product of complex numbers has two.
    count = sum((2 if np.iscomplexobj(d) else 1) * d.size for d in directions)
    magnitude = sum(float(np.sum(np.abs(d) * np.abs(y.value))) for d, y in pairs)
    bound = sum(float(np.sum(np.abs(d) * y.bound)) for d, y in pairs)
    return value, bound + count * FLOAT64.u * magnitude
