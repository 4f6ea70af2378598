"""Names and messages that would drive a terminal, end a docstring or be too long for a file: they are data."""

from __future__ import annotations

import ast
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Group
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner

from parity_tests.cli.app import app
from parity_tests.cli.terminal import Output
from parity_tests.harness.report.printable import PrintableConsole, in_a_line, printable
from parity_tests.harness.report.report import Report
from parity_tests.suite.faults._program import here
from parity_tests.suite.faults._run import Ran, check
from parity_tests.suite.marks import fast

CLEARS = "\x1b[2J\x1b]0;title\x07"  # the screen, and sets the window's title
NAMES = [
    pytest.param(CLEARS, id="escape sequence"),
    pytest.param("a\0b", id="null byte"),
    pytest.param("\x9b31m", id="one-byte escape"),
    pytest.param("ab\u202etxt", id="text that runs backwards"),
    pytest.param("a\nb", id="two lines"),
    pytest.param("[red]bold[/]", id="markup"),
    pytest.param('a"""b\\', id="quotes"),
    pytest.param("../../etc/x", id="path"),
    pytest.param("n" * 400, id="400 characters"),
    pytest.param("größe ✓", id="Unicode"),
    pytest.param("<script>", id="HTML"),
]
OBEYED = [chr(c) for c in (*range(9), *range(11, 32), 127, *range(128, 160), 0x202E, 0xD800)]


def named(folder: Path, name: str, *options: str) -> Ran:
    """A wrong candidate and an operator, both of this name."""
    text = f"spec = OpSpec({name!r}, primal=jnp.sin, signature='(n)->(n)', output_names=({name!r},))\n"
    return check(folder, text + f"candidates = {{{name!r}: torch.cos}}\n", *options)


@fast("escape sequence", "null byte", "Unicode")
@pytest.mark.usefixtures("shrinking")
@pytest.mark.parametrize("name", NAMES)
def test_a_verdict_on_whatever_name(tmp_path, name):
    page = tmp_path / "report.html"
    ran = named(tmp_path, name, "--html", str(page))
    assert ran.code == 1
    assert not [c for c in OBEYED if c in ran.printed]
    assert "Traceback" not in ran.printed
    assert ran.report is not None
    assert ran.report["failures"][0]["op"] == name
    assert "<script>alert" not in page.read_text("utf-8")
    (script,) = (tmp_path / "failures").glob("*.py")
    assert len(script.name) < 200
    assert script.name.isascii()
    assert script.parent == tmp_path / "failures"
    docstring = ast.get_docstring(ast.parse(script.read_text("utf-8")))
    assert docstring is not None
    assert "JAX disagree   [forward, n=1, float64, cpu]" in docstring


@pytest.mark.usefixtures("shrinking")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param('x"); raise SystemExit("it was run', marks=pytest.mark.slow),
        *(pytest.param(name, marks=pytest.mark.soak) for name in ('a"""b\\', "\x1b[2J", "größe ✓")),
    ],
)
def test_its_reproducer_runs(tmp_path, name):
    """The script shows the same, and what a name says is not run."""
    named(tmp_path, name)
    (script,) = (tmp_path / "failures").glob("*.py")
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=False)
    assert "it was run" not in ran.stderr
    assert ran.returncode == 1, ran.stderr
    assert "Traceback" not in ran.stderr


def test_the_page_has_no_markup_of_a_name(tmp_path):
    name = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    page = tmp_path / "report.html"
    assert named(tmp_path, name, "--html", str(page)).code == 1
    assert "<script>alert" not in page.read_text("utf-8")
    assert "<img src=x" not in page.read_text("utf-8")


def test_the_message_of_an_exception(tmp_path):
    text = f"spec = OpSpec('op', jnp.sin, '(n)->(n)')\ndef candidate(x):\n    raise RuntimeError({CLEARS!r})\n"
    ran = check(tmp_path, text)
    assert ran.code == 1
    assert "raises RuntimeError: \\x1b[2J\\x1b]0;title" in ran.printed
    assert "\x1b" not in ran.printed


def test_the_message_of_a_case_that_cannot_be_loaded(tmp_path):
    ran = check(tmp_path, f"raise RuntimeError({CLEARS!r})\n")
    assert ran.code == 2
    assert "RuntimeError: \\x1b[2J\\x1b]0;title" in ran.printed
    assert "\x1b" not in ran.printed


def test_half_a_character_is_no_name(tmp_path):
    ran = named(tmp_path, "\ud800")
    assert ran.code == 2
    assert ran.printed.endswith(
        "OpSpec: name '\\ud800' has half a character (a lone surrogate), which no file can hold\n"
    )
    ran = check(tmp_path, "spec = OpSpec('op', jnp.sin, '(n)->(n)')\ncandidates = {'\\ud800': torch.sin}\n")
    assert ran.code == 2
    assert "candidate '\\ud800' has half a character" in ran.printed


def test_half_a_character_in_a_message(tmp_path):
    text = "spec = OpSpec('op', jnp.sin, '(n)->(n)')\ndef candidate(x):\n    raise RuntimeError('\\ud800')\n"
    ran = check(tmp_path, text)
    assert ran.code == 1
    assert "raises RuntimeError: \\ud800" in ran.printed
    assert ran.report is not None
    assert "raises RuntimeError: \ud800" in ran.report["failures"][0]["wrong"][0]["pattern"]


def test_a_report_as_text():
    assert "\\x1b[2J\\x1b]0;title" in str(Report({}, error=CLEARS))
    assert "\x1b" not in str(Report({}, error=CLEARS))


def test_styles_still_reach_a_terminal():
    file = io.StringIO()
    console = PrintableConsole(file=file, force_terminal=True, color_system="standard", width=80)
    console.print(Text("a\x1b[2Jb", style="red"))
    assert file.getvalue() == "\x1b[31ma\\x1b[2Jb\x1b[0m\n"


def test_a_terminal_without_unicode():
    """As in a container without a locale: nothing raises, and a reader can tell what was meant."""
    raw = io.BytesIO()
    console = PrintableConsole(file=io.TextIOWrapper(raw, encoding="ascii"), width=80)
    grid = Table("größe", min_width=60)
    grid.add_row("⟨vjp, p⟩ ✓")
    console.print(grid, "⟨vjp, p⟩ ✓", "\ud800")
    console.file.flush()
    assert b"gr\\xf6\\xdf" in raw.getvalue()
    assert b"\\u27e8vjp, p\\u27e9 \\u2713" in raw.getvalue()


@pytest.mark.parametrize(("columns", "width"), [("0", 80), ("1", 20), ("19", 20), ("21", 21), ("200", 200), ("x", 80)])
def test_a_terminal_has_a_least_width(monkeypatch: pytest.MonkeyPatch, columns: str, width: int) -> None:
    """Of none at all rich shows nothing, as if there were nothing to say."""
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("LINES", "10")
    monkeypatch.setenv("TERM", "xterm")
    file = io.StringIO()
    console = PrintableConsole(file=file, force_terminal=False)
    assert console.width == console.options.max_width
    console.print("All agree", soft_wrap=True)
    console.print(Table("check", "mine"))
    assert "All agree" in file.getvalue()
    assert "check" in file.getvalue()
    if columns != "x":
        assert console.width == width


def test_a_long_line_on_a_terminal_is_broken_at_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on with an indent; numbers, and commands to be copied, stay whole. A log has it in one line."""
    monkeypatch.setenv("TERM", "xterm")
    line = Text("  smallest  x_bar (0, 0): candidate -754.5171234567, oracle -0.295001")
    command = Text("  replay  gradparity replay gradparity-failures/some_operator-vjp.npz")
    written = {}
    for terminal in (True, False):
        file = io.StringIO()
        console = Output(file=file, force_terminal=terminal, color_system=None, width=40)
        console.show(Group(line, command), soft_wrap=True, highlight=False)
        written[terminal] = file.getvalue()
    assert written[False] == f"{line}\n{command}\n"
    lines = written[True].splitlines()
    assert max(map(len, lines[:-1])) <= 40
    assert [each[: len(each) - len(each.lstrip())] for each in lines[1:-1]] == [" " * 6] * (len(lines) - 2)
    assert " ".join(written[True].split()) == " ".join(written[False].split())
    assert lines[-1] == str(command)


@pytest.mark.slow
def test_a_run_in_an_ascii_locale(tmp_path):
    name = "größe"
    case = tmp_path / f"{name}.py"
    head = "import torch, jax.numpy as jnp\nfrom parity_tests import OpSpec\n"
    text = f"spec = OpSpec('{name}', jnp.sin, '(n)->(n)')\ncandidates = {{'{name}': torch.cos}}\n"
    case.write_text(head + text, encoding="utf-8")
    ascii_only = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "parity_tests", "check", str(case), "--only", "forward", "--dtype", "float64"]
    report, failures = tmp_path / "report.json", tmp_path / "failures"
    ran = subprocess.run(
        [*command, "--json", str(report), "--failures", str(failures)],
        capture_output=True,
        timeout=300,
        env=os.environ | ascii_only,
        check=False,
    )
    assert ran.returncode == 1, ran.stderr
    assert ran.stdout.isascii()
    assert b"gr\\xf6\\xdfe disagrees with the oracle" in ran.stdout
    assert b"Traceback" not in ran.stderr
    assert json.loads(report.read_text("utf-8"))["failures"][0]["op"] == name


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, größe, ∂x/∂t\n\tin lines", "plain, größe, ∂x/∂t\n\tin lines"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\0\x7f\x9b", "\\x00\\x7f\\x9b"),
        ("\u202e\u2066\ud800", "\\u202e\\u2066\\ud800"),
    ],
)
def test_what_is_printable_stays(text, shown):
    assert printable(text) == shown
    assert printable(shown) == shown
    assert in_a_line("a\nb\r\nc") == "a b c"


def test_options_that_name_what_does_not_exist():
    """The nearest name, and not thirty others."""
    ran = CliRunner().invoke(app, ["check", "case.py", "--only", "vpj"], env={"COLUMNS": "300"})
    assert ran.exit_code == 2
    assert ran.stderr == "gradparity: unknown check 'vpj' (did you mean 'vjp'?); gradparity checks lists them\n"


def test_the_help_of_op_names_operators_that_exist():
    told = CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "300", "TERM": "dumb"}).stdout
    for name in ("attn", "attn_float32", "attention_head", "attention_grouped", "attention_unbatched"):
        assert name in told
        assert (
            CliRunner()
            .invoke(app, ["run", "--op", name, "--only", "no"])
            .stderr.startswith("gradparity: unknown check")
        )


def test_a_quick_run_of_some_checks_does_not_list_the_others(tmp_path):
    ran = check(tmp_path, "spec = OpSpec('op', jnp.sin, '(n)->(n)')\ncandidate = torch.sin\n", "--quick")
    assert ran.code == 0
    assert "quick run: float64 only, few samples\n" in ran.printed


INPUTS = ["file", "facts", "arr_0", "allow_pickle", "self", "args", "data", "torch", "output", "output_bar", "x_bar"]


@fast("file", "self", "output_bar")
@pytest.mark.usefixtures("shrinking")
@pytest.mark.parametrize("name", INPUTS)
def test_an_input_of_whatever_name(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its failure is written, and can be judged again."""
    monkeypatch.chdir(tmp_path)
    text = f"spec = OpSpec('op', lambda {name}, x: jnp.sin({name}) * x, '(n),(n)->(n)')\n"
    ran = check(tmp_path, f"{text}candidate = lambda a, b: torch.cos(a) * b\n")
    assert ran.code == 1
    assert "not explained" not in ran.printed
    (path,) = (tmp_path / "failures").glob("*.npz")
    again = here("replay", path)
    assert again.exit_code == 1, again.output
    assert "output" not in name or "result  1/1 entries wrong" in again.output
    (script,) = (tmp_path / "failures").glob("*.py")
    ast.parse(script.read_text("utf-8"))
