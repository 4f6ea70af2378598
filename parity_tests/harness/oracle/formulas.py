"""The explicit formulas of a spec where optional inputs are absent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from parity_tests.harness.exceptions.errors import where_of
from parity_tests.harness.maps import BASES, ORDERS, Map, derivative_map
from parity_tests.harness.oracle.transforms import as_tuple
from parity_tests.harness.specs.spec import FORMULAS, OpSpec

Formula = Callable[[Sequence[Any], Sequence[Any], Mapping[str, object]], tuple]


def of_present_inputs(
    f: Callable, spec: OpSpec, name: str, present: tuple[str, ...], outputs: tuple[str, ...]
) -> Formula:
    """Return the spec's formula f for a map as a function (primals, directions, params) -> results.

    The directions and the results are those of the inputs that are `present`, and of the outputs. The formula is given
    None for the direction of an absent input, and what it returns for one is dropped. The primals have None for it.
    """
    names, domains = spec.names, spec.drawn_from
    inputs = tuple(name for name, domain in zip(names, domains, strict=True) if domain.differentiable)
    every, there = derivative_map(name, inputs, outputs), {*present, *outputs}

    def called(primals: Sequence[Any], directions: Sequence[Any], params: Mapping[str, object]) -> tuple:
        given = iter(directions)
        slots = every.arguments[len(inputs) :]
        results = as_tuple(f(*primals, *(next(given) if s.like in there else None for s in slots), **params))
        if len(results) != len(every.results):
            return results  # `Oracle.evaluate` has the message
        return tuple(y for y, slot in zip(results, every.results, strict=True) if slot.like in there)

    return called


def and_absent(spec: OpSpec, constants: Mapping[int, object]) -> str:
    """The inputs that are absent, for a message: " and None for bias"; empty if there are none."""
    names = spec.names
    absent = [names[i] for i, x in sorted(constants.items()) if x is None]
    return f" and None for {', '.join(absent)}" if absent else ""


def about_none(spec: OpSpec, called: Map, args: Sequence[object], error: Exception) -> str:
    """Return an error text for a formula of the spec that runs with all arguments, and raises where some are absent."""
    name = called.name
    while (field := _field(spec, name)) is None:
        name = BASES[name]
    absent = [slot.label for slot, x in zip(called.arguments, args, strict=False) if x is None]
    return (
        f"{spec.name}: the oracle's formula {name} (OpSpec({field}=...)) raises {where_of(error)} where "
        f"{' and '.join(absent)} {'is' if len(absent) == 1 else 'are'} None; let it take None for what is exactly zero"
    )


def _field(spec: OpSpec, name: str) -> str | None:
    """The field of the spec that has a map itself; None if it is the derivative of another map."""
    if spec.surrogate is not None and len(ORDERS[name]) == 1:
        return "surrogate"
    return name if name in FORMULAS and getattr(spec, name) is not None else None
