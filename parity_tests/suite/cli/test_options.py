"""The options of the commands: which values are refused, in which words, and what is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from ._square import QUICK, RIGHT, WRONG, gradparity

pytestmark = pytest.mark.usefixtures("wide")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(
            ("--only", "vpj"), "unknown check 'vpj' (did you mean 'vjp'?); gradparity checks lists them", id="check"
        ),
        pytest.param(("--dtype", "float8"), "unknown dtype 'float8' (did you mean 'float", id="dtype"),
        pytest.param(("--candidate", "attn"), "unknown candidate 'attn'", id="candidate"),
        pytest.param(("--op", "atn"), "unknown op 'atn' (did you mean 'attn'?)", id="op"),
    ],
)
def test_an_option_s_value_that_is_not_known(options, message):
    result = gradparity("run", *options)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"gradparity: {message}")
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(("run", "--seed", "-1"), id="negative seed"),
        pytest.param(("run", "--seed", "one"), id="seed in words"),
        pytest.param(("run", "--tolerance", "1"), id="an option that there is not"),
        pytest.param(("judge",), id="a command that there is not"),
        pytest.param(("check",), id="no file"),
    ],
)
def test_usage_errors(args):
    result = gradparity(*args)
    assert result.exit_code == 2
    assert "Usage:" in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.skipif(torch.accelerator.is_available(), reason="for machines without a GPU")
@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("cuda", "sees no CUDA device"),
        ("mps", "sees no MPS device"),
        ("cdua", "has no such device (did you mean 'cuda'?)"),
        ("meta", "has no such device (did you mean 'mtia'?)"),
    ],
)
def test_a_device_that_is_asked_for_and_not_there(case, device, message):
    """Nothing of the case is run."""
    result = gradparity("check", case("print(1 / 0)\n"), "--device", "cpu", "--device", device)
    why = f"PyTorch {torch.__version__} {message}"
    assert result.exit_code == 2
    assert result.stderr == f"gradparity: device {device} cannot be judged here: {why}; available: cpu\n"
    assert result.stdout == ""


def test_json_into_a_folder_that_is_not_there(case, tmp_path):
    path = tmp_path / "nowhere" / "report.json"
    result = gradparity("check", case(RIGHT), "--json", str(path), *QUICK)
    assert result.exit_code == 2
    assert result.stderr == f"gradparity: --json {path}: there is no folder {path.parent}\n"
    assert result.stdout == ""


def test_a_folder_for_failures_that_is_a_file(case, tmp_path):
    """Nothing of the case is run, and the file stays."""
    file = tmp_path / "failures"
    file.write_text("mine")
    result = gradparity("check", case("print(1 / 0)\n"), "--failures", str(file))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"gradparity: --failures {file}: is no folder; give another name, or remove it\n"
    assert file.read_text() == "mine"


def test_json_that_is_a_folder(case, tmp_path):
    result = gradparity("check", case(RIGHT), "--device", "cpu", "--json", str(tmp_path), *QUICK)
    assert result.exit_code == 2, result.exception
    assert "Traceback" not in result.output
    assert result.stderr.startswith("gradparity: ")


@pytest.mark.parametrize(("text", "code"), [(RIGHT, 0), (WRONG, 1)], ids=["right", "wrong"])
def test_json_is_written_whatever_the_verdict(case, tmp_path, text, code):
    path = tmp_path / "report.json"
    result = gradparity("check", case(text), "--device", "cpu", "--json", str(path), *QUICK)
    assert result.exit_code == code
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data["passed"] is (code == 0)
    assert len(data["rows"]) == 2
    assert len(data["failures"]) == code


@pytest.mark.parametrize(
    ("text", "why"),
    [("import sys; sys.exit(0)\n", ", line 1: SystemExit: 0"), ("def (\n", ", line 1: SyntaxError: invalid syntax")],
)
def test_a_case_file_that_cannot_be_loaded_costs_its_own_rows(case, tmp_path, text, why):
    """A right file beside it is judged, and a run of broken files alone is refused in a line."""
    right, broken, path = case(RIGHT, "right.py"), case("", "broken.py"), tmp_path / "report.json"
    Path(broken).write_text(text)
    for files in ((broken, right), (right, broken)):
        result = gradparity("check", *files, "--device", "cpu", "--json", str(path), *QUICK)
        assert result.exit_code == 2, result.output
        assert "square, Square, vjp, float64, cpu: PASS" in result.stdout
        assert f"{broken}, not built: {broken}{why}\n" in result.stdout
        assert result.stdout.endswith(f"\n{broken} should have been judged\n")
        data = json.loads(path.read_text(encoding="utf-8"))
        assert (data["passed"], len(data["rows"])) == (False, 2)
        assert [(record["op"], record["verdict"]) for record in data["summary"]][-1] == (str(broken), "ERROR")
    result = gradparity("check", broken, "--device", "cpu", *QUICK)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"gradparity: {broken}{why}\n")


def test_several_case_files(case, tmp_path):
    other = case(RIGHT.replace('"square"', '"other"'), "other.py")
    result = gradparity("check", case(WRONG), other, "--device", "cpu", *QUICK)
    assert result.exit_code == 1
    assert "square, Square, vjp, float64, cpu: MISMATCH" in result.stdout
    assert "other, Square, vjp, float64, cpu: PASS" in result.stdout
    same = case(RIGHT, "same.py")
    wrong = case(WRONG)
    result = gradparity("check", wrong, same, "--device", "cpu", *QUICK)
    assert (result.exit_code, result.stdout) == (2, "")
    remedy = "rename one, or judge them apart"
    assert result.stderr == f"gradparity: 2 operators are named 'square' ({wrong}, {same}); {remedy}\n"
    result = gradparity("check", f"{same}:f", f"{same}:g", "--reference", f"{same}:h", "--inputs", "x: (n)")
    assert result.stderr == "gradparity: --reference is about one kernel, and there are 2; judge them one by one\n"
