"""Facts about an equation that the error analysis knows before any numbers, found once for all runs of a program.

A loop runs the same equations in every step, and an operator is judged at dozens of points by the same program. With
arrays as small as those of most samples, asking an equation takes as long as computing with it.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from jax.extend import core

from parity_tests.harness.language.jaxprs import constants_of
from parity_tests.harness.language.values import steps
from parity_tests.harness.primitives.registry import Kind, Primitive, Terms, edition, record_of
from parity_tests.harness.rounding import exact

_FOLLOWED = Kind.ADDS | Kind.MOVES | Kind.KEEPS_SIZE | Kind.SELECTS


@dataclass(frozen=True, slots=True)
class Step(steps.Step):
    """An equation of a program, with what the error analysis asks of it.

    Attributes:
        record: of its primitive; None if that has none.
        kinds: what the primitive is, as a number; 0 without a record.
        terms: of a sum whose terms are followed; see `rounding.fused`.
        adds: True if it adds two numbers.
        may_be_exact: True if it makes no rounding error at some operands; see `rounding.exact`.
        follows_products: True if its result is a product as its operands are; see `rounding.products`.
        follows_sums: True if its result is a sum as its operands are; see `rounding.fused`.
        has_logarithm: True if it divides by a number that the program has the logarithm of; see `rounding.bounds`.
        may_lose_more: True if these three may say that it loses more than its rule does.
        plain: True if it is real and has one result, which a rule bounds.
        moves: True if it is plain, and the bounds are moved as the numbers are.
    """

    record: Primitive | None
    kinds: int
    terms: Terms | None
    adds: bool
    may_be_exact: bool
    follows_products: bool
    follows_sums: bool
    has_logarithm: bool
    may_lose_more: bool
    plain: bool
    moves: bool

    @classmethod
    def of(
        cls, eqn: core.JaxprEqn, logarithms: Sequence[Any] = (), constants: Collection[core.Var] = frozenset()
    ) -> Step:
        """Make the step of an equation of a program that has the logarithms of these variables, and these constants."""
        facts = steps.facts_of(eqn, constants)
        name, record = eqn.primitive.name, record_of(eqn.primitive.name)

        def is_any(kinds: Kind) -> bool:
            return record is not None and record.is_any(kinds)

        followed, terms = is_any(_FOLLOWED), None if record is None else record.terms
        plain = facts["real"] and not facts["many"] and facts["inner"] is None and record is not None
        return cls(
            **facts,
            record=record,
            kinds=0 if record is None else record.bits,
            terms=terms,
            adds=is_any(Kind.ADDS),
            may_be_exact=is_any(exact.MAY_BE),
            follows_products=followed,
            follows_sums=record is not None and (name in ("mul", "div") or followed),
            has_logarithm=name == "div" and any(eqn.invars[1] is x for x in logarithms),
            may_lose_more=name in ("mul", "div") or followed or terms is not None,
            plain=plain,
            moves=plain and is_any(Kind.MOVES),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The steps of a program, which has one plan.

    Attributes:
        steps: those of all equations, in their order.
        logarithms: the variables that the program has the logarithm of.
    """

    steps: tuple[Step, ...]
    logarithms: tuple[Any, ...]


def plan_of(jaxpr: core.Jaxpr) -> Plan:
    """Return the plan of a program."""
    return _plan_of(jaxpr, edition())


@functools.lru_cache(maxsize=1024)
def _plan_of(jaxpr: core.Jaxpr, of_records: int) -> Plan:
    logarithms = tuple(eqn.invars[0] for eqn in jaxpr.eqns if eqn.primitive.name == "log")
    constants = constants_of(jaxpr.eqns, jaxpr.constvars)
    return Plan(tuple(Step.of(eqn, logarithms, constants) for eqn in jaxpr.eqns), logarithms)
