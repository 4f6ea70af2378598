"""Right and wrong versions at many seeds: what is kept, what is judged again, and what the page says."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import pytest
from typer.testing import CliRunner

from benchmarks import seeds
from benchmarks.seeds import OPERATORS, Judged, app, as_markdown, campaign, mistakes_of, versions_of
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.judging.certified import Oracles

MACHINE = {"cpu": "a processor", "cores": 2, "load": [1.0]}
FACTS = {"machine": MACHINE, "versions": {"torch": "2"}, "date": "today", "seeds": 2}
RIGHT = Judged("tanh", 0, rows={"PASS": 99}, seconds=2.0)
ACCUSED = Judged("tanh", 1, rows={"PASS": 98, "MISMATCH": 1}, alarms=["MISMATCH vjp float16: wrong"], text="...")
MISSED = Judged(
    "tanh", 0, *list(mistakes_of("tanh"))[:1], is_mistake=True, rows={"PASS": 1}, alarms=["PASS vjp float64"]
)


def write(found: list[Judged], path: Path) -> None:
    its = campaign(path)
    its.about = FACTS
    its.keep(its.keyed(found), lambda *_: None)


def test_the_files(tmp_path: Path) -> None:
    path = tmp_path / "seeds.json"
    write([MISSED, ACCUSED, RIGHT], path)
    assert list(campaign(path).kept.values()) == [RIGHT, ACCUSED, MISSED]
    page = path.with_suffix(".md").read_text()
    assert "| tanh | right | 0, 1 | 197 PASS, 1 MISMATCH | 2 | seed 1: MISMATCH vjp float16: wrong |" in page
    assert "1 alarms: tanh, right (seed 1)." in page
    assert "| tanh | 1 | 0 | 0 of 1 | 0 |" in page
    assert f"1 of them not caught: tanh, {MISSED.version} (seed 0)." in page
    assert sorted(file.name for file in tmp_path.iterdir()) == ["seeds.json", "seeds.md"]


def test_the_page_says_what_was_not_judged() -> None:
    every = [Judged(name, seed, version) for name in OPERATORS for version in versions_of(name) for seed in (0, 1)]
    assert "Not complete" not in as_markdown(FACTS, every)
    without = [one for one in every if one.key != RIGHT.key]
    assert "Seeds are missing of: tanh.\n" in as_markdown(FACTS, without)


@pytest.mark.slow
def test_what_is_judged_again_and_what_stays(tmp_path: Path) -> None:
    path, other = tmp_path / "seeds.json", Judged("softplus", 0)

    def judged_again(*options: str) -> dict[seeds.Key, Judged]:
        write([RIGHT, MISSED, other], path)
        with (
            mock.patch.object(seeds, "judged", lambda name, version, oracles, seed: Judged(name, seed, version)),
            mock.patch.object(seeds, "Oracles"),
        ):
            result = CliRunner().invoke(app, ["tanh", *options, "--out", str(path)])
        kept = campaign(path).kept
        assert result.exit_code == int(kept[MISSED.key] == MISSED), result.output
        assert kept.pop(other.key) == other
        assert set(kept) == {("tanh", version, seed) for version in versions_of("tanh") for seed in (0, 1)}
        return kept

    resumed, anew = judged_again("--seeds", "2", "--resume"), judged_again("--seeds", "2")
    assert [resumed[one.key] == one for one in (RIGHT, MISSED)] == [True, True]
    assert [anew[one.key] == one for one in (RIGHT, MISSED)] == [False, False]


@pytest.mark.slow
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
def test_a_mistake_that_is_not_caught_is_an_alarm() -> None:
    case = seeds.CASES["mean"]
    (name, mistake), *_ = case.mistakes.items()
    (caught,) = seeds.judge_seeds("mean", [(name, 3)])
    assert (caught.is_mistake, caught.alarms, set(caught.rows)) == (True, [], {"MISMATCH"})
    assert callable(case.right)
    right, oracles = Candidate(case.right, name), Oracles(case.spec, "cpu", 3)
    missed = seeds.judged_candidate("mean", name, right, mistake, oracles, 3)
    assert (missed.is_mistake, bool(missed.alarms), set(missed.rows)) == (True, True, {"PASS"})


@pytest.mark.parametrize(
    ("operator", "version"),
    [
        pytest.param("mean", "right", marks=pytest.mark.slow),
        pytest.param("attn", "attn_composite", marks=pytest.mark.soak),
    ],
)
def test_a_right_version_is_judged_in_all_its_formats(operator: str, version: str) -> None:
    (found,) = seeds.judge_seeds(operator, [(version, 3)])
    assert (found.key, found.alarms) == ((operator, version, 3), [])
    assert found.rows["PASS"] > 50
