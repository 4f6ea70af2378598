"""One walk over the equations of a program, for every number system."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

import numpy as np
from jax.extend import core

from parity_tests.harness.language.calls import closed
from parity_tests.harness.language.steps import Step, steps_of

Number = TypeVar("Number")  # an array of them, with whatever the domain knows of it
AnyStep = TypeVar("AnyStep", bound=Step)  # an equation, with whatever the domain knows of it


class Domain(ABC, Generic[Number, AnyStep]):
    """A number system: a constant and an equation in it, and how loops and branches handle its numbers."""

    @abstractmethod
    def constant(self, x: Any) -> Number:
        """A number that is written in the program, or one of its constants."""

    @abstractmethod
    def apply(self, step: AnyStep, operands: list[Number]) -> Sequence[Number]:
        """The results of an equation that runs no other program."""

    def steps(self, jaxpr: core.Jaxpr) -> Sequence[AnyStep]:
        """The equations of a program, as `apply` takes them."""
        return cast(Sequence[AnyStep], steps_of(jaxpr))

    def run(self, step: AnyStep, operands: list[Number], known: Mapping[core.Var, Number]) -> Sequence[Number]:
        """The results of an equation, of whatever kind; `known`: all numbers of its program so far."""
        if step.inner is not None:
            return self.call(step, step.inner, operands)
        control = _CONTROL_FLOW.get(step.name)
        return self.apply(step, operands) if control is None else control(self, step, operands)

    def call(self, step: AnyStep, program: core.ClosedJaxpr, operands: list[Number]) -> Sequence[Number]:
        """The results of a call."""
        return interpret(program, operands, self.within(step))

    def within(self, step: AnyStep) -> Domain[Number, AnyStep]:
        """The domain of one run of a program that an equation runs."""
        return self

    def entry(self, x: Number, i: int) -> Number:
        """One entry along the first axis, for a step of a loop."""
        return x[i, ...]  # type: ignore[index]  # with an ellipsis it is an array, also where it has no axis

    def stacked(self, rows: Sequence[Number], result: core.Var) -> Number:
        """The entries of all steps of a loop along a new first axis; none of them makes an empty `result`."""
        aval: Any = result.aval
        return np.stack(rows) if rows else np.zeros(aval.shape, aval.dtype)  # type: ignore[arg-type, return-value]

    def holds(self, condition: Number) -> np.ndarray:
        """Whether a `while` goes on, for each example."""
        return np.asarray(condition)

    def where(self, which: np.ndarray, yes: Number, no: Number) -> Number:
        """The entries of `yes` where the condition of their example, along their first axes, holds, else of `no`."""
        of_example = np.expand_dims(which, tuple(range(np.ndim(which), np.ndim(yes))))  # type: ignore[arg-type]
        return np.where(of_example, yes, no)  # type: ignore[arg-type, return-value]

    def branches(self, index: Number, count: int) -> Sequence[int]:
        """The numbers of the branches that may be taken, of which the first one is."""
        return [int(np.clip(index, 0, count - 1))]  # type: ignore[call-overload]

    def either(self, taken: Number, other: Number) -> Number:
        """A result of the branch that is taken, where another one may be."""
        raise NotImplementedError

    def ran(self, step: AnyStep, operands: list[Number], results: list[Number]) -> list[Number]:
        """The results of a loop or a solver, for a domain that knows more of these as a whole."""
        return results


def interpret(program: core.ClosedJaxpr, args: Sequence[Number], domain: Domain[Number, AnyStep]) -> list[Number]:
    """The results of a program at arguments of a domain, equation by equation."""
    jaxpr = program.jaxpr
    known: dict[Any, Number] = dict(zip(jaxpr.constvars, map(domain.constant, program.consts), strict=True))
    known.update(zip(jaxpr.invars, args, strict=True))

    def read(atom: core.Var | core.Literal) -> Number:
        return domain.constant(atom.val) if isinstance(atom, core.Literal) else known[atom]

    for step in domain.steps(jaxpr):
        eqn = step.eqn
        operands = [*map(read, eqn.invars)] if step.has_literals else [known[x] for x in eqn.invars]
        known.update(zip(eqn.outvars, domain.run(step, operands, known), strict=True))
    return [read(x) for x in jaxpr.outvars]


def operands_of_scan(params: Mapping[str, Any], operands: Sequence[Any]) -> tuple[list, list, list]:
    """The operands of a scan: those of every step, those that are carried, and those that have an entry for each."""
    if "ft_in" in params:  # JAX 0.12
        consts, carry, sequences = params["ft_in"].update(operands).unpack()
        return list(consts), list(carry), list(sequences)
    first, last = params["num_consts"], params["num_consts"] + params["num_carry"]
    return list(operands[:first]), list(operands[first:last]), list(operands[last:])


def in_order(params: Mapping[str, Any]) -> Sequence[int]:
    """The steps of a scan, as they are run."""
    steps = range(params["length"])
    return steps[::-1] if params["reverse"] else steps


def _scan(domain: Domain[Number, AnyStep], step: AnyStep, operands: list[Number]) -> list[Number]:
    params = step.eqn.params
    consts, carry, sequences = operands_of_scan(params, operands)
    body, count, rows = closed(params["jaxpr"]), len(carry), []
    for i in in_order(params):
        made = interpret(body, [*consts, *carry, *(domain.entry(x, i) for x in sequences)], domain.within(step))
        carry = made[:count]
        rows.append(made[count:])
    rows = rows[::-1] if params["reverse"] else rows
    stacked = [domain.stacked([row[j] for row in rows], y) for j, y in enumerate(step.eqn.outvars[count:])]
    return domain.ran(step, operands, [*carry, *stacked])


def _cond(domain: Domain[Number, AnyStep], step: AnyStep, operands: list[Number]) -> list[Number]:
    index, *args = operands
    programs = step.eqn.params["branches"]
    first, *others = domain.branches(index, len(programs))
    taken = interpret(closed(programs[first]), args, domain.within(step))
    for number in others:
        other = interpret(closed(programs[number]), args, domain.within(step))
        taken = [domain.either(*pair) for pair in zip(taken, other, strict=True)]
    return taken


def _while(domain: Domain[Number, AnyStep], step: AnyStep, operands: list[Number]) -> list[Number]:
    params = step.eqn.params
    test, body = closed(params["cond_jaxpr"]), closed(params["body_jaxpr"])
    of_test, of_body = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    carry = operands[of_body:]
    while np.any(again := domain.holds(interpret(test, [*operands[:of_test], *carry], domain.within(step))[0])):
        after = interpret(body, [*operands[of_test:of_body], *carry], domain.within(step))
        # Mapped by jax.vmap it has a condition for each example, and examples that have ended stay as they are.
        every = bool(np.all(again))
        carry = after if every else [domain.where(again, *pair) for pair in zip(after, carry, strict=True)]
    return carry


def _linear_solve(domain: Domain[Number, AnyStep], step: AnyStep, operands: list[Number]) -> list[Number]:
    lengths, programs = step.eqn.params["const_lengths"], step.eqn.params["jaxprs"]
    of_solve = operands[lengths.matvec + lengths.vecmat :][: lengths.solve]
    solve, right_sides = closed(programs.solve), operands[sum(lengths) :]
    return domain.ran(step, operands, interpret(solve, [*of_solve, *right_sides], domain.within(step)))


_CONTROL_FLOW: dict[str, Callable[[Domain, Step, list], list]] = {
    "scan": _scan,
    "cond": _cond,
    "while": _while,
    "custom_linear_solve": _linear_solve,
}
