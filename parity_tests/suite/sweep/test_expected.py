"""The expected discrepancies that CI holds the sweep against."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import torch

from parity_tests.sweep.changes import read_lines
from parity_tests.sweep.lines import MODES, THIRD_ORDER, Line, Verdict
from torch_impl.derivatives import entries

FILE = Path(__file__).parent / "expected" / "torch-2.13-jax-0.10.json"
SECTIONS = FILE.parent / "found.json"  # of docs/found.md, by operator and mode
FOUND = Path(__file__).parents[3] / "docs" / "found.md"
ACCUSED = {
    Verdict.WRONG_IN_PYTORCH: {"PyTorch"},
    Verdict.WRONG_IN_JAX: {"JAX"},
    Verdict.WRONG_IN_BOTH: {"PyTorch", "JAX"},
}
Sections = Mapping[str, Mapping[str, Sequence[int]]]


def accused_in(page: str) -> dict[int, set[str]]:
    """The frameworks that each row of the table of what was found is of."""
    rows = re.findall(r"^\| \[(\d+)\]\([^)]*\) \| (?:[1-4] \| )?([^|]*) \|", page, re.MULTILINE)
    return {
        int(number): set(re.findall(r"\b(PyTorch|JAX)(?=[ (:,])", of.partition(":")[0] + ":")) for number, of in rows
    }


def unconfirmed(lines: Sequence[Line], sections: Sections, accused: Mapping[int, set[str]]) -> list[str]:
    """The lines that accuse somebody whom no section accuses in that mode; and what is of no such line.

    Args:
        lines: the expected verdicts.
        sections: the numbers of the sections, by operator and mode.
        accused: the frameworks that each section accuses.
    """
    wrong = [line for line in lines if line.verdict.is_wrong]
    missing = [
        " ".join(line.key)
        for line in wrong
        if not ACCUSED[line.verdict]
        <= {who for number in sections.get(line.operator, {}).get(line.mode, ()) for who in accused.get(number, ())}
    ]
    keys = {(line.operator, line.mode) for line in wrong}
    stale = [f"{name} {mode}" for name, modes in sections.items() for mode in modes if (name, mode) not in keys]
    unknown = [str(n) for modes in sections.values() for of in modes.values() for n in of if n not in accused]
    return missing + stale + unknown


def test_the_expected_verdicts_are_of_derivatives_that_there_are():
    lines, has_all = read_lines(FILE)
    assert not has_all
    assert len({line.key for line in lines}) == len(lines)
    assert set(MODES) <= {line.mode for line in lines} <= {*MODES, THIRD_ORDER}
    assert {line.dtype for line in lines} == {"float64", "complex128"}


def test_the_expected_verdicts_are_of_entries_of_their_pytorch():
    of = ".".join(json.loads(FILE.read_text(encoding="utf-8"))["versions"]["torch"].split(".")[:2])
    if not torch.__version__.startswith(f"{of}."):
        pytest.skip(f"they are of PyTorch {of}")
    assert {line.operator for line in read_lines(FILE)[0]} <= {entry.name for entry in entries()}


def test_what_is_expected_has_no_verdict_that_agrees_and_none_that_nobody_can_decide():
    count = Counter(line.verdict for line in read_lines(FILE)[0])
    assert not count[Verdict.AGREES] + count[Verdict.UNDECIDED]


def test_each_accusation_is_confirmed_by_a_section_whose_witness_ci_runs():
    found = json.loads(SECTIONS.read_text(encoding="utf-8"))
    accused = accused_in(FOUND.read_text(encoding="utf-8"))
    assert unconfirmed(read_lines(FILE)[0], found["of"], accused) == []


def test_each_entry_is_found_by_the_sweep_or_says_why_not():
    """Every entry about PyTorch or JAX: as wrong, as another line that is no agreement, or with the reason."""
    found = json.loads(SECTIONS.read_text(encoding="utf-8"))
    lines = {" ".join(line.key): line.verdict for line in read_lines(FILE)[0]}
    wrong = {number for modes in found["of"].values() for numbers in modes.values() for number in numbers}
    told, elsewhere = {int(n) for n in found["told"]}, [n for of in found["elsewhere"].values() for n in of]
    every = {number for number, frameworks in accused_in(FOUND.read_text(encoding="utf-8")).items() if frameworks}
    assert wrong | told | set(elsewhere) == every
    assert len(wrong) + len(told) + len(elsewhere) == len(every)
    verdicts = {lines[line] for line in found["told"].values()}
    assert verdicts <= {Verdict.LOSES_DIGITS, Verdict.OVERFLOWS, Verdict.CONVENTION}


def test_an_accusation_without_a_section_is_told():
    line = Line("tanh", "vjp", "self", "float64", Verdict.WRONG_IN_PYTORCH)
    accused = accused_in("| [7](found/x.md#7-y) | PyTorch: y | z |\n| [8](found/x.md#8-y) | PyTorch, JAX: y | z |\n")
    assert accused == {7: {"PyTorch"}, 8: {"PyTorch", "JAX"}}
    assert unconfirmed([line], {"tanh": {"vjp": [7]}}, accused) == []
    assert unconfirmed([line], {}, accused) == ["tanh vjp self float64"]
    assert unconfirmed([line], {"tanh": {"vjp": [7], "jvp": [8]}}, accused) == ["tanh jvp"]
    assert unconfirmed([line], {"tanh": {"vjp": [7, 9]}}, accused) == ["9"]
    of_both = Line("tanh", "vjp", "self", "float64", Verdict.WRONG_IN_BOTH)
    assert unconfirmed([of_both], {"tanh": {"vjp": [7]}}, accused) == ["tanh vjp self float64"]
    assert unconfirmed([of_both], {"tanh": {"vjp": [8]}}, accused) == []
