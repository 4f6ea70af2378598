"""gradparity replay: one failure again, at exactly the arrays that an .npz file holds."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parity_tests.case_file import load_case
from parity_tests.harness.candidate import Candidate, NotBuilt
from parity_tests.harness.environment import environment
from parity_tests.harness.jax_candidate import JaxCandidate
from parity_tests.harness.judge import NOTHING_TOLD, Docket, judge_at
from parity_tests.harness.numerics import cuda_missing
from parity_tests.harness.precision import COMPLEX
from parity_tests.harness.report import Report
from parity_tests.harness.reproducer import FORMAT
from parity_tests.harness.samples import Sample
from parity_tests.harness.selection import one_of, select_checks, select_precisions
from parity_tests.harness.spec import OpSpec


class ReplayError(Exception):
    """The file cannot be replayed; the message says why, and what to do about it."""


def replay(path: Path, case: Path | None = None) -> tuple[Report, bool]:
    """Run the check that failed again, at the arrays of the file.

    Args:
        path: an .npz file of a failure.
        case: the file that defines spec and candidate, if not the one that the failure was found with.

    Returns:
        The report, of one row, and whether the failure is gone.

    Raises:
        ReplayError, CaseError: the file, or the case, cannot be used.
        ValueError: what the file names is not there: a candidate, a check, a device.
        OracleError: the primal does not run at these arrays.
    """
    facts, arrays = _read(path)
    spec, candidates, case = _case(facts, path, case)
    names = tuple(candidate.name for candidate in candidates)
    one_of("candidate", facts["candidate"], names)
    same = [i for i, name in enumerate(names) if name == facts["candidate"]]  # two lambdas have the same name
    candidate = candidates[facts["position"] if facts["position"] in same else same[0]]
    missing = cuda_missing() if facts["device"] == "cuda" else None
    if missing:
        raise ReplayError(f"{path}: device cuda cannot be judged here: {missing}")
    docket = Docket(
        spec=spec,
        candidates=[candidate],
        checks=select_checks([facts["check"]]),
        precisions=select_precisions([facts["dtype"]], spec),
        device=facts["device"],
        seed=facts["seed"],
        replay=lambda row: f"gradparity replay {path}",
        case=case,
        samples=lambda spec, seed: [_sample(path, spec, facts, arrays)],
    )
    report = Report(environment((facts["device"],), facts["seed"]))
    if isinstance(candidate, NotBuilt):
        report.not_built.append(candidate)
        return report, False
    for name, version in facts["versions"].items():
        if report.environment[name] != version:
            report.skipped.append(f"the failure was found with {name} {version}; this is {report.environment[name]}")
    row = judge_at(docket, report)
    return report, row.passed or row.reason == NOTHING_TOLD


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    if not path.is_file():
        raise ReplayError(f"{path}: no such file")
    try:
        with np.load(path, allow_pickle=False) as data:
            arrays = dict(data)
            facts = json.loads(str(arrays.pop("facts")))
    except (ValueError, KeyError, OSError, zipfile.BadZipFile, AttributeError, TypeError) as error:
        raise ReplayError(f"{path}: not a failure that gradparity has written ({error})") from error
    if facts.get("format") != FORMAT:
        raise ReplayError(f"{path}: is of format {facts.get('format')}, this version of gradparity reads {FORMAT}")
    return facts, arrays


def _case(
    facts: dict[str, Any], path: Path, case: Path | None
) -> tuple[OpSpec, Sequence[Candidate | JaxCandidate | NotBuilt], Path | None]:
    if case is None and facts["case"] is not None:
        case = Path(facts["case"])
        if not case.is_file():
            raise ReplayError(f"{path}: its case {case} is not there any more; say where it is: --case FILE")
    if case is not None:
        return *load_case(case), case
    from parity_tests.suite import operators  # the implementations, which other cases can do without

    op, name = facts["op"], facts["candidate"]
    if op in operators.SPECS and name in operators.names(op):
        return operators.SPECS[op], [operators.candidate(op, name)], None
    raise ReplayError(
        f"{path}: was found from Python, without a file; write one that defines spec and candidate: --case FILE"
    )


def _sample(path: Path, spec: OpSpec, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> Sample:
    drawn = {name.removeprefix("drawn."): x for name, x in arrays.items() if name.startswith("drawn.")}
    constants = {int(name.removeprefix("constant.")): x for name, x in arrays.items() if name.startswith("constant.")}
    names, domains = spec.names_of_inputs(spec.count), spec.domains_of_inputs(spec.count)
    varied = [i for i, domain in enumerate(domains) if domain.differentiable]
    missing = [names[i] for i in varied if f"{names[i]} 0" not in drawn]
    if missing or set(constants) != set(range(spec.count)) - set(varied):
        found = ", ".join(sorted({role.rsplit(" ", 1)[0] for role in drawn} & set(names))) or "none of its inputs"
        raise ReplayError(f"{path}: does not fit the spec {spec.name}({', '.join(names)}): it has {found}")
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
        drawn=drawn,
    )
