"""0: all agree; 1: a candidate disagrees; 2: something could not be judged, or told; 130: interrupted. Nothing else."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from parity_tests.catalog import operators
from parity_tests.catalog.names import IMPLEMENTATIONS
from parity_tests.cli.terminal import Output, OutputLost
from parity_tests.harness import checks, names
from parity_tests.harness.exceptions.defects import one_line_description
from parity_tests.harness.numbers import formats
from parity_tests.suite.marks import fast

from ._program import FEW, RIGHT, ROOT, WRONG, case, command, environment, here, program

HERE = (*FEW, "--no-isolate")


# A question about options is answered before PyTorch and JAX are imported, but for devices, which PyTorch knows.

ANSWERS = """
import sys
from parity_tests.cli.app import app
questions = [
    ["--help"], ["run", "--help"], ["check", "--help"], ["mutate", "--help"], ["--version"], [],
    ["run", "--op", "atn"], ["run", "--candidate", "atn"], ["run", "--only", "vpj"], ["run", "--dtype", "float8"],
    ["run", "-j", "0"], ["run", "-j", "2", "--no-isolate"], ["run", "--seed", "one"],
    ["run", "--budget", "nan"], ["run", "--budget", "-1"], ["run", "--trial-timeout", "nan"],
    ["check"], ["check", "nothing.py"], ["check", "."], ["check", "nothing.txt"], ["mutate", "x.py", "--only", "vpj"],
    ["run", "--json", "nowhere/report.json"], ["run", "--json", sys.argv[1]], ["judge"],
]
for question in questions:
    try:
        app(question)
    except SystemExit as end:
        assert end.code == (0 if "--help" in question or question == ["--version"] else 2), (question, end.code)
    slow = {"torch", "jax", "numpy", "scipy"} & sys.modules.keys()
    assert not slow, (question, slow)
"""


@pytest.mark.slow
def test_a_question_about_options_imports_nothing_slow() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", ANSWERS, __file__], env=environment(), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert sum(line.startswith("gradparity: ") for line in ran.stderr.splitlines()) == 12
    assert "Traceback" not in ran.stderr


TELLS = """
import sys
from parity_tests.cli.app import app
if __name__ == "__main__":
    try:
        app(["check", "case.py", *sys.argv[1:]])
    except SystemExit as end:
        assert end.code == 1, end.code
    slow = {"torch", "jax", "scipy"} & sys.modules.keys()
    assert not slow, slow
"""


def test_what_tells_of_a_run_imports_nothing_slow() -> None:
    code = "import sys, parity_tests.cli.session; print({'torch', 'jax', 'scipy'} & sys.modules.keys())"
    ran = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False)
    assert ran.stdout == "set()\n", ran.stderr


@pytest.mark.slow
def test_nor_does_a_run_that_other_processes_judge(tmp_path: Path) -> None:
    """PyTorch and JAX are imported once, by the process that judges; the page has what each check catches."""
    case(tmp_path, WRONG)
    script = tmp_path / "tells.py"
    script.write_text(TELLS)
    options = [*FEW, "--json", "report.json", "--html", "report.html"]
    ran = subprocess.run(
        [sys.executable, str(script), *options], env=environment(), cwd=tmp_path, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert checks.CHECKS["forward"].catches[:20] in (tmp_path / "report.html").read_text()
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["environment"]["torch"]
    assert 0 < report["seconds"]["starting"] < report["seconds"]["total"]


def test_the_names_are_those_of_what_they_stand_for() -> None:
    assert {name: check.maps for name, check in checks.CHECKS.items()} == names.MAPS
    assert tuple(checks.CHECKS) == names.CHECKS
    assert tuple(formats.FORMATS) == names.FORMATS
    assert {op: operators.names(op) for op in operators.SPECS} == IMPLEMENTATIONS


# Output that cannot be written.


class _Broken:
    """A stream that nobody reads any more, or on a disk that is full."""

    def __init__(self, error: type[OSError]) -> None:
        self._error = error

    def write(self, text: str) -> int:
        raise self._error("no")

    def flush(self) -> None:
        pass


@pytest.mark.parametrize("error", [OSError, BrokenPipeError])
def test_output_that_is_lost_is_an_error_of_its_own(error: type[OSError]) -> None:
    """Rich would exit with 1 where a pipe is broken."""
    with pytest.raises(OutputLost, match="standard output cannot be written"):
        Output(file=_Broken(error)).show("text")


def test_a_run_whose_output_is_lost_writes_its_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(self: Output, *parts: object, **options: object) -> None:
        raise OutputLost("standard output cannot be written: no")

    monkeypatch.setattr(Output, "show", lost)
    report = tmp_path / "report.json"
    result = here("check", case(tmp_path, RIGHT), *HERE, "--json", report)
    assert result.exit_code == 2
    assert result.stderr == "gradparity: standard output cannot be written: no\n"
    assert '"error": "standard output cannot be written: no"' in report.read_text()


def test_a_replay_that_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("parity_tests.cli.commands.replay.shown", interrupted)
    monkeypatch.setattr("parity_tests.cli.case_file.load_spec", interrupted)
    for arguments in (("replay", "failure.npz"), ("mutate", case(tmp_path, RIGHT))):
        result = here(*arguments)
        assert (result.exit_code, result.stderr) == (130, "gradparity: interrupted\n")


# A defect of the program itself.


def test_an_exception_is_told_in_a_line_and_its_traceback_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    try:
        raise KeyError("lost\nwith a second line")
    except KeyError as error:
        printed = one_line_description(error)
    assert printed.startswith("KeyError: 'lost\\nwith a second line' (at test_exit_codes.py:")
    assert "\n" not in printed
    (file,) = tmp_path.iterdir()
    assert printed.endswith(f"; its traceback: {file}")
    assert 'raise KeyError("lost' in file.read_text()


def test_a_traceback_that_cannot_be_kept_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    try:
        raise KeyError("lost")
    except KeyError as error:
        printed = one_line_description(error)
    assert "\n" not in printed
    assert 'raise KeyError("lost")' in printed


def test_an_exception_that_the_environment_makes_has_a_remedy_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    printed = one_line_description(OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
    assert printed == "this run needs more open files than it may have; raise the limit, such as by: ulimit -n 1024"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("isolate", [(), ("--no-isolate",)], ids=["isolated", "here"])
@pytest.mark.parametrize(
    ("variable", "value", "remedy"),
    [
        ("JAX_PLATFORMS", "tpu", "set it to platforms that are here, such as cpu or cuda,cpu (RuntimeError: "),
        ("TORCH_LOGS", "nonsense", "set it to logs that PyTorch has, such as recompiles (ValueError: "),
    ],
    ids=["platforms", "logs"],
)
def test_a_variable_that_a_framework_refuses(
    tmp_path: Path, variable: str, value: str, remedy: str, isolate: Sequence[str]
) -> None:
    ran = program(tmp_path, "check", case(tmp_path, RIGHT), *FEW, *isolate, **{variable: value})
    assert (ran.returncode, ran.stderr) == (2, "")
    assert f"Could not judge: {variable}={value} is refused; unset it, or {remedy}" in ran.stdout
    assert "traceback" not in ran.stdout


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="other systems have no such limit")
def test_too_few_open_files(tmp_path: Path) -> None:
    limited = ["sh", "-c", 'ulimit -n 8; exec "$@"', "sh", *command("check", case(tmp_path, RIGHT), *FEW)]
    ran = subprocess.run(limited, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("gradparity: this run needs more open files than it may have; raise the limit")
    assert ran.stderr.count("\n") == 1


def test_a_defect_in_a_run_is_exit_code_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def defect(*_: object) -> Iterator[object]:
        raise AttributeError("a defect")
        yield

    monkeypatch.setattr("parity_tests.harness.judging.judge.judge", defect)
    result = here("check", case(tmp_path, WRONG), *HERE)
    assert result.exit_code == 2
    assert "Could not judge: AttributeError: a defect (at test_exit_codes.py:" in result.stdout
    assert "Traceback" not in result.output


DEFECT = """
import parity_tests.cli.app
from parity_tests.__main__ import main

def defect(*_): raise AttributeError("a defect")

parity_tests.cli.app.Options.checked = defect
main()
"""


def test_a_defect_before_a_run_is_exit_code_2(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", DEFECT, "run"],
        env=environment(TMPDIR=str(tmp_path)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2
    (line,) = ran.stderr.splitlines()
    assert line.startswith("gradparity: this is a defect of gradparity: AttributeError: a defect (at <string>:5); ")
    assert ran.stdout == ""


@fast("--help-*", "--version-closed")
@pytest.mark.parametrize("redirected", [">&-", "> /dev/full", "| true"], ids=["closed", "full", "nobody reads"])
@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["--version"]], ids=" ".join)
def test_help_that_nobody_can_read(arguments: list[str], redirected: str) -> None:
    """Not 1, which says that a candidate disagrees, and not 120, which is Python's own."""
    shell = f"exec {' '.join(command(*arguments))}"
    shell = f"set -o pipefail; ({shell}) | true" if redirected == "| true" else f"{shell} {redirected}"
    ran = subprocess.run(
        ["bash", "-c", shell], cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True, check=False
    )
    assert ran.returncode == 2, ran.stderr
    assert "Traceback" not in ran.stderr
    assert all(line.startswith("gradparity: ") for line in ran.stderr.splitlines())


@pytest.mark.slow
def test_a_judgement_that_nobody_can_read(tmp_path: Path) -> None:
    """Of a right candidate; its report is written."""
    arguments = ("check", case(tmp_path, RIGHT), *FEW, "--json", tmp_path / "report.json")
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            command(*arguments), env=environment(), cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert ran.returncode == 2
    assert ran.stderr == "gradparity: standard output cannot be written: No space left on device\n"
    assert '"error": "standard output cannot be written: No space left on device"' in Path(arguments[-1]).read_text()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param(RIGHT, 0, id="0", marks=pytest.mark.soak),
        pytest.param(WRONG, 1, id="1", marks=pytest.mark.slow),
        pytest.param(RIGHT + "1 / 0", 2, id="2", marks=pytest.mark.soak),
    ],
)
def test_as_a_program(tmp_path: Path, text: str, code: int) -> None:
    """That a program ends with 0 and with 2 is a slow test of cli/test_budget.py, too."""
    ran = program(tmp_path, "check", case(tmp_path, text), *FEW)
    assert ran.returncode == code, ran.stderr
    assert ran.stderr == (
        "" if code < 2 else f"gradparity: {tmp_path}/case.py, line 12: ZeroDivisionError: division by zero\n"
    )
    assert os.listdir(tmp_path) == ["case.py"] if code != 1 else True


_ENDS = """
import os
from parity_tests.__main__ import _no_silent_end
with _no_silent_end():
    if os.fork() == 0:
        os._exit(0)
    _, status = os.wait()
    print(status, flush=True)
    os._exit({code})
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="one of the processes is forked")
@pytest.mark.parametrize(("code", "told"), [(0, 2), (3, 3)])
def test_a_process_that_a_case_ends_does_not_end_well(code: int, told: int) -> None:
    """But one that it has forked does: `os.wait` prints 0."""
    ran = subprocess.run([sys.executable, "-c", _ENDS.format(code=code)], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (told, "0\n"), ran.stderr
    assert ("before there was a verdict" in ran.stderr) == (code == 0)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["import os; os._exit(0)", "import sys; sys.exit(0)", "raise ValueError(7)"])
@pytest.mark.parametrize("command", [("captures", "ends:C"), ("captures", "ends.py:C"), ("mutate", "ends.py")], ids=str)
def test_a_case_that_ends_while_it_is_loaded(tmp_path: Path, command: tuple[str, ...], text: str) -> None:
    (tmp_path / "ends.py").write_text(text)
    ran = program(tmp_path, *command)
    assert ran.returncode == 2, ran.stderr
    assert ran.stderr.count("\n") == 1
    assert "defect" not in ran.stderr
