"""Judges candidates on the CPU and on the device "pretend", in a process that has it, and prints what differs as JSON.

python -m parity_tests.suite.pretend.verdicts few attn_function
python -m parity_tests.suite.pretend.verdicts every attn_function attn_composite
python -m parity_tests.suite.pretend.verdicts collection softplus rms_norm
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from parity_tests.catalog import attn
from parity_tests.harness.candidates.base import AnyCandidate
from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.checks import CHECKS
from parity_tests.harness.judging.certified import Oracles
from parity_tests.harness.judging.judge import Plan, judge
from parity_tests.harness.judging.plan import shrinking_for
from parity_tests.harness.judging.selection import select_checks, select_precisions
from parity_tests.harness.report.report import Report
from parity_tests.harness.report.results import ORACLE, Row
from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators.catalogue import COLLECTION
from parity_tests.operators.operator import Operator

FEW = ("forward", "vjp", "jvp", "vjp_of_vjp", "layouts", "saved_tensors", "checkpoint", "leaks", "fake", "autocast")
Key = tuple[str, str, str]  # candidate, check, dtype
Judged = tuple[OpSpec, Sequence[AnyCandidate | NotBuilt], Sequence[str] | None, Sequence[str] | None]


def few(names: Sequence[str]) -> Iterator[Judged]:
    """Implementations of attn, under the checks that ask most of a device, in one format."""
    yield attn.SPEC, [attn.candidate(name) for name in names], FEW, ["float64"]


def every(names: Sequence[str]) -> Iterator[Judged]:
    """Implementations of attn, under every check there is, in all formats."""
    yield attn.SPEC, [attn.candidate(name) for name in names], list(CHECKS), None


def narrow(names: Sequence[str]) -> Iterator[Judged]:
    """Implementations of attn in the formats of a device without float64."""
    yield attn.SPEC, [attn.candidate(name) for name in names], None, ["float32", "bfloat16"]


def collection(names: Sequence[str]) -> Iterator[Judged]:
    """Operators of the collection: the right version under all checks in float64, each wrong one under its own."""
    for name in names:
        case: Operator = COLLECTION[name]
        yield case.spec, [Candidate(case.right, "right")], None, ["float64"]
        for of, mistake in case.mistakes.items():
            yield case.spec, [Candidate(mistake.call, of)], [mistake.caught_by, *mistake.passes], [mistake.dtype]


def on_both(judged: Judged, oracles: Oracles) -> Mapping[str, Mapping[Key, Row]]:
    """The rows of each device, by the oracles of an operator, which do not depend on it."""
    return {device: _rows(judged, device, oracles) for device in ("cpu", "pretend")}


def _rows(judged: Judged, device: str, oracles: Oracles) -> Mapping[Key, Row]:
    spec, candidates, checks, dtypes = judged
    plan = Plan(
        spec, candidates, select_checks(checks), select_precisions(dtypes, spec), device, 0, lambda row: "",
        oracles=oracles,
    )  # fmt: skip
    report = Report({})
    for _ in report.collect(judge(plan)):
        pass
    return {(row.candidate, row.check, row.dtype): row for row in report.rows if row.candidate != ORACLE}


def differences(work: Iterator[Judged]) -> dict[str, Any]:
    """How many rows there are on the device, by verdict; and those with another verdict there than on the CPU."""
    counts: dict[str, int] = {}
    differ, known = dict[str, list[str]](), dict[str, Oracles]()
    for judged in work:
        name = judged[0].name
        found = on_both(judged, known.setdefault(name, Oracles(judged[0], "cpu", 0)))
        for key in dict.fromkeys((*found["cpu"], *found["pretend"])):
            here, there = (found[device].get(key) for device in ("cpu", "pretend"))
            if here is None or there is None or here.verdict is not there.verdict:
                differ[", ".join((name, *key))] = [_told(here), _told(there)]
            if there is not None:
                counts[there.verdict.value] = counts.get(there.verdict.value, 0) + 1
    return {"rows": counts, "differ": differ}


def _told(row: Row | None) -> str:
    return "no row" if row is None else f"{row.verdict.value} {row.reason}"


def tell(found: object) -> NoReturn:
    """Print something as JSON and end.

    At once: autograd's thread of the device may still free objects of Python, which aborts an interpreter that ends.
    """
    print(json.dumps(found), flush=True)  # noqa: T201
    os._exit(0)


if __name__ == "__main__":
    what, *names = sys.argv[1:]
    with shrinking_for(0.0):
        tell(differences({each.__name__: each for each in (few, every, narrow, collection)}[what](names)))
