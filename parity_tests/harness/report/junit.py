"""A report as JUnit XML, which CI servers show: a suite for each operator, a case for each row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.etree import ElementTree

from parity_tests.harness.findings import Verdict
from parity_tests.harness.report.judged import unjudged, why_unjudged
from parity_tests.harness.report.lines_of_failures import failure_text
from parity_tests.harness.report.printable import printable
from parity_tests.harness.report.results import Results, Row

_COULD_NOT = (Verdict.ERROR, Verdict.UNRESOLVED)


def as_junit(report: Results) -> str:
    """Return the report as XML.

    A row that does not pass is a failure, or an error if it could not be judged; a check that does not apply, and a
    limit that is expected, are skipped. A broken candidate, and a run that ended early, have errors of their own.
    """
    root = ElementTree.Element("testsuites", name="gradparity")
    failed = {id(row) for row in report.failed}
    for op in dict.fromkeys(row.op for row in report.rows):
        _suite(root, op, [row for row in report.rows if row.op == op], failed)
    for (op, candidate), refused in unjudged(report.rows).items():
        suite = ElementTree.SubElement(root, "testsuite", name=printable(op), tests="1", failures="1", errors="0")
        case = ElementTree.SubElement(suite, "testcase", classname=printable(f"{op}.{candidate}"), name="a derivative")
        ElementTree.SubElement(case, "failure", message=printable(why_unjudged(candidate, refused)))
    for broken in report.not_built:
        if not broken.expected:
            op, name = printable(broken.op or "gradparity"), printable(broken.name)
            suite = ElementTree.SubElement(root, "testsuite", name=op, tests="1", failures="0", errors="1")
            case = ElementTree.SubElement(suite, "testcase", classname=f"{op}.{name}", name="it is built")
            ElementTree.SubElement(case, "error", message=printable(f"not built: {broken.reason}"))
    if report.error:
        suite = ElementTree.SubElement(root, "testsuite", name="gradparity", tests="1", failures="0", errors="1")
        case = ElementTree.SubElement(suite, "testcase", classname="gradparity", name="the run")
        ElementTree.SubElement(case, "error", message=printable(report.error))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _suite(root: ElementTree.Element, op: str, rows: Sequence[Row], failed: set[int]) -> None:
    suite = ElementTree.SubElement(root, "testsuite", name=printable(op))
    kinds = [_case(suite, row, id(row) in failed) for row in rows]
    suite.set("tests", str(len(rows)))
    for kind, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(name, str(kinds.count(kind)))
    suite.set("time", f"{math.fsum(row.seconds for row in rows):.3f}")


def _case(suite: ElementTree.Element, row: Row, failed: bool) -> str:
    """Add a row, and return what it is: failure, error, skipped, or passed."""
    name = printable(f"{row.check}[{row.dtype}-{row.device}]")
    classname = printable(f"{row.op}.{row.candidate}")
    case = ElementTree.SubElement(suite, "testcase", classname=classname, name=name, time=f"{row.seconds:.3f}")
    if failed:
        kind = "error" if row.verdict in _COULD_NOT else "failure"
    elif row.verdict in (Verdict.SKIPPED, Verdict.UNSUPPORTED):
        kind = "skipped"
    else:
        return "passed"
    result = ElementTree.SubElement(case, kind, message=printable(f"{row.verdict}: {row.reason}".removesuffix(": ")))
    if row.failure is not None:
        result.text = printable(failure_text(row.failure).plain)
    return kind
