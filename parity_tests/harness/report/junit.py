"""A report as JUnit XML, which CI servers show: a suite for each operator, a case for each row."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from xml.etree import ElementTree

from parity_tests.harness.candidates.definition import Definition
from parity_tests.harness.findings import Verdict
from parity_tests.harness.report.judged import unjudged, why_unjudged
from parity_tests.harness.report.lines_of_failures import failure_text, what_is_wrong
from parity_tests.harness.report.printable import printable
from parity_tests.harness.report.results import Results, Row

_COULD_NOT = (Verdict.ERROR, Verdict.UNRESOLVED)


def as_junit(report: Results) -> str:
    """Return the report as XML.

    A row that does not pass is a failure, or an error if it could not be judged; a check that does not apply, and a
    limit that is expected, are skipped. A broken candidate, and a run that ended early, have errors of their own. Each
    case has the file and the line of its candidate, as far as they are known.
    """
    places = {(each.op, each.candidate): each for each in report.definitions}
    root = ElementTree.Element("testsuites", name="gradparity")
    failed = {id(row) for row in report.failed}
    for op in dict.fromkeys(row.op for row in report.rows):
        _suite(root, op, [row for row in report.rows if row.op == op], failed, places)
    for (op, candidate), refused in unjudged(report.rows).items():
        suite = ElementTree.SubElement(root, "testsuite", name=printable(op), tests="1", failures="1", errors="0")
        case = _testcase(suite, f"{op}.{candidate}", "a derivative", places.get((op, candidate)))
        ElementTree.SubElement(case, "failure", message=printable(why_unjudged(candidate, refused)))
    for broken in report.not_built:
        if not broken.expected:
            op, place = broken.op or "gradparity", places.get((broken.op, broken.name))
            suite = ElementTree.SubElement(root, "testsuite", name=printable(op), tests="1", failures="0", errors="1")
            case = _testcase(suite, f"{op}.{broken.name}", "it is built", place)
            ElementTree.SubElement(case, "error", message=printable(f"not built: {broken.reason}"))
    if report.error:
        suite = ElementTree.SubElement(root, "testsuite", name="gradparity", tests="1", failures="0", errors="1")
        case = _testcase(suite, "gradparity", "the run", None)
        ElementTree.SubElement(case, "error", message=printable(report.error))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


Places = Mapping[tuple[str, str], Definition]


def _suite(root: ElementTree.Element, op: str, rows: Sequence[Row], failed: set[int], places: Places) -> None:
    suite = ElementTree.SubElement(root, "testsuite", name=printable(op))
    kinds = [_case(suite, row, id(row) in failed, places.get((op, row.candidate))) for row in rows]
    suite.set("tests", str(len(rows)))
    for kind, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(name, str(kinds.count(kind)))
    suite.set("time", f"{math.fsum(row.seconds for row in rows):.3f}")


def _testcase(suite: ElementTree.Element, classname: str, name: str, place: Definition | None) -> ElementTree.Element:
    case = ElementTree.SubElement(suite, "testcase", classname=printable(classname), name=printable(name))
    if place is not None:
        case.set("file", printable(place.file))
        if place.line is not None:
            case.set("line", str(place.line))
    return case


def _case(suite: ElementTree.Element, row: Row, failed: bool, place: Definition | None) -> str:
    """Add a row, and return what it is: failure, error, skipped, or passed."""
    case = _testcase(suite, f"{row.op}.{row.candidate}", f"{row.check}[{row.dtype}-{row.device}]", place)
    case.set("time", f"{row.seconds:.3f}")
    if failed:
        kind = "error" if row.verdict in _COULD_NOT else "failure"
    elif row.verdict in (Verdict.SKIPPED, Verdict.UNSUPPORTED):
        kind = "skipped"
    else:
        return "passed"
    message = f"{row.verdict}: {what_is_wrong(row)}".removesuffix(": ")
    result = ElementTree.SubElement(case, kind, message=printable(message))
    if row.failure is not None:
        result.text = printable(failure_text(row.failure).plain)
    return kind
