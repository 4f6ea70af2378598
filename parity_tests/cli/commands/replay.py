"""gradparity replay: one failure again, at exactly the arrays that an .npz file holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import RenderableType
from rich.text import Text

from parity_tests.cli.commands.replay_operation import replay_operation
from parity_tests.cli.failure_file import ReplayError, read
from parity_tests.cli.sources import SOURCES
from parity_tests.cli.sources.case_files import CaseFile
from parity_tests.cli.sources.source import FailedCandidate, Source, SourceCommand
from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.judging.judge import Plan, judge_at
from parity_tests.harness.judging.selection import one_of, select_checks, select_precisions
from parity_tests.harness.judging.verdicts import NO_EVIDENCE
from parity_tests.harness.numbers import devices
from parity_tests.harness.numbers.formats import COMPLEX
from parity_tests.harness.report.environment import environment
from parity_tests.harness.report.printable import in_a_line
from parity_tests.harness.report.report import Report
from parity_tests.harness.report.results import Note
from parity_tests.harness.report.text import details
from parity_tests.harness.specs.samples import Sample
from parity_tests.harness.specs.spec import OpSpec


def shown(path: Path, case: Path | None) -> tuple[RenderableType, int]:
    """Judge what a file holds again, and return what is to be shown, and the exit code.

    Args:
        path: an .npz file of a failure, or of an operation of an audit.
        case: see `replay` and `replay_operation`.

    Raises:
        ReplayError, CannotLoad, ValueError, OracleError: see `replay`.
    """
    facts, arrays = read(path)
    if "kind" in facts:
        text, code = replay_operation(path, facts, arrays, case)
        return Text(text), code
    report, gone = _judged_again(path, facts, arrays, case, SOURCES)
    if not gone:
        return details(report), report.exit_code
    (row,) = report.rows
    return Text(f"{row.op}: {row.candidate} agrees with the oracle now: {row.check}, {row.dtype}, {row.device}"), 0


def replay(path: Path, case: Path | None = None, commands: Sequence[SourceCommand] = SOURCES) -> tuple[Report, bool]:
    """Run the check that failed again, at the arrays of the file.

    Args:
        path: an .npz file of a failure.
        case: the file that defines spec and candidate, if not the one that the failure was found with. That one is run
            only if it lies in the current folder, or below it: whoever wrote the file has chosen it.
        commands: those of the sources in which the candidate is looked for.

    Returns:
        The report, of one row, and whether the failure is gone.

    Raises:
        ReplayError, CannotLoad: the file, or the candidate's source, cannot be used, or the device is not there.
        ValueError: what the file names is not there: a candidate, a check.
        OracleError: the primal does not run at these arrays.
    """
    facts, arrays = read(path)
    if "kind" in facts:
        raise ReplayError(f"{path}: is no failure of a candidate; replay it at the command line: gradparity replay")
    return _judged_again(path, facts, arrays, case, commands)


def _judged_again(
    path: Path,
    facts: dict[str, Any],
    arrays: dict[str, np.ndarray],
    case: Path | None,
    commands: Sequence[SourceCommand],
) -> tuple[Report, bool]:
    failed = FailedCandidate(path, facts["op"], facts["candidate"], facts["case"], facts["origin"])
    source = CaseFile(case) if case is not None else _source(failed, commands)
    spec, candidates = source.load()
    names = tuple(candidate.name for candidate in candidates)
    one_of("candidate", facts["candidate"], names)
    same = [i for i, name in enumerate(names) if name == facts["candidate"]]  # two lambdas have the same name
    candidate = candidates[facts["position"] if facts["position"] in same else same[0]]
    try:
        devices.check(facts["device"])
    except ValueError as error:
        raise ReplayError(f"{path}: {error}") from None
    plan = Plan(
        spec=spec,
        candidates=[candidate],
        checks=select_checks([facts["check"]]),
        precisions=select_precisions([facts["dtype"]], spec),
        device=facts["device"],
        seed=facts["seed"],
        replay=lambda row: f"gradparity replay {path}",
        case=source.file,
        origin=source.origin,
        samples=lambda spec, seed: [_sample(path, spec, facts, arrays)],
    )
    report = Report(environment((facts["device"],), facts["seed"]))
    if isinstance(candidate, NotBuilt):
        report.not_built.append(candidate)
        return report, False
    for name, version in facts["versions"].items():
        if report.environment.get(name) != version:
            here = f"this is {report.environment[name]}" if name in report.environment else "it plays no part here"
            report.add(Note(f"the failure was found with {name} {version}; {here}"))
    (row,) = report.collect(judge_at(plan))
    return report, row.passed or row.reason.startswith(NO_EVIDENCE)


def _source(failed: FailedCandidate, commands: Sequence[SourceCommand]) -> Source:
    """The source that the failure's candidate is of."""
    for command in commands:
        source = command.of_failure(failed)
        if source is not None:
            if source.file is not None or source.origin is not None:
                what = source.file or source.command(failed.candidate)
                typer.echo(in_a_line(f"gradparity: running {what}, which {failed.path} names"), err=True)
            return source
    raise ReplayError(
        f"{failed.path}: was found without a case file, as from Python; write one that defines spec and candidate: "
        "--case FILE"
    )


def _sample(path: Path, spec: OpSpec, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> Sample:
    drawn = {name.removeprefix("drawn."): x for name, x in arrays.items() if name.startswith("drawn.")}
    numbers = {name.removeprefix("constant."): x for name, x in arrays.items() if name.startswith("constant.")}
    constants: dict[int, np.ndarray | None] = {int(i): x for i, x in numbers.items() if i.isdecimal() and i.isascii()}
    names, domains = spec.names, spec.drawn_from
    absent = [i for i in range(spec.count) if i in facts["absent"]]
    varied = [i for i, domain in enumerate(domains) if domain.differentiable and i not in absent]
    constants |= dict.fromkeys(absent)
    shapes = {names[i]: drawn[f"{names[i]} 0"].shape for i in varied if f"{names[i]} 0" in drawn}
    shapes |= {names[i]: x.shape for i, x in constants.items() if i < spec.count and x is not None}
    missing = [names[i] for i in varied if f"{names[i]} 0" not in drawn]
    if missing or set(constants) != set(range(spec.count)) - set(varied):
        found = ", ".join(sorted({role.rsplit(" ", 1)[0] for role in drawn} & set(names))) or "none of its inputs"
        raise ReplayError(f"{path}: does not fit the spec {spec.name}({', '.join(names)}): it has {found}")
    _check_shapes(path, spec, facts["sizes"], shapes)
    primals = tuple(drawn[f"{names[i]} 0"] for i in varied)
    return Sample(
        facts["sample"],
        facts["why"],
        facts["sizes"],
        tuple(x.shape for x in primals),
        tuple(domains[i] for i in varied),
        facts["seed"],
        fixed=primals if facts["given"] else None,
        constants=constants,
        complex=facts["dtype"] in COMPLEX,
        given=drawn,
    )


def _check_shapes(path: Path, spec: OpSpec, sizes: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise a ReplayError unless each input has the shape that the signature gives it, or one that it broadcasts."""
    if spec.parsed is None:
        return
    unknown = [axis for axis in spec.parsed.core if axis not in sizes]
    if unknown:
        raise ReplayError(f"{path}: does not fit the spec {spec.name}: it has no size of the axis {unknown[0]}")
    for i, (name, full) in enumerate(zip(spec.names, spec.parsed.input_shapes(sizes), strict=True)):
        if name not in shapes:
            continue  # it is absent
        found = shapes[name]
        ones = [place for place in spec.parsed.broadcast if place[0] == i and found[place[1] : place[1] + 1] == (1,)]
        expected = spec.parsed.input_shapes(sizes, ones)[i]
        if found != expected:
            raise ReplayError(f"{path}: does not fit the spec {spec.name}: {name} has the shape {found}, not {full}")
