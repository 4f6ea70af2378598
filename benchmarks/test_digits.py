"""The page of lost digits: its witness, what it says, and that it is the committed one."""

from __future__ import annotations

import re
from pathlib import Path

import jax
import numpy as np
import pytest
from mpmath.ctx_mp import MPContext
from typer.testing import CliRunner

from benchmarks import digits
from benchmarks.__main__ import app
from benchmarks.digits import FORMATS, FUNCTIONS, PAGE, Worst, page, places, rows
from parity_tests.harness.extended.problem import exact_values
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.numbers.numerics import pinned


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_programs_of_jax_are_the_functions_of_mpmath(name):
    """Two ways to the same digits: JAX's program in extended precision, and mpmath's own function."""
    f, mp = FUNCTIONS[name], MPContext()
    args = [x[7::61] for x in places(f, PRECISIONS["float32"])]
    with pinned():
        program = jax.make_jaxpr(jax.vmap(jax.value_and_grad(f.jax)))(*args)
        values = exact_values(program, args)
    with mp.workprec(digits.BITS):
        for exact, ours in zip((f.value, f.derivative), values, strict=True):
            theirs = [exact(mp, *map(mp.mpf, map(float, at))) for at in zip(*args, strict=True)]
            apart = [abs(mp.mpf(a) - b) / abs(b) for a, b in zip(ours, theirs, strict=True)]
            # sinc(x) is that of float64's π in JAX.
            assert max(apart) < (1e-13 if name == "sinc" else 1e-25)


def cells(text: str, function: str, what: str) -> list[str]:
    (line,) = (line for line in text.splitlines() if line.startswith(f"| {function} | {what} |"))
    return [cell.strip() for cell in line.split("|")[3:-1]]


def test_the_committed_page_has_every_row():
    text = PAGE.read_text(encoding="utf-8")
    for name in FUNCTIONS:
        for what in ("value", "derivative"):
            found = cells(text, name, what)
            assert len(found) == 2 * len(FORMATS)
            assert all(re.fullmatch(r"\d+|\*\*\d+ of (24|8)\*\* at \S+(, \S+)? \(\d+ forced\)", cell) for cell in found)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["expm1", "softplus"])
def test_the_committed_page_says_what_is_measured(name):
    text, committed = page(list(rows([name]))), PAGE.read_text(encoding="utf-8")
    measured, of_page = (re.findall(r"PyTorch \S+, JAX \S+,", of)[0] for of in (text, committed))
    if measured != of_page:
        pytest.skip(f"the page is of {of_page} installed are {measured.rstrip(',')}")
    for what in ("value", "derivative"):
        ours, theirs = ([cell.split(" at ")[0] for cell in cells(of, name, what)] for of in (text, committed))
        assert [cell for cell in ours if "*" in cell] == [cell for cell in theirs if "*" in cell]
    assert all("**" in cell for cell in cells(text, name, "derivative")) == (name == "expm1")


def test_the_worst_place_is_that_of_most_bits_besides_the_forced_ones():
    p, x = PRECISIONS["float32"], np.array([0.5, 1.0, 100.0])
    mp = MPContext()
    with mp.workprec(200):
        results = np.exp(x) * (1 + p.u * np.array([2.0, 80.0, 100.0]))
        found = digits.worst(mp, lambda mp, x: mp.exp(x), [x], results, p)
    assert found == Worst((1.0,), lost=6, forced=1, of=24, found=True)
    assert str(found) == "**6 of 24** at 1 (1 forced)"


@pytest.mark.slow
def test_the_command_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(digits, "rows", lambda: rows(["softplus"], ["bfloat16"]))
    ran = CliRunner().invoke(app, ["digits", "--out", str(tmp_path / "digits.md")])
    assert ran.exit_code == 0, ran.output
    assert "| softplus | derivative | 0 | " in (tmp_path / "digits.md").read_text(encoding="utf-8")
