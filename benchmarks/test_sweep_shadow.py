"""The harness beside the sweep: both find the same defect, and the page says why one alone accuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.campaign import RESULTS
from benchmarks.sweep_shadow import Outcome, campaign, disagreement, expected, judged, page

NUMBERS = "x_bar 1/1 entries wrong: 2.0, oracle 1.0"


def outcome(**mismatches: str) -> Outcome:
    return Outcome("", None, "", 1.0, {}, {name.replace("__", " "): text for name, text in mismatches.items()})


@pytest.mark.parametrize(
    ("which", "text", "sweep", "reason"),
    [
        ("vjp float64", NUMBERS, {"vjp float64": {"wrong in PyTorch"}}, None),
        ("vjp float64", NUMBERS, {"vjp float64": {"loses digits"}}, "the sweep says: loses digits"),
        ("vjp float64", "vjp raises RuntimeError", {}, "PyTorch raises an error"),
        ("vjp float64", "x_bar 1/1 entries wrong: 1.0000000000001, oracle 1.0", {}, "by the last digits"),
        ("forward float64", NUMBERS, {}, "the values differ"),
        ("vjp_of_vjp float64", NUMBERS, {"vjp float64": {"wrong in PyTorch"}}, "the map that is differentiated"),
        ("vjp float64", NUMBERS, {}, "another reason"),
    ],
)
def test_a_disagreement_has_a_reason(which: str, text: str, sweep: dict[str, set[str]], reason: str | None) -> None:
    found = disagreement(which, text, outcome(), sweep)
    assert found is None if reason is None else found is not None and found.startswith(reason)


def test_a_page_counts_both_sides() -> None:
    outcomes = {"f": outcome(vjp__float64=NUMBERS, jvp__float64=NUMBERS), "g": outcome()}
    sweep = {"f": {"vjp float64": {"wrong in both"}}, "g": {"jvp float64": {"wrong in PyTorch"}}}
    text = page(outcomes, sweep)
    assert "Both accuse PyTorch of 1 maps" in text
    assert "| another reason | 1 | `f` jvp float64 |" in text
    assert "`g` jvp float64." in text


@pytest.mark.slow
def test_the_harness_finds_a_defect_that_the_sweep_finds() -> None:
    found = judged("ldexp.Tensor")
    assert disagreement("vjp float64", found.mismatches["vjp float64"], found, expected()["ldexp.Tensor"]) is None


def test_the_page_is_that_of_the_results() -> None:
    path: Path = RESULTS / "sweep_shadow.json"
    assert path.with_suffix(".md").read_text(encoding="utf-8") == page(campaign(path).outcomes, expected())
