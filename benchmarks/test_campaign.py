"""A campaign goes on where it was, keeps what it has at once, and its files are those that are committed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks import audits, campaign, certification, kernelbench, proofs, seeds, soak
from benchmarks.campaign import INTERRUPTED, MET, MISSED, RESULTS, Campaign
from benchmarks.fault_benchmark import command as faults
from benchmarks.fault_benchmark import right_versions, sixteen_bits
from benchmarks.mlx_sweep import command as mlx
from benchmarks.models import __main__ as models
from benchmarks.operators import __main__ as operators
from benchmarks.operators.costly import COSTLY
from benchmarks.run import commit


@dataclass(frozen=True)
class Outcome:
    name: str
    size: int = 0
    ended: str | None = None


def page(about: Mapping[str, Any], outcomes: Any) -> str:
    return f"{about}: {len(outcomes)}"


def of(path: Path, *layout: Any, **options: Any) -> Campaign[Any, Outcome]:
    return Campaign(path, Outcome, page, *layout, since=lambda outcome: outcome.ended, **options)


def keep(its: Campaign[Any, Outcome], *outcomes: Outcome) -> None:
    its.keep([(outcome.name, outcome) for outcome in outcomes], lambda *_: None)


A, B, C = Outcome("a"), Outcome("b"), Outcome("c")


def test_without_a_file_all_is_due_and_then_what_is_out_of_date_the_oldest_first(tmp_path: Path) -> None:
    its = of(tmp_path / "x.json")
    assert its.due("cab") == ["c", "a", "b"]
    keep(its, A, Outcome("new", ended="2026"), Outcome("old", ended="2025"), Outcome("as none", ended=""))
    assert its.due(["new", "a", "old", "as none", "b"]) == ["as none", "b", "old", "new"]


def test_what_came_before_an_interruption_is_kept_and_is_not_due(tmp_path: Path) -> None:
    its, told = of(tmp_path / "new" / "x.json"), list[str]()

    def interrupted() -> Iterator[tuple[str, Outcome]]:
        yield "a", A
        assert json.loads(its.path.read_text()) == {"a": vars(A)}  # at once
        assert its.path.with_suffix(".md").read_text() == "{}: 1"
        raise KeyboardInterrupt

    its.keep(interrupted(), lambda key, outcome: told.append(key))
    assert (told, its.exit_code(missed=True)) == (["a"], INTERRUPTED)
    again = of(its.path)
    assert (again.kept, again.due("abc")) == ({"a": A}, ["b", "c"])
    assert (again.exit_code(missed=True), again.exit_code(missed=False)) == (MISSED, MET)
    assert of(its.path, resume=False).due("abc") == ["a", "b", "c"]


def test_another_exception_is_raised(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        of(tmp_path / "x.json").keep((("a", Outcome("a", 1 // n)) for n in (1, 0)), lambda *_: None)
    assert list(of(tmp_path / "x.json").kept) == ["a"]


def test_the_outcomes_are_under_a_name_in_order(tmp_path: Path) -> None:
    layout, order = ("under", ("name", "size")), {"order": lambda key: key[1]}
    its = of(tmp_path / "x.json", *layout, **order)
    its.about = {"schema": 1}
    its.keep(its.keyed([Outcome("b", 2), Outcome("a", 10), Outcome("ä", 1)]), lambda *_: None)
    stored = json.loads(its.path.read_text(encoding="utf-8"))
    assert [*stored] == ["schema", "under"]
    assert [each["size"] for each in stored["under"]] == [1, 2, 10]
    again = of(its.path, *layout, **order)
    assert (again.kept, again.about) == (its.kept, {"schema": 1})


def test_of_items_the_others_are_forgotten_and_the_file_says_whether_it_is_complete(tmp_path: Path) -> None:
    its = of(tmp_path / "x.json", "under", ("name",), items=["b", "a"])
    for outcome, complete in ((A, False), (B, True)):
        its.keep([(outcome.name, outcome)], lambda *_: None)
        assert json.loads(its.path.read_text())["complete"] is complete
    assert its.outcomes == [B, A]
    assert [*of(its.path, "under", ("name",), items=["a", "c"]).kept] == ["a"]


def test_a_cell_does_not_end_a_table() -> None:
    lines = campaign.table("| x | |", [("a|b", 1), ("c\nd", None)])
    assert lines == ["| x | |", "|---|---|", "| a\\|b | 1 |", "| c d | None |"]


def test_a_bar_that_is_missed_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    met, missed = ("at most [1]", "1", True), ("at least 1", "0", False)
    assert not campaign.say_bars(Console(), [met])
    assert campaign.say_bars(Console(), [met, missed])
    assert capsys.readouterr().out == 2 * "met    at most [1]: 1\n" + "MISSED at least 1: 0\n"


CAMPAIGNS = {
    "soak": soak.campaign,
    "certification": certification.campaign,
    "proofs": proofs.campaign,
    "kernelbench": kernelbench.campaign,
    "operators": operators.campaign,
    "costly": lambda path: operators.campaign(path, cases=COSTLY),
    "faults": faults.Cells,
    "right_versions": right_versions.campaign,
    "sixteen_bits": sixteen_bits.campaign,
    "mlx": mlx.campaign,
    "seeds": seeds.campaign,
    "audits": audits.campaign,
    "models": models.campaign,
}
AS_THEY_CAME = ("right_versions", "sixteen_bits", "mlx")
PAGES = {"mlx": (mlx.PAGE, mlx.page), "faults": (RESULTS / "faults.md", faults.as_markdown)}


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=[pytest.mark.slow] if x in ("certification", "proofs") else []) for x in CAMPAIGNS]
)
def test_the_committed_results_give_the_committed_page(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = RESULTS / f"{name}.json"
    its = CAMPAIGNS[name](path)
    assert len(its.kept) >= 3
    if name not in AS_THEY_CAME:
        its.kept = dict(reversed(its.kept.items()))
    mine, committed = json.loads(its.text()), json.loads(path.read_text(encoding="utf-8"))
    assert (mine, [*mine]) == (committed, [*committed])
    if name == "seeds":  # whose page counts the operators of the collection, which has more now
        judged = {key[0] for key in its.kept}
        monkeypatch.setattr(seeds, "OPERATORS", [x for x in seeds.OPERATORS if x in judged])
    beside, page = PAGES.get(name, (path.with_suffix(".md"), its.page))
    assert page is not None
    assert page(its.about, its.outcomes) == beside.read_text(encoding="utf-8")


def test_no_committed_result_names_a_folder_of_a_machine() -> None:
    texts = {
        path.name: path.read_text(encoding="utf-8") for path in RESULTS.iterdir() if path.suffix in (".json", ".md")
    }
    assert len(texts) > 10
    assert [name for name, text in texts.items() if "site-packages" in text or "/home/" in text] == []


def test_a_result_that_is_written_is_no_edit(tmp_path):
    def git(*command: str) -> str:
        done = subprocess.run(["git", *command], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    result, code = tmp_path / "benchmarks" / "results" / "x.md", tmp_path / "code.py"
    result.parent.mkdir(parents=True)
    result.write_text("")
    code.write_text("")
    git("init", "-q")
    git("add", ".")
    git("-c", "user.name=x", "-c", "user.email=x", "commit", "-qm", "x")
    first = git("rev-parse", "--short=10", "HEAD")
    assert campaign.commit_of_code(tmp_path) == first
    result.write_text("a result")
    assert commit(tmp_path) == first + "+"
    assert campaign.commit_of_code(tmp_path) == first
    code.write_text("an edit")
    assert campaign.commit_of_code(tmp_path) == first + "+"
    assert not campaign.is_of_this_tree(first, tmp_path)
    assert not campaign.is_of_this_tree(first + "+", tmp_path)
