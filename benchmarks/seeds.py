"""Right and wrong versions at many seeds: `python -m benchmarks.seeds [OPERATOR ...] [--seeds 5] [--resume]`.

Every right version of the collection, and every implementation of attn, is judged under all checks in all its formats,
and every planted mistake but the faults of formulas under the check that must catch it, at each seed. The slow tests do
so at two seeds; five take hours, so the results are written after every seed, and `--resume` goes on where a run has
ended. A right version that raises an alarm, and a mistake that is not caught, are defects of the harness.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import jax
import typer
from rich.console import Console

from benchmarks.campaign import RESULTS, Campaign, about_run, listed, say, table
from benchmarks.run import commit
from parity_tests.catalog import attn
from parity_tests.harness.candidates.base import AnyCandidate
from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.crosscheck import select_checks, select_precisions
from parity_tests.harness.findings import Verdict
from parity_tests.harness.judging.certified import Oracles
from parity_tests.harness.judging.judge import Plan, judge
from parity_tests.harness.report.report import Report
from parity_tests.harness.report.results import Row
from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators.catalogue import COLLECTION
from parity_tests.operators.operator import Mistake, Operator

ALARMS = (Verdict.MISMATCH, Verdict.SUSPECT, Verdict.ERROR)
RIGHT = "right"
CASES: Mapping[str, Operator] = COLLECTION
OPERATORS = (*CASES, attn.SPEC.name)
Key = tuple[str, str, int]  # operator, version, seed

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass
class Judged:
    """The result of judging a version of an operator at a seed.

    Attributes:
        version: "right"; for attn an implementation's name; or a planted mistake's name.
        is_mistake: whether it must be caught.
        rows: the number of rows by verdict.
        alarms: the rows that accuse a right version, such as "MISMATCH vjp float64: reason"; of a mistake, the rows
            that should have accused it and do not.
        seconds: CPU time; the first one of an operator includes the certificates, which serve all of them.
        text: the report, if there is an alarm.
        commit: of the working tree that judged; results that were kept may be of another one.
    """

    operator: str
    seed: int
    version: str = RIGHT
    is_mistake: bool = False
    rows: dict[str, int] = field(default_factory=dict)
    alarms: list[str] = field(default_factory=list)
    seconds: float = 0.0
    text: str = ""
    commit: str | None = None

    @property
    def key(self) -> Key:
        """The key of the result: operator, version, seed."""
        return self.operator, self.version, self.seed


def spec_of(operator: str) -> OpSpec:
    """The spec of a case of the collection, or of attn."""
    return CASES[operator].spec if operator in CASES else attn.SPEC


def mistakes_of(operator: str) -> Mapping[str, Mistake]:
    """The planted mistakes by their names, but for the faults of formulas; attn's are judged by tests of their own."""
    mistakes = CASES[operator].mistakes if operator in CASES else {}
    return {name: mistake for name, mistake in mistakes.items() if mistake.kind is None}


def versions_of(operator: str) -> tuple[str, ...]:
    """The right versions, and then the mistakes."""
    return ((RIGHT,) if operator in CASES else tuple(attn.NAMES)) + tuple(mistakes_of(operator))


def judged(operator: str, version: str, oracles: Oracles, seed: int) -> Judged:
    """Judge a right version under all checks in all its formats, or a mistake under the check that must catch it."""
    mistake = mistakes_of(operator).get(version)
    return judged_candidate(operator, version, _candidate(operator, version), mistake, oracles, seed)


def judged_candidate(
    operator: str,
    version: str,
    candidate: AnyCandidate | NotBuilt,
    mistake: Mistake | None,
    oracles: Oracles,
    seed: int,
) -> Judged:
    """Judge a candidate as this version of an operator, which is a mistake or, if that is None, right."""
    spec, start = spec_of(operator), time.process_time()
    plan = Plan(
        spec=spec,
        candidates=[candidate],
        checks=select_checks([mistake.caught_by] if mistake else None),
        precisions=select_precisions([mistake.dtype] if mistake else None, spec),
        device="cpu",
        seed=seed,
        replay=lambda row: "",
        oracles=oracles,
    )
    report = Report({})
    for _ in report.collect(judge(plan)):
        pass
    rows = [row for row in report.rows if row.candidate == version] if mistake else report.rows
    alarms = [row for row in rows if _is_an_alarm(row, mistake)]
    return Judged(
        operator,
        seed,
        version,
        is_mistake=mistake is not None,
        rows=dict(Counter(str(row.verdict) for row in rows)),
        alarms=[f"{row.verdict} {row.check} {row.dtype}: {row.reason}" for row in alarms] if rows else ["no row"],
        seconds=round(time.process_time() - start, 2),
        text=str(report) if alarms else "",
    )


def _candidate(operator: str, version: str) -> AnyCandidate | NotBuilt:
    if operator not in CASES:
        return attn.candidate(version)
    mistake = CASES[operator].mistakes.get(version)
    call = mistake.call if mistake else CASES[operator].right
    return call if isinstance(call, AnyCandidate) else Candidate(call, version)


def _is_an_alarm(row: Row, mistake: Mistake | None) -> bool:
    return row.verdict is not Verdict.MISMATCH if mistake else row.verdict in ALARMS


def judge_seeds(operator: str, wanted: Sequence[tuple[str, int]]) -> Iterator[Judged]:
    """Judge versions of an operator at some seeds; the oracle is traced and certified once for all of them."""
    courts: dict[int, Oracles] = {}
    for version, seed in sorted(wanted, key=lambda one: one[1]):
        if seed not in courts:
            first = next(iter(courts.values()), None)
            courts[seed] = first.at_seed(seed) if first else Oracles(spec_of(operator), "cpu", seed)
        yield judged(operator, version, courts[seed], seed)


@app.command()
def main(
    names: Annotated[list[str] | None, typer.Argument(help="Operators of the collection; by default all.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many; the first is 0.")] = 5,
    resume: Annotated[bool, typer.Option("--resume", help="Keep what the results have, and judge the others.")] = False,
    out: Annotated[Path, typer.Option(help="The results, .json; an .md beside it.")] = RESULTS / "seeds.json",
) -> None:
    """Judge every right version and every mistake of the collection at many seeds.

    Exit codes: 0 there is no alarm and every mistake is caught, 1 otherwise, 2 the run was interrupted.
    """
    unknown = [name for name in names or () if name not in OPERATORS]
    if unknown:
        raise typer.BadParameter(f"unknown operator {unknown[0]!r}; there are {', '.join(OPERATORS)}")
    console, its = Console(), campaign(out, resume or bool(names))
    if names and not resume:  # the results of the others stay
        its.kept = {key: found for key, found in its.kept.items() if found.operator not in names}
    its.about = about_run(schema=1, seeds=seeds)
    its.keep(its.keyed(_judged(names or OPERATORS, its)), lambda _, found: say(console, _progress(found)))
    say(console, *summary(seeds, its.outcomes))
    raise typer.Exit(its.exit_code(any(one.alarms for one in its.outcomes)))


def campaign(path: Path, resume: bool = True) -> Campaign[Key, Judged]:
    """The results by operator, version and seed."""
    its = Campaign[Key, Judged](
        path,
        Judged,
        as_markdown,
        "judged",
        ("operator", "version", "seed"),
        order=lambda key: (OPERATORS.index(key[0]), key[1] in mistakes_of(key[0]), key[1:]),
        resume=resume,
    )
    its.kept = {k: found for k, found in its.kept.items() if k[0] in OPERATORS and k[1] in versions_of(k[0])}
    return its


def _judged(names: Sequence[str], its: Campaign[Key, Judged]) -> Iterator[Judged]:
    judging = commit()
    for name in names:
        every = [(name, version, seed) for seed in range(its.about["seeds"]) for version in versions_of(name)]
        for found in judge_seeds(name, [key[1:] for key in its.due(every)]):
            found.commit = judging
            yield found
        jax.clear_caches()  # what is compiled for an operator serves no other, and adds up


def _progress(found: Judged) -> str:
    if found.is_mistake:
        text = "not caught" if found.alarms else "caught"
    else:
        text = f"{len(found.alarms)} alarms" if found.alarms else "no alarm"
    return f"{found.operator}, {found.version}, seed {found.seed}: {text}, {found.seconds} s"


def summary(seeds: int, found: Sequence[Judged]) -> list[str]:
    """How much was judged, how many alarms there are, and how many mistakes were missed."""
    rows: Counter[str] = Counter()
    right, wrong = [one for one in found if not one.is_mistake], [one for one in found if one.is_mistake]
    for one in right:
        rows.update(one.rows)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in rows.items())
    accused = [f"{one.operator}, {one.version} (seed {one.seed})" for one in right if one.alarms]
    missed = [f"{one.operator}, {one.version} (seed {one.seed})" for one in wrong if one.alarms]
    mistakes = sum(len(mistakes_of(name)) for name in OPERATORS)
    versions = sum(len(versions_of(name)) for name in OPERATORS) - mistakes
    return [
        f"{len(right)} of {seeds * versions}: right versions times seeds that were judged.",
        f"{sum(rows.values())} rows: {counts or 'none'}.",
        f"{sum(len(one.alarms) for one in right)} alarms{': ' + '; '.join(accused) if accused else ''}.",
        f"{len(wrong)} of {seeds * mistakes}: mistakes times seeds that were judged.",
        f"{len(missed)} of them not caught{': ' + '; '.join(missed) if missed else ''}.",
    ]


def as_markdown(about: dict[str, Any], found: Sequence[Judged]) -> str:
    """A page."""
    commits = ", ".join(dict.fromkeys(one.commit or "unknown" for one in found))
    keys = {one.key for one in found}
    waiting = [
        name
        for name in OPERATORS
        if any((name, version, seed) not in keys for version in versions_of(name) for seed in range(about["seeds"]))
    ]
    right: dict[tuple[str, str], list[Judged]] = {}
    wrong: dict[str, list[Judged]] = {}
    for one in found:
        if one.is_mistake:
            wrong.setdefault(one.operator, []).append(one)
        else:
            right.setdefault((one.operator, one.version), []).append(one)
    lines = [
        "# Right and wrong versions at many seeds",
        "",
        f"Written by `python -m benchmarks.seeds`; {about['date']}; commit {commits}; {listed(about['versions'])}; "
        f"{about['machine']['cpu']}; right versions under all checks in all formats, mistakes under the check "
        f"that must catch them; seeds 0 to {about['seeds'] - 1}.",
        "",
        *(f"{line}\n" for line in summary(about["seeds"], found)),
        *([f"**Not complete.** Seeds are missing of: {', '.join(waiting)}.", ""] if waiting else []),
        "## Right versions",
        "",
        *table(
            "| operator | version | seeds | rows | CPU s | alarms |",
            (_line(name, version, of) for (name, version), of in right.items()),
        ),
        "",
        "## Planted mistakes",
        "",
        *table(
            "| operator | mistakes | seeds | caught | CPU s | not caught |",
            (_line_of_mistakes(name, of) for name, of in wrong.items()),
        ),
    ]
    return "\n".join(lines) + "\n"


def _line(name: str, version: str, found: Sequence[Judged]) -> tuple[object, ...]:
    rows: Counter[str] = Counter()
    for one in found:
        rows.update(one.rows)
    text = "; ".join(f"seed {one.seed}: {alarm}" for one in found for alarm in one.alarms)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in rows.items())
    return name, version, _seeds(found), counts, f"{sum(one.seconds for one in found):.0f}", text


def _line_of_mistakes(name: str, found: Sequence[Judged]) -> tuple[object, ...]:
    caught = sum(not one.alarms for one in found)
    missed = "; ".join(f"{one.version}, seed {one.seed}: {one.alarms[0]}" for one in found if one.alarms)
    seconds = f"{sum(one.seconds for one in found):.0f}"
    return name, len({one.version for one in found}), _seeds(found), f"{caught} of {len(found)}", seconds, missed


def _seeds(found: Sequence[Judged]) -> str:
    return ", ".join(str(seed) for seed in sorted({one.seed for one in found}))


if __name__ == "__main__":
    app()
