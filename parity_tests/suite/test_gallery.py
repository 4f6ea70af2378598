"""The gallery: its table, its case files and its verdicts agree, and a verdict that changes is told."""

from __future__ import annotations

import dataclasses
import json
import re
from importlib import metadata

import pytest
from typer.testing import CliRunner

from parity_tests.gallery import __main__ as gallery
from parity_tests.gallery.verdicts import CASES, PAGE, Published, expected, table

NUMBERS = {int(n) for n in re.findall(r"^\| \[(\d+)\]", (PAGE.parent / "found.md").read_text(encoding="utf-8"), re.M)}
APP = gallery.typer.Typer()
APP.command()(gallery.main)


def report(verdict: str = "PASS", check: str = "vjp", declared: bool = False) -> dict:
    """A report with one row of the candidate."""
    row = {
        "candidate": "f",
        "check": check,
        "dtype": "float64",
        "verdict": verdict,
        "declared": declared,
        "listed": False,
    }
    return {"rows": [row | {"comparisons": 3}], "error": None}


PUBLISHED = Published("a_case", "rich", "1.0", "f", {"vjp": {"float64": "MISMATCH"}}, [110], 1, False)


def test_the_table_the_cases_and_the_verdicts_agree():
    published = expected()
    assert sorted(each.case for each in published) == sorted(path.stem for path in CASES.glob("*.py"))
    assert table(published) in PAGE.read_text(encoding="utf-8")
    assert {number for each in published for number in each.found} <= NUMBERS
    assert len({each.package for each in published}) >= 30
    wrong = [each.case for each in published if "MISMATCH" in each.row and not each.found and not each.note]
    assert wrong == []  # what is convicted is told in docs/found.md, or in a note


def test_the_packages_are_pinned():
    pins = (CASES.parents[2] / "constraints.txt").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", pins.lower().replace("_", "-"), re.M))
    versions = {each.package: each.version for each in expected()}
    assert {name: pinned.get(name.lower().replace("_", "-")) for name in versions} == versions


def packages_of_imported_cases(case: str, published: dict[str, Published]) -> set[str]:
    """The packages of the cases that a case imports, and of those that they import."""
    text = (CASES / f"{case}.py").read_text(encoding="utf-8")
    imported = [name for name in re.findall(r"^from (\w+) import", text, re.M) if name in published]
    further = [packages_of_imported_cases(name, published) for name in imported]
    return {published[name].package for name in imported}.union(*further)


def test_a_case_requires_what_the_cases_that_it_imports_need():
    published = {each.case: each for each in expected()}
    missing = {
        case: packages_of_imported_cases(case, published) - {each.package, *each.requires}
        for case, each in published.items()
    }
    assert {case: packages for case, packages in missing.items() if packages} == {}
    assert packages_of_imported_cases("optax_projection_simplex", published) == {"jaxopt", "entmax"}


def test_a_verdict_that_differs_is_told():
    assert PUBLISHED.differences(report("MISMATCH")) == []
    assert PUBLISHED.differences(report()) == ["a_case: vjp, float64: PASS, expected MISMATCH"]
    found = PUBLISHED.differences(report("MISMATCH", "jvp"))
    assert found == ["a_case: jvp, float64: MISMATCH, expected PASS"]
    assert PUBLISHED.differences(report("UNSUPPORTED", "jvp", declared=True)) == []
    assert PUBLISHED.differences(report("UNSUPPORTED", "jvp")) == ["a_case: jvp, float64: UNSUPPORTED, expected PASS"]
    assert PUBLISHED.differences({"rows": [], "error": None}) == ["a_case: nothing was judged"]
    assert PUBLISHED.differences(report("MISMATCH") | {"error": "time is up"}) == ["a_case: time is up"]


def test_a_missing_package_is_skipped_by_name():
    missing = dataclasses.replace(PUBLISHED, package="no-such-package")
    assert missing.why_not_judged() == "no-such-package is not installed"
    assert "is installed, and the verdict is of 1.0" in (PUBLISHED.why_not_judged() or "")


@pytest.mark.parametrize(("verdict", "code"), [("MISMATCH", 0), ("PASS", 1)])
def test_the_command_exits_with_what_it_finds(monkeypatch, verdict, code):
    here = dataclasses.replace(PUBLISHED, version=metadata.version("rich"))
    missing = dataclasses.replace(PUBLISHED, case="b_case", package="no-such-package")
    monkeypatch.setattr(gallery, "expected", lambda: [here, missing])
    monkeypatch.setattr(gallery, "report_on", lambda published, quick: json.loads(json.dumps(report(verdict))))
    result = CliRunner().invoke(APP, [])
    assert result.exit_code == code, result.output
    assert "b_case: skipped: no-such-package is not installed" in result.output
    assert f"1 judged, {code} differ" in result.output


def test_a_defect_that_quick_does_not_reach_is_judged_by_all_samples(monkeypatch):
    asked = []
    here = dataclasses.replace(PUBLISHED, version=metadata.version("rich"))
    other = dataclasses.replace(here, case="b_case", never_quick=True)
    monkeypatch.setattr(gallery, "expected", lambda: [here, other])
    monkeypatch.setattr(gallery, "report_on", lambda published, quick: asked.append(quick) or report("MISMATCH"))
    assert CliRunner().invoke(APP, ["--quick"]).exit_code == 0
    assert asked == [True, False]


def test_what_pip_installs_is_told():
    alone = dataclasses.replace(PUBLISHED, case="b_case", package="b", alone=True, requires=["numpy"])
    with_more = dataclasses.replace(PUBLISHED, case="c_case", package="c", version="2.0", requires=["numpy", "d"])
    cases = [PUBLISHED, PUBLISHED, alone, with_more]
    assert gallery.requirements(cases, alone=False) == ["rich==1.0", "numpy", "c==2.0", "d"]
    assert gallery.requirements(cases, alone=True) == ["b==1.0"]


def test_what_is_judged_by_hand_is_in_no_tenth():
    by_hand = dataclasses.replace(PUBLISHED, case="b_case", by_hand="it downloads 2 GB")
    assert all(by_hand not in gallery.chosen([PUBLISHED, by_hand], [], tenth) for tenth in range(10))
    assert by_hand in gallery.chosen([PUBLISHED, by_hand], [], None)


def test_tenths_are_all_of_it():
    every = [dataclasses.replace(PUBLISHED, case=f"case_{i}") for i in range(23)]
    tenths = [each for tenth in range(10) for each in gallery.chosen(every, [], tenth)]
    assert sorted(tenths, key=lambda each: each.case) == sorted(every, key=lambda each: each.case)
    with pytest.raises(gallery.typer.BadParameter, match="no case 'x'"):
        gallery.chosen(every, ["x"], None)
