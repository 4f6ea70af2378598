"""A run of the fault benchmark: which rules reject which versions, cell by cell."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from benchmarks.fault_benchmark import differences, parity
from benchmarks.fault_benchmark.rules import RULES as OF_NUMBERS
from benchmarks.fault_benchmark.rules import Results
from benchmarks.fault_benchmark.versions import (
    FORMATS,
    SIZES,
    VERSIONS,
    arguments,
    below_rounding,
    exact_with,
    outputs_and_gradients,
    reference,
    version,
)
from parity_tests.operators.catalogue import MEASURED as OPERATORS
from parity_tests.operators.operator import Mistake, Operator, Tensors

GRADCHECK = {"gradcheck fast": True, "gradcheck slow": False}
CHECK_GRADS = "check_grads"
RULES = (*OF_NUMBERS, *GRADCHECK, CHECK_GRADS, *parity.RULES)
Key = tuple[str, str, str, str]


@dataclass
class Cell:
    """The judgements of the rules on one version of an operator in a format at a size, without a fault and with each.

    Attributes:
        below_rounding: the faults, by their numbers, that change each exact result by less than half a unit in the last
            place of the format.
        rules: by rule, {"alarm": whether the version without a fault is rejected, "missed": the faults that are
            accepted, by their numbers, None if the version has no faults, "commit": of the code that judged}; and
            "unresolved", the faults that could not be judged, if there are any; -1 is the version without a fault.
        not_run: the rules that were not run, and why.
        seconds: CPU time of this process, by the group of rules.
    """

    operator: str
    format: str
    size: str
    version: str
    below_rounding: list[int] = field(default_factory=list)
    rules: dict[str, dict[str, Any]] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        """The key of the cell: operator, format, size, version."""
        return self.operator, self.format, self.size, self.version


def versions_of(format: str) -> tuple[str, ...]:
    """Return the versions that differ in a format: in float32 and float64 one computes inside as throughout."""
    if format == "float64":
        return VERSIONS[:1]
    return tuple(name for name in VERSIONS if format != "float32" or name != "the format throughout")


def rules_of(format: str) -> tuple[str, ...]:
    """Return the rules that apply to a format: gradcheck is for float64, the rules for numbers are for the others."""
    if format == "float64":
        return (*GRADCHECK, CHECK_GRADS, *parity.RULES)
    return tuple(rule for rule in RULES if rule not in GRADCHECK)


def keys(operators: Sequence[str], formats: Sequence[str], sizes: Sequence[str], versions: Sequence[str]) -> list[Key]:
    """Return the cells of a run, those of small sizes first."""
    return [
        (operator, format, size, name)
        for size in SIZES
        if size in sizes
        for operator in operators
        for format in FORMATS
        if format in formats
        for name in versions_of(format)
        if name in versions
    ]


def waiting(key: Key, rules: Sequence[str], known: Mapping[Key, Cell]) -> list[str]:
    """Return the rules of a run that apply to a cell and have not been evaluated there."""
    cell = known.get(key)
    done = {*cell.rules, *cell.not_run} if cell else set()
    return [rule for rule in rules_of(key[1]) if rule in rules and rule not in done]


def measure(key: Key, rules: Sequence[str], cell: Cell | None, commit: str | None) -> Cell:
    """Return the cell with these rules evaluated, besides what it has; `commit`: of the code that does it."""
    operator, (_, format, size, name) = OPERATORS[key[0]], key
    inputs = arguments(operator, size, format)
    exact = reference(operator, inputs, size)
    if cell is None:
        wrong = [exact_with(operator, fault, inputs, size) for fault in operator.faults.values()]
        cell = Cell(*key, [i for i, x in enumerate(wrong) if below_rounding(x, exact, format)])
    faults = () if name == "torch.compile" else tuple(operator.faults.values())
    torch._dynamo.reset()  # what it has compiled for other operators, whose code is the same function
    calls = [version(operator, name, fault) for fault in (None, *faults)]
    case = _Case(operator, inputs, size, exact, calls)
    for group, (members, judge) in _GROUPS.items():
        wanted = [rule for rule in rules if rule in members]
        if not wanted:
            continue
        start = time.process_time()
        for rule, rejected in judge(case, wanted).items():
            if isinstance(rejected, str):
                cell.not_run[rule] = rejected
                continue
            missed = [i for i, is_rejected in enumerate(rejected[1:]) if not is_rejected]
            unresolved = [i - 1 for i, is_rejected in enumerate(rejected) if is_rejected is None]
            cell.rules[rule] = {"alarm": bool(rejected[0]), "missed": missed if faults else None, "commit": commit}
            cell.rules[rule] |= {"unresolved": unresolved} if unresolved else {}
        cell.seconds[group] = round(time.process_time() - start, 3)
    return cell


@dataclass(frozen=True)
class _Case:
    """The calls that the rules judge: a version without a fault, which is the first, and with each fault."""

    operator: Operator
    inputs: Tensors
    size: str
    exact: Tensors
    calls: Sequence[Callable[..., Any]]

    @property
    def outputs(self) -> int:
        return len(self.exact) - len(self.operator.differentiated)


# Whether each of the calls is rejected, None if that could not be judged; or why the rule was not run.
_Rejected = Sequence[bool | None] | str


def _by_numbers(case: _Case, rules: Sequence[str]) -> dict[str, _Rejected]:
    eager = outputs_and_gradients(case.operator.written.composed, case.operator, case.inputs, case.size)
    found = [
        Results(outputs_and_gradients(call, case.operator, case.inputs, case.size), case.exact, eager, case.outputs)
        for call in case.calls
    ]
    return {rule: [not OF_NUMBERS[rule](results) for results in found] for rule in rules}


def _by_gradcheck(case: _Case, rules: Sequence[str]) -> dict[str, _Rejected]:
    entries = sum(x.numel() for x in case.exact[: case.outputs])
    rejected: dict[str, _Rejected] = {}
    for rule in rules:
        if not GRADCHECK[rule] and differences.slow_is_too_slow(case.operator, case.inputs, entries):
            rejected[rule] = f"its Jacobian has more than {differences.JACOBIAN} entries"
            continue
        rejected[rule] = [
            not differences.passes_gradcheck(call, case.operator, case.inputs, GRADCHECK[rule]) for call in case.calls
        ]
    return rejected


def _by_check_grads(case: _Case, rules: Sequence[str]) -> dict[str, _Rejected]:
    return {CHECK_GRADS: [not differences.passes_check_grads(call, case.operator, case.inputs) for call in case.calls]}


def _by_crosscheck(case: _Case, rules: Sequence[str]) -> dict[str, _Rejected]:
    judged = parity.judged({str(i): call for i, call in enumerate(case.calls)}, case.operator, case.inputs)
    return {rule: [one.rejected_by(rule) for one in judged.values()] for rule in rules}


_GROUPS: dict[str, tuple[Collection[str], Callable[[_Case, Sequence[str]], dict[str, _Rejected]]]] = {
    "numbers": (OF_NUMBERS, _by_numbers),
    "gradcheck": (GRADCHECK, _by_gradcheck),
    "check_grads": ((CHECK_GRADS,), _by_check_grads),
    "crosscheck": (parity.RULES, _by_crosscheck),
}


def described(operators: Sequence[str]) -> dict[str, Any]:
    """Return what the numbers of faults mean, by operator, and the sizes."""
    return {
        name: {
            "sizes": {size: dict(axes) for size, axes in OPERATORS[name].written.sizes.items()},
            "faults": {fault: mistake.kind for fault, mistake in OPERATORS[name].faults.items()},
        }
        for name in operators
    }


def faults_of(cell: Cell) -> tuple[tuple[str, Mistake], ...]:
    """Return the faults that a cell's numbers refer to, with their names; none if its version has no faults."""
    return () if cell.version == "torch.compile" else tuple(OPERATORS[cell.operator].faults.items())
