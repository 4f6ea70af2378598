"""The arithmetics of right code in a 16-bit format: bounds under each, and runs of the oracle's own program.

The arithmetics are a ladder, each of which rounds all that the one before rounds, and more:

    float32 inside, results rounded once
    the same, with outputs and named intermediates rounded where they are stored
    the same, with the operands of products rounded, as tensor cores take them
    every operation rounded
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from parity_tests.harness.language import jaxprs
from parity_tests.harness.language.live import leading_to
from parity_tests.harness.maps import Slot
from parity_tests.harness.numbers.contracts import INSIDE_FLOAT32, THROUGHOUT, Arithmetic
from parity_tests.harness.numbers.fingerprint import fingerprint
from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.oracle.addends import Term, addends
from parity_tests.harness.oracle.names_of_results import stored_names
from parity_tests.harness.oracle.oracle import Arrays, Oracle
from parity_tests.harness.rounding.simulation import (
    EVERYWHERE,
    Beside,
    OfConstants,
    RoundingToNearest,
    StochasticRounding,
    Where,
    simulated,
)
from parity_tests.harness.specs.samples import Sample


def ladder(oracle: Oracle, sample: Sample) -> tuple[Arithmetic, ...]:
    """The arithmetics from the tightest to that in which every operation is rounded."""
    kept = replace(INSIDE_FLOAT32, stored=stored_names(oracle, sample))
    return INSIDE_FLOAT32, kept, replace(kept, operands=True), THROUGHOUT


def right_code(oracle: Oracle, name: str, args: Arrays, precision: Precision, runs: int) -> list[list[np.ndarray]]:
    """A map's results if every operation is rounded: for each result what each run has, kept for other candidates.

    The first run rounds to nearest, the others at random, by seeds that depend on the number of the run only.
    """
    return _simulated("everywhere", oracle, name, args, _roundings(precision, runs), EVERYWHERE)


def right_code_beside(
    oracle: Oracle, name: str, args: Arrays, precision: Precision, runs: int, shown: Sequence[str]
) -> list[list[np.ndarray]]:
    """The same if nothing is rounded that results of these labels are computed from, since they show float32 inside."""
    program, zero = oracle.traced(name, args, by_autodiff=False)
    labels = [slot.label for slot, is_zero in zip(oracle.map(name).results, zero, strict=True) if not is_zero]
    of_shown = [y for label, y in zip(labels, program.jaxpr.outvars, strict=True) if label in shown]
    where = Beside(frozenset(leading_to(program.jaxpr, of_shown)))
    found = _simulated(f"beside {shown}", oracle, name, args, _roundings(precision, runs), where)
    return [[*map(precision.rounded, each)] for each in found]


def with_rounded_constants(oracle: Oracle, name: str, args: Arrays, precision: Precision) -> list[np.ndarray]:
    """A map's results if nothing is rounded but its constants, as a table that is stored in the format."""
    found = _simulated("constants", oracle, name, args, [RoundingToNearest(precision)], OfConstants())
    return [result for (result,) in found]


def _roundings(precision: Precision, runs: int) -> list[RoundingToNearest | StochasticRounding]:
    at_random = [StochasticRounding(precision, np.random.default_rng(run)) for run in range(1, runs)]
    return [RoundingToNearest(precision), *at_random]


def _simulated(
    what: str,
    oracle: Oracle,
    name: str,
    args: Arrays,
    roundings: Sequence[RoundingToNearest | StochasticRounding],
    where: Where,
) -> list[list[np.ndarray]]:
    format = roundings[0].precision.name
    key = ("right code", what, name, format, len(roundings), *(None if x is None else fingerprint(x) for x in args))
    if key not in oracle.kept:
        program, zero = oracle.traced(name, args, by_autodiff=False)
        present = [x for x in args if x is not None]
        found = [iter(simulated(program, present, rounding, where)) for rounding in roundings]
        shapes = oracle.shapes(tuple(x.shape for x in args[: len(oracle.inputs)] if x is not None))
        oracle.kept[key] = [
            [np.zeros(shapes[slot.like]) if is_zero else next(results) for results in found]
            for slot, is_zero in zip(oracle.map(name).results, zero, strict=True)
        ]
    return oracle.kept[key]


def terms(oracle: Oracle, name: str, args: Arrays) -> dict[str, list[Term]]:
    """Return the terms that each result of a map adds up, by its label; a result that is no sum is a term by itself."""
    program, zero = oracle.traced(name, args, by_autodiff=False)
    slots = oracle.map(name).arguments
    present = [(x, slot.label) for x, slot in zip(args, slots, strict=True) if x is not None]
    arrays, labels = zip(*present, strict=True)
    named = [Term(label, value) for label, value in oracle.outputs_by_name(args).items()] if name != "forward" else []
    found = iter(addends(program, arrays, labels, named))
    results = zip(oracle.map(name).results, zero, strict=True)
    return {slot.label: [] if is_zero else _at_least_two(slot, next(found)) for slot, is_zero in results}


def has_constants_to_round(oracle: Oracle, name: str, args: Arrays) -> bool:
    """Whether a map's program has numbers of its own, other than powers of two.

    Code that rounds every operation rounds these, or 1 / 3 for a division by 3, and with them a factor of a result.
    """
    program, _ = oracle.traced(name, args, by_autodiff=False)
    if program.consts or jaxprs.computes_with_constants_alone(program.jaxpr):
        return True
    return any(math.frexp(x)[0] not in (0.0, 0.5, -0.5) for x in jaxprs.literals(program.jaxpr))


def computes_few_numbers(oracle: Oracle, name: str, args: Arrays, few: int) -> bool:
    """Whether a map's program makes so few numbers, such as a sum of all entries, of its arguments."""
    program, _ = oracle.traced(name, args, by_autodiff=False)
    return jaxprs.computes_few_numbers(program.jaxpr, few)


def scales_by_constants(oracle: Oracle, name: str, args: Arrays) -> bool:
    """Whether a map's program has factors of its own, such as 1 / n of a mean; right code may have them otherwise."""
    program, _ = oracle.traced(name, args, by_autodiff=False)
    return jaxprs.scales_by_constants(program.jaxpr)


def _at_least_two(slot: Slot, found: Sequence[Term]) -> list[Term]:
    """The terms of a result; none where there is one, which is the result itself."""
    return list(found) if len(found) > 1 else []
