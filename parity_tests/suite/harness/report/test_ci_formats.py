"""A report as Markdown for an issue, as JUnit XML, and as annotations of GitHub Actions."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt

from parity_tests import Report, Verdict
from parity_tests.harness.candidates.definition import Definition
from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.report.annotations import as_annotations
from parity_tests.harness.report.junit import as_junit
from parity_tests.harness.report.markdown import BEGINNING, as_markdown
from parity_tests.harness.report.results import Row, Smallest


def row(verdict: Verdict, **fields) -> Row:
    return replace(Row("op", "mine", "forward", "float64", "cpu", verdict, 0.0, 1), **fields)


def test_markdown_has_what_an_issue_needs(failed):
    text = as_markdown(failed, {"case.py": "spec = 1\n"})
    assert text.startswith(f"{BEGINNING}\n\n**2 of 5 rows do not pass")
    assert "### square: mine disagrees with the oracle in `vjp`" in text
    assert "In float64 on cpu, sample `" in text
    assert "; also in float32." in text
    assert re.search(
        r"^\| `\w+` \| 1/9 entries wrong[^|]* \| \(1, 2\) \| \S+ \| \S+ \| 3 \| \S+ \|$", text, re.MULTILINE
    )
    assert "- The smallest input" not in text
    assert "- Witness: Taylor rate" in text
    assert "- torch: 2." in text
    assert "```python\nspec = 1\n```" in text


def test_markdown_has_the_smallest_input(failed):
    failure = failed.failures[0]
    failure = replace(failure, smallest=Smallest({"n": 1}, {"x": "[2]"}, failure.wrong[0]))
    text = as_markdown(Report({}, [row(Verdict.MISMATCH, failure=failure)]))
    assert "- The smallest input that fails: `n=1; x = [2]; " in text


def test_markdown_of_a_report_that_passes():
    text = as_markdown(Report({}, [row(Verdict.PASS, check="vjp")]))
    assert "**All agree: 1 rows, 1 comparisons**" in text
    assert "- not known" in text


HOSTILE = "a|b *c* `d` <script>e</script> [f](g)\x1b[1m"


def test_nothing_in_a_name_is_taken_for_markdown(failed):
    failure = replace(failed.failures[0], op=HOSTILE, replay=f"replay {HOSTILE}", judge=HOSTILE)
    text = as_markdown(Report({"torch": HOSTILE}, [row(Verdict.MISMATCH, failure=failure)]), {HOSTILE: "x = '```'"})
    assert "\x1b" not in text
    page = MarkdownIt("commonmark").enable("table").render(text)
    shown = page.replace("<details>", "").replace("</details>", "")
    assert not re.search(r"<(script|em|a )", shown)
    assert page.count("&lt;script&gt;") == 5  # title, replay, witness, version, name of the case
    assert "````python\nx = '```'\n````" in text


def test_markdown_is_written_whole(failed, tmp_path: Path):
    failed.to_markdown(tmp_path / "report.md")
    assert (tmp_path / "report.md").read_text(encoding="utf-8") == as_markdown(failed)


def test_junit_counts_and_tells(failed):
    root = ElementTree.fromstring(as_junit(failed).encode())
    (suite,) = root
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5",
        "failures": "2",
        "errors": "0",
        "skipped": "0",
    }
    cases = {(case.get("classname"), case.get("name")): case for case in suite}
    failure = cases["square.mine", "vjp[float64-cpu]"].find("failure")
    assert failure is not None
    assert failure.get("message") == "MISMATCH: x_bar 1/9 entries wrong, all in rows 1 of 3"
    assert "1/9 entries wrong" in (failure.text or "")
    assert not len(cases["square.mine", "forward[float64-cpu]"])


@pytest.mark.parametrize(
    ("verdict", "listed", "kind"),
    [
        (Verdict.PASS, False, None),
        (Verdict.MISMATCH, False, "failure"),
        (Verdict.SUSPECT, False, "failure"),
        (Verdict.UNSUPPORTED, False, "failure"),
        (Verdict.UNSUPPORTED, True, "skipped"),
        (Verdict.SKIPPED, False, "skipped"),
        (Verdict.UNRESOLVED, False, "error"),
        (Verdict.ERROR, False, "error"),
    ],
)
def test_junit_has_a_kind_for_each_verdict(verdict, listed, kind):
    report = Report({}, [row(verdict, listed=listed, reason="why\x00")])
    ((case,),) = ElementTree.fromstring(as_junit(report).encode())
    assert [child.tag for child in case] == ([] if kind is None else [kind])
    assert kind is None or case[0].get("message") == f"{verdict}: why\\x00"


def test_a_suspicion_that_is_allowed_passes_in_junit():
    report = Report({}, [row(Verdict.SUSPECT)], allow_suspect=True)
    ((case,),) = ElementTree.fromstring(as_junit(report).encode())
    assert not len(case)


def test_junit_of_a_run_that_ended_early():
    root = ElementTree.fromstring(as_junit(Report({}, error="interrupted")).encode())
    error = root.find("testsuite/testcase/error")
    assert error is not None
    assert error.get("message") == "interrupted"


def test_a_broken_candidate_is_an_error_beside_rows_that_pass():
    """One that the machine cannot build is none."""
    broken = NotBuilt("case.py", "case.py, line 3: SystemExit: 0", expected=False, op="case.py")
    report = Report({}, [row(Verdict.PASS)], not_built=[NotBuilt("kernel", "no compiler"), broken])
    assert not report.passed
    found = ElementTree.fromstring(as_junit(report).encode()).findall("testsuite/testcase/error")
    assert [error.get("message") for error in found] == [f"not built: {broken.reason}"]
    assert as_annotations(report) == [f"::error title=gradparity::case.py, not built: {broken.reason}"]


def test_annotations_are_lines_of_their_own(failed):
    (line,) = as_annotations(placed(failed, ("square", "mine", "a,b: c.py", 7), ("other", "mine", "d.py")))
    assert line.startswith(
        "::error file=a%2Cb%3A c.py,line=7,title=mine%3A vjp::square: mine disagrees with the oracle"
    )
    assert "\n" not in line
    assert "%0A" in line


def test_annotations_tell_why_a_run_ended():
    lost = Report({}, error="100 %\nlost")
    assert as_annotations(lost) == ["::error title=gradparity::100 %25%0Alost"]
    told = ["::error file=a.py,title=gradparity::100 %25%0Alost"]
    assert as_annotations(placed(lost, ("a", "f", "a.py", 3), ("a", "g", "a.py", 9))) == told
    assert as_annotations(placed(lost, ("a", "f", "a.py"), ("b", "f", "b.py"))) == as_annotations(lost)
    assert as_annotations(Report({}, [row(Verdict.PASS)])) == []


def placed(report: Report, *definitions: tuple) -> Report:
    return replace(report, definitions=[Definition(*each) for each in definitions])


def test_each_form_has_the_place_of_the_candidate(failed):
    report = replace(
        placed(failed, ("square", "mine", "kernels/square.py", 12), ("case.py", "case.py", "case.py")),
        not_built=[NotBuilt("case.py", "no module", expected=False, op="case.py")],
    )
    square, broken = ElementTree.fromstring(as_junit(report).encode())
    own = [case for case in square if case.get("classname") == "square.mine"]
    assert {(case.get("file"), case.get("line")) for case in own} == {("kernels/square.py", "12")}
    assert (broken[0].get("file"), broken[0].get("line")) == ("case.py", None)
    places = [line.partition("title")[0] for line in as_annotations(report)]
    assert places == ["::error file=kernels/square.py,line=12,", "::error file=case.py,"]
    assert Report.from_dict(report.as_dict()).definitions == report.definitions


def test_what_a_result_looks_like_is_in_the_message(failed):
    failure = failed.failures[0]
    known = replace(failure, wrong=tuple(replace(wrong, looks_like="-x_bar") for wrong in failure.wrong))
    root = ElementTree.fromstring(as_junit(Report({}, [row(Verdict.MISMATCH, failure=known)])).encode())
    (failing,) = root.iter("failure")
    assert failing.get("message") == "MISMATCH: x_bar 1/9 entries wrong, all in rows 1 of 3: -x_bar"


def test_a_candidate_without_a_judged_derivative_fails_in_every_form():
    listed = row(Verdict.UNSUPPORTED, check="vjp", listed=True, reason="later")
    report = Report({}, [row(Verdict.PASS), listed])
    (failure,) = ElementTree.fromstring(as_junit(report).encode()).iter("failure")
    told = "o derivative of mine was judged: it refuses vjp (later); give it one"
    assert told in failure.get("message", "")
    assert any(told in line for line in as_annotations(report))
    assert told in as_markdown(report)
