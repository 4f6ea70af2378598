"""The command line: what it prints, what it refuses, and its exit codes."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from parity_tests.catalog import attn
from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.checks import CHECKS

from ._square import QUICK, RIGHT, SPEC, WRONG, gradparity

pytestmark = pytest.mark.usefixtures("wide")
ROOT = Path(__file__).parents[3]


# run


@pytest.mark.skipif(torch.cuda.is_available(), reason="pins the line that says what is skipped without a GPU")
def test_run():
    built = [c for c in map(attn.candidate, attn.NAMES) if not isinstance(c, NotBuilt)]  # compiled here, not below
    result = gradparity("run", "--only", "forward", "--dtype", "float64")
    assert result.exit_code == 0, result.output
    assert "composite" in result.stdout
    assert "function" in result.stdout
    assert len(re.findall(r"^attn, \w+, forward, float64, cpu: PASS ", result.stdout, re.MULTILINE)) == len(built)
    assert result.stdout.count("PASS") == 2 * len(built)  # a line for each, and the table
    assert "skipped: device cuda: PyTorch" in result.stdout
    only = "values only: no derivative was asked for"
    assert re.search(rf"^All agree: {len(built)} rows, [\d,]+ comparisons; {only}$", result.stdout, re.MULTILINE)
    assert result.stderr == ""


@pytest.mark.slow
def test_run_of_one_implementation():
    result = gradparity("run", "--candidate", "attn_function", "--device", "cpu", *QUICK)
    assert result.exit_code == 0, result.output
    assert "attn_composite" not in result.stdout
    assert "skipped" not in result.stdout


def test_run_of_another_operator():
    options = ("--candidate", "attention_composite", "--device", "cpu", "--only", "forward", "--dtype", "float64")
    result = gradparity("run", "--op", "attention_head", *options)
    assert result.exit_code == 0, result.output
    assert "attention_head" in result.stdout
    assert "attn_composite" not in result.stdout


# check


def test_a_device_that_is_named_twice_is_judged_once(case):
    options = ("--device", "cpu", "--device", "cpu", "--only", "forward", "--dtype", "float64")
    result = gradparity("check", case(RIGHT), *options)
    assert result.exit_code == 0, result.output
    assert "was not asked for" not in result.output
    assert result.stdout.count("forward, float64, cpu: PASS") == 1


@pytest.mark.slow
def test_check_of_a_right_function(case):
    result = gradparity("check", case(RIGHT), "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert "has no setup_context staticmethod" in result.stdout  # the limits that it declares
    assert "known limits" in result.stdout


def test_check_of_a_wrong_function_explains(case):
    path = case(WRONG)
    result = gradparity("check", path, "--device", "cpu", "--seed", "3", *QUICK)
    assert result.exit_code == 1
    assert "square: Square disagrees with the oracle   [vjp, all_axes_differ (n=4, m=3), float64, cpu, seed 3]" in (
        result.stdout
    )
    assert "looks like  x_bar = 0.5 * oracle" in result.stdout
    assert "-> the oracle is right" in result.stdout
    assert result.stdout.rstrip().splitlines()[-1].startswith("1 of 2 rows do not pass, ")


def replay_line(output: str) -> str:
    (line,) = re.findall(r"^  replay  (.*)$", output, re.MULTILINE)
    return line


@pytest.mark.parametrize("name", ["case.py", "my case.py"], ids=["plain name", "name with a space"])
def test_the_replay_line_reproduces_a_failure_that_is_not_shrunk(case, name):
    first = gradparity("check", case(WRONG, name), "--device", "cpu", "--only", "vjp", "--seed", "3")
    command, *args = shlex.split(replay_line(first.stdout))
    assert command == "gradparity"
    again = gradparity(*args)
    assert again.exit_code == 1, again.output
    told = re.compile(r"square: Square disagrees.*?(?=  also|  replay)", re.DOTALL)
    assert told.findall(again.stdout) == told.findall(first.stdout) != []


def test_only_takes_several_checks(case):
    for only in (("--only", "vjp, forward"), ("--only", "vjp", "--only", "forward")):
        result = gradparity("check", case(RIGHT), "--device", "cpu", "--dtype", "float64", *only)
        assert result.exit_code == 0, result.output
        assert re.findall(r"^│ (\w+) ", result.stdout, re.MULTILINE) == ["forward", "vjp"]


@pytest.mark.slow
def test_a_quick_run(case, tmp_path):
    path = tmp_path / "report.json"
    result = gradparity("check", case(RIGHT), "--device", "cpu", "--quick", "--json", str(path))
    assert result.exit_code == 0, result.output
    judged = [row for row in json.loads(path.read_text())["rows"] if row["candidate"] != "oracle"]
    assert {row["dtype"] for row in judged} == {"float64", "bfloat16"}
    costly = {name for name, check in CHECKS.items() if check.costly}
    assert costly
    left_out = [name for name, check in CHECKS.items() if check.costly or check.on_request]
    assert {row["check"] for row in judged} == CHECKS.keys() - set(left_out)
    told = f"quick run: float64 and bfloat16 only, few samples; not run: {', '.join(sorted(costly))}"
    assert f"{told}\n" in result.stdout
    assert result.stdout.count("quick run: ") == 1


def test_what_is_asked_for_is_in_a_quick_run_too(case):
    options = ("--device", "cpu", "--quick", "--only", "determinism", "--dtype", "float32")
    result = gradparity("check", case(RIGHT), *options)
    assert result.exit_code == 0, result.output
    assert re.search(r"│ determinism +│ +│ PASS", result.stdout)


@pytest.mark.slow
def test_a_quick_run_finds_a_mistake_and_repeats_it(case):
    result = gradparity("check", case(WRONG), "--device", "cpu", "--quick")
    assert result.exit_code == 1
    assert replay_line(result.stdout).endswith(" --only vjp --dtype float64 --device cpu --seed 0 --quick")


def test_the_costs_are_told(case):
    result = gradparity("check", case(RIGHT), "--device", "cpu", "-v", *QUICK)
    """All of them: what comes before the first row, too."""
    (line,) = re.findall(r"^\d+\.\d s: starting .*", result.stdout, re.MULTILINE)
    total, *parts = map(float, re.findall(r"(\d+\.\d) s", line))
    assert sum(parts) == pytest.approx(total, abs=0.06 * len(parts))  # each is rounded
    for part in ("loading", "the oracle's certificates", "vjp"):
        assert re.search(rf", {part} \d+\.\d s", line), line


def test_several_candidates(case):
    text = RIGHT.replace("candidate = Square.apply", 'candidates = {"mine": Square.apply, "plain": torch.square}')
    result = gradparity("check", case(text), "--device", "cpu", *QUICK)
    assert result.exit_code == 0, result.output
    assert "mine" in result.stdout
    assert "plain" in result.stdout
    as_list = RIGHT.replace("candidate = Square.apply", "candidates = [Square.apply, torch.square]")
    assert "Square" in gradparity("check", case(as_list), "--device", "cpu", *QUICK).stdout


def test_candidates_of_one_name_in_a_list_are_all_judged(case, tmp_path):
    """The second must not take the place of the first."""
    report = tmp_path / "report.json"
    candidates = "candidates = [lambda x: 3 * x * x, lambda x: x * x, torch.square]"
    text = RIGHT.replace("candidate = Square.apply", candidates)
    result = gradparity("check", case(text), "--device", "cpu", *QUICK, "--json", str(report))
    assert result.exit_code == 1, result.output
    verdicts = {row["candidate"]: row["verdict"] for row in json.loads(report.read_text())["rows"]}
    assert verdicts == {"oracle": "PASS", "lambda": "MISMATCH", "lambda#2": "PASS", "square": "PASS"}


def test_limits_of_a_case(case):
    lifted = case(RIGHT + 'limits = {"vjp": "not yet"}\n')
    result = gradparity("check", lifted, "--device", "cpu", *QUICK)
    assert result.exit_code == 1
    assert "listed as a limit (not yet), but it passes: unlist it" in result.stdout


def test_a_case_may_import_its_neighbours(case):
    case("from torch import square as candidate\n", "neighbour.py")
    result = gradparity("check", case(SPEC + "from neighbour import candidate\n"), "--device", "cpu", *QUICK)
    sys.modules.pop("neighbour", None)
    assert result.exit_code == 0, result.output


def test_a_dataclass_in_a_case(case):
    """dataclasses looks its module up in sys.modules."""
    text = "from __future__ import annotations\nimport dataclasses\n" + RIGHT
    text += "\n@dataclasses.dataclass\nclass Options:\n    scale: float = 1.0\n"
    result = gradparity("check", case(text), "--device", "cpu", *QUICK)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("spec = (\n", r", line 1: SyntaxError: '\(' was never closed", id="syntax error"),
        pytest.param("import torch\n1 / 0\n", ", line 2: ZeroDivisionError: division by zero", id="it raises"),
        pytest.param("import nowhere\n", ", line 1: ModuleNotFoundError: No module named 'nowhere'", id="import"),
        pytest.param(
            "candidate = abs\n",
            r": `spec` is missing; define spec = OpSpec\(name, primal=..., signature=...\)",
            id="no spec",
        ),
        pytest.param(
            "spec = 3\ncandidate = abs\n",
            r": `spec` is a int; define spec = OpSpec\(name, primal=..., signature=...\)",
            id="another spec",
        ),
        pytest.param(
            SPEC,
            r": neither is defined; define `candidate` \(a callable on tensors\) or `candidates` \(several\)",
            id="no candidate",
        ),
        pytest.param(
            RIGHT + "candidates = [torch.square]\n",
            r": both are defined; define `candidate` \(a callable on tensors\) or `candidates` \(several\)",
            id="candidate and candidates",
        ),
        pytest.param(SPEC + "candidates = []\n", ": no candidate is given, so nothing would be judged", id="empty"),
        pytest.param(
            SPEC + "candidate = 3\n", ": candidate 'int' must be callable on tensors, got int", id="not callable"
        ),
        pytest.param(
            RIGHT + 'limits = {"vpj": "no"}\n',
            r": unknown check 'vpj' \(did you mean 'vjp'\?\); gradparity checks lists them",
            id="limits",
        ),
        pytest.param(
            RIGHT + 'arithmetic = {"square": "float32"}\n',
            ": arithmetic must be one Arithmetic, of every candidate; give each its own: candidates = ",
            id="arithmetic",
        ),
        pytest.param(
            SPEC.replace("(n,m)->(n,m)", "(n,m)"),
            r", line 5: ValueError: signature '\(n,m\)' is not a gufunc signature",
            id="malformed signature",
        ),
        pytest.param(
            RIGHT + 'raise RuntimeError("x[n] and [/] are told as they are")\n',
            r", line 19: RuntimeError: x\[n\] and \[/\] are told as they are",
            id="brackets in the message",
        ),
    ],
)
def test_a_case_that_cannot_be_used(case, text, message):
    path = case(text)
    result = gradparity("check", path)
    assert result.exit_code == 2, result.output
    assert re.match(f"gradparity: {re.escape(path)}{message}", result.stderr), result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


def test_a_file_that_is_not_there(tmp_path):
    result = gradparity("check", str(tmp_path / "nothing.py"))
    assert result.exit_code == 2
    assert result.stderr == f"gradparity: {tmp_path}/nothing.py: no such file\n"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("kernels/norms.py", "no such file (did you mean 'norm.py'?)"),
        ("kernles/norm.py", "no such file: there is no folder {}/kernles (did you mean 'kernels'?)"),
        ("kernels/ops/more/norm.py", "no such file: there is no folder {}/kernels/ops"),
        ("kernels/norm.py/more.py", "no such file"),
    ],
)
@pytest.mark.parametrize("command", ["check {}", "check {}:f --reference {}:g --inputs x:(n)"])
def test_a_file_whose_name_is_like_another(tmp_path: Path, command: str, path: str, why: str) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "norm.py").touch()
    result = gradparity(*(argument.format(tmp_path / path) for argument in command.split()))
    assert (result.exit_code, result.stderr) == (2, f"gradparity: {tmp_path / path}: {why.format(tmp_path)}\n")


@pytest.mark.parametrize(
    "command", ["check {}", "check {}:f --reference {}:g --inputs x:(n)", "replay {}", "mutate {}", "captures {}:f"]
)
def test_what_is_there_and_is_no_file(tmp_path, command):
    """It exists: that there is no such file would send somebody looking for it."""
    path = tmp_path / "fifo.py"
    os.mkfifo(path)
    result = gradparity(*(argument.format(path) for argument in command.split()))
    assert result.exit_code == 2
    assert result.stderr.startswith(f"gradparity: {path}: is not a regular file; give one")


def test_a_file_that_is_not_python(case):
    path = case("spec", "case.txt")
    result = gradparity("check", path)
    assert result.exit_code == 2
    assert result.stderr == f"gradparity: {path}: not a Python file; its name must end in .py\n"


def test_a_function_of_a_file_without_its_reference(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text("def f(x):\n    return x\n")
    result = gradparity("check", f"{path}:f")
    assert result.exit_code == 2
    assert f"{path}:f: one function of a file needs its reference and inputs: --reference FILE.py:NAME" in result.stderr


def test_an_oracle_that_cannot_judge(case, tmp_path):
    text = RIGHT.replace("lambda x: x * x, sig", "lambda x: x.nope, sig")
    report = tmp_path / "report.json"
    result = gradparity("check", case(text), "--device", "cpu", "--json", str(report), *QUICK)
    assert result.exit_code == 2
    assert "Could not judge: square: primal fails on inputs of shapes (4, 3): AttributeError" in result.stdout
    data = json.loads(report.read_text(encoding="utf-8"))
    assert data["passed"] is False
    assert data["error"].startswith("square: primal fails on inputs of shapes (4, 3)")


# The rest.


def test_checks_lists_every_check_with_what_it_catches():
    result = gradparity("checks")
    assert result.exit_code == 0
    for check in CHECKS.values():
        assert f"│ {check.name} " in result.stdout
        assert check.catches[:40] in result.stdout


def test_doctor():
    result = gradparity("doctor")
    assert result.exit_code == 0
    for what in ("Python", "JAX", "PyTorch", "judge on cpu", "judge on cuda", "JAX precision", "PyTorch precision"):
        assert f"│ {what} " in result.stdout
    assert torch.__version__ in result.stdout


def test_version():
    result = gradparity("--version")
    assert result.exit_code == 0
    assert result.stdout.startswith("gradparity")
    assert len(result.stdout.splitlines()) == 1


@pytest.mark.parametrize("args", [("--help",), ("run", "--help"), ("check", "--help")], ids=" ".join)
def test_help(args):
    result = gradparity(*args)
    assert result.exit_code == 0
    assert "Usage:" in result.stdout


@pytest.mark.slow
def test_as_a_program(case, tmp_path):
    """With nothing but a pipe for a terminal, and from another folder."""
    options = ("--device", "cpu", "--failures", str(tmp_path / "failures"), *QUICK)
    result = subprocess.run(
        [sys.executable, "-m", "gradparity", "check", case(WRONG), *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=120,
    )
    assert result.returncode == 1, result.stderr
    assert "looks like  x_bar = 0.5 * oracle" in result.stdout
    assert "Traceback" not in result.stderr
