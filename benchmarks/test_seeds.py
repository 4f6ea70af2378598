"""Right versions at many seeds: what is kept, what is judged again, and what the page says."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import pytest
from typer.testing import CliRunner

from benchmarks import seeds
from benchmarks.seeds import CASES, Judged, app, as_markdown, read, write

MACHINE = {"cpu": "a processor", "cores": 2, "load": [1.0]}
FACTS = {"machine": MACHINE, "versions": {"torch": "2"}, "date": "today", "seeds": 2}
RIGHT = Judged("tanh", 0, rows={"PASS": 99}, seconds=2.0)
ACCUSED = Judged("tanh", 1, rows={"PASS": 98, "MISMATCH": 1}, alarms=["MISMATCH vjp float16: wrong"], text="...")


def test_the_files(tmp_path: Path) -> None:
    path = tmp_path / "seeds.json"
    write(FACTS, [ACCUSED, RIGHT], path)
    assert read(path) == {("tanh", 0): RIGHT, ("tanh", 1): ACCUSED}
    page = path.with_suffix(".md").read_text()
    assert "| tanh | 0, 1 | 197 PASS, 1 MISMATCH | 2 | seed 1: MISMATCH vjp float16: wrong |" in page
    assert "1 alarms: tanh (seed 1)." in page
    assert sorted(file.name for file in tmp_path.iterdir()) == ["seeds.json", "seeds.md"]


def test_the_page_says_what_was_not_judged() -> None:
    others = [Judged(name, seed) for name in CASES if name != "tanh" for seed in (0, 1)]
    assert "Seeds are missing of: tanh.\n" in as_markdown(FACTS, [RIGHT, *others])
    every = [RIGHT, ACCUSED, *others]
    assert "Not complete" not in as_markdown(FACTS, every)


def test_a_run_that_is_resumed_judges_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "seeds.json"
    write(FACTS, [RIGHT], path)
    with mock.patch.object(seeds, "judged", lambda name, case, court, seed: Judged(name, seed)):
        result = CliRunner().invoke(app, ["tanh", "--seeds", "3", "--resume", "--out", str(path)])
    assert result.exit_code == 0, result.output
    assert "seed 0" not in result.output
    assert read(path)["tanh", 0] == RIGHT
    assert [seed for _, seed in read(path)] == [0, 1, 2]


def test_an_alarm_is_told_and_fails(tmp_path: Path) -> None:
    with mock.patch.object(seeds, "judged", return_value=ACCUSED):
        result = CliRunner().invoke(app, ["tanh", "--seeds", "1", "--out", str(tmp_path / "seeds.json")])
    assert result.exit_code == 1
    assert json.loads((tmp_path / "seeds.json").read_text())["judged"][0]["alarms"] == ACCUSED.alarms


def test_an_unknown_operator_is_refused() -> None:
    result = CliRunner().invoke(app, ["tahn"])
    assert result.exit_code == 2
    assert "unknown operator" in result.output


@pytest.mark.slow
def test_a_right_version_is_judged_in_all_its_formats() -> None:
    (found,) = seeds.judge_seeds("mean", [3])
    assert (found.operator, found.seed, found.alarms) == ("mean", 3, [])
    assert found.rows["PASS"] > 50
