"""The last page, walked as it is written: its commands, on the file that it shows, in an empty folder."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from parity_tests.cli.app import app
from parity_tests.suite.derivation import _pages
from parity_tests.suite.marks import fast

PAGE = _pages.text("your_own.md")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
(FILE,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "OpSpec(" in block]

MISTAKES = {  # those that the page names, and the check that shows each first
    "no cosine": ("p = torch.cos(x @ w + b) * z_bar", "p = z_bar", "vjp"),
    "a mean": ("p.sum(0)", "p.mean(0)", "vjp"),
    "a saved cosine": ("", "", "jvp_of_vjp"),
}


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def _command(line: str, *more: str) -> Result:
    program, *arguments = shlex.split(line)
    assert program == "gradparity"
    return CliRunner().invoke(
        app, [*arguments, *more, "--device", "cpu", "--no-isolate"] if arguments[0] == "check" else arguments
    )


def test_the_commands() -> None:
    assert COMMANDS == [
        "gradparity new sin_layer.py",
        "gradparity check sin_layer.py --quick --only forward,vjp,jvp",
        "gradparity check sin_layer.py",
    ]


@pytest.mark.slow
def test_the_walk() -> None:
    new, quick, _ = COMMANDS
    assert _command(new).exit_code == 0
    Path("sin_layer.py").write_text(FILE, encoding="utf-8")
    result = _command(quick)
    assert result.exit_code == 0, result.output
    assert "All agree" in result.stdout


@pytest.mark.slow
def test_all_of_it() -> None:
    Path("sin_layer.py").write_text(FILE, encoding="utf-8")
    result = _command(COMMANDS[-1])
    assert result.exit_code == 0, result.output


@fast("no cosine")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_mistakes(mistake: str) -> None:
    old, new, check = MISTAKES[mistake]
    text = FILE.replace(old, new) if old else _with_a_saved_cosine()
    assert text != FILE
    Path("sin_layer.py").write_text(text, encoding="utf-8")
    result = _command(COMMANDS[-1], "--quick", "--dtype", "float64", "--only", check)
    assert result.exit_code == 1, result.output
    assert "the oracle is right" in result.stdout


def test_the_saved_cosine_is_right_at_first_order() -> None:
    Path("sin_layer.py").write_text(_with_a_saved_cosine(), encoding="utf-8")
    result = _command(COMMANDS[-1], "--quick", "--dtype", "float64", "--only", "vjp")
    assert result.exit_code == 0, result.output


def _with_a_saved_cosine() -> str:
    kept = "        SinLayer.slope = torch.cos(x @ w + b)\n        return torch.sin"
    text = FILE.replace("        return torch.sin", kept)
    return text.replace("p = torch.cos(x @ w + b) * z_bar", "p = SinLayer.slope * z_bar")
