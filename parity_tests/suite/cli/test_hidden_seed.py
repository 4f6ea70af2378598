"""`--hidden-seed`: whoever is rewarded for a verdict learns no seed from what a run prints and writes."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from parity_tests.harness.findings import Verdict
from parity_tests.harness.isolation.crash import Place, row_of
from parity_tests.harness.report.results import Row
from parity_tests.harness.specs.seeds import HiddenSeed, shown

from ._square import QUICK, WRONG, gradparity

pytestmark = pytest.mark.usefixtures("wide", "shrinking")

SEED = 123_456_789
FILES = ("--json", "r.json", "--markdown", "r.md", "--html", "r.html", "--junit", "r.xml", "--failures", "out")


def _written(tmp_path, monkeypatch, *seed: str) -> tuple[str, str]:
    """What a run with a failure prints, and all that its files hold."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(HiddenSeed, "drawn", classmethod(lambda cls: cls(SEED)))
    Path("square.py").write_text(WRONG)
    result = gradparity("check", "square.py", *QUICK, "-v", *FILES, *seed)
    assert result.exit_code == 1
    (arrays,) = tmp_path.glob("out/*.npz")
    with np.load(arrays) as file:
        facts = [str(x) for x in file.values() if x.dtype.kind == "U"]
    texts = [path.read_text() for path in (*map(Path, FILES[1:-2:2]), *tmp_path.glob("out/*.py"))]
    return result.output, "\n".join([*facts, *texts])


def test_it_is_shown_nowhere(tmp_path, monkeypatch):
    printed, files = _written(tmp_path, monkeypatch, "--hidden-seed")
    assert "a hidden seed" in printed
    assert str(SEED) not in printed + files
    assert json.loads(Path("r.json").read_text())["environment"]["seed"] is None


def test_another_one_is_shown(tmp_path, monkeypatch):
    printed, files = _written(tmp_path, monkeypatch, "--seed", str(SEED))
    assert f"seed {SEED}" in printed
    assert files.count(str(SEED)) >= 4


def test_a_failure_is_replayed_without_it(tmp_path, monkeypatch):
    _written(tmp_path, monkeypatch, "--hidden-seed")
    (arrays,) = tmp_path.glob("out/*.npz")
    result = gradparity("replay", str(arrays))
    assert result.exit_code == 1
    assert "a hidden seed" in result.output


def test_it_is_drawn_each_time():
    assert HiddenSeed.drawn() != HiddenSeed.drawn()


def test_both_options(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("square.py").write_text(WRONG)
    result = gradparity("check", "square.py", *QUICK, "--hidden-seed", "--seed", "3")
    assert (result.exit_code, result.stderr) == (2, "gradparity: --hidden-seed draws the seed; leave --seed out\n")


def test_other_processes_have_it_hidden():
    there = pickle.loads(pickle.dumps(HiddenSeed(SEED)))
    assert (int(there), shown(there), shown(SEED)) == (SEED, None, SEED)
    place = Place("all_axes_differ", "all_axes_differ (n=4)", "", {"n": 4}, there, generic=True, shrinking=False)
    row = row_of(Row("square", "f", "vjp", "float64", "cpu", Verdict.PASS, 0.0, 0), place, "crashed", "", None, "")
    assert row.failure is not None
    assert row.failure.seed is None
