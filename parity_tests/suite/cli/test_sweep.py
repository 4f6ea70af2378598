"""`gradparity sweep` and `gradparity merge`: what they print, write and return."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from parity_tests.cli.app import app
from parity_tests.cli.commands.sweep import SweepOptions, sweep
from parity_tests.cli.interruption import Interruption
from parity_tests.cli.report_files import report_files
from parity_tests.suite.faults._program import environment
from parity_tests.suite.sweep import _judges
from parity_tests.sweep.guard import Limits
from parity_tests.sweep.lines import Finding, Line, Verdict
from parity_tests.sweep.operators import named, operators
from parity_tests.sweep.results_file import Header, ResultsFile, read_results

FEW = ("--mode", "vjp", "--dtype", "float64")
HEADER = Header.of(["vjp"], ["float64"], Limits())
FINDING = Finding("x = [0.]", (0,), "1.0", "2.0", "2.0", "differences")


def gradparity(*args: object) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(arg) for arg in args], catch_exceptions=False)


def results(path: Path, part: str = "", **verdicts: Verdict) -> Path:
    """A file of results, as of a run."""
    with ResultsFile(path, HEADER.of_part(part, len(verdicts))) as file:
        for operator, verdict in verdicts.items():
            found = None if verdict in (Verdict.AGREES, Verdict.UNREACHED) else FINDING
            file.append(operator, [Line(operator, "vjp", "self", "float64", verdict, finding=found)])
    return path


def swept(path: Path, *args: object) -> Result:
    """What the command says of a sweep whose operators are all judged already."""
    pytest.importorskip("pebble", reason="needs pebble: pip install 'gradparity[sweep]'")
    return gradparity("sweep", *read_results(path).lines, *FEW, "--resume", path, *args)


def test_operators_are_judged_and_written_to_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pebble", reason="needs pebble: pip install 'gradparity[sweep]'")
    table, page, file = tmp_path / "table.json", tmp_path / "table.html", tmp_path / "a.jsonl"
    files = report_files(table, page)
    options = SweepOptions(
        names=("tanh", "sum.dim_IntList"),
        modes=("vjp",),
        third_order_of_norms=False,
        dtypes=("float64",),
        file=file,
        json=files.json,
        html=files.html,
        judge=f"{_judges.HERE}:agrees",
    )
    assert sweep(options, Interruption()) == 0
    output = capsys.readouterr().out
    assert "tanh: 1 agrees" in output
    assert "2 operators, 2 derivatives" in output
    assert [line["operator"] for line in json.loads(table.read_text())["lines"]] == ["sum.dim_IntList", "tanh"]
    assert page.read_text().startswith("<!doctype html>")
    again = swept(file)
    assert "2 of 2 operators are in" in again.output


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        (Verdict.CONVENTION, 0),
        (Verdict.UNREACHED, 0),
        (Verdict.LOSES_DIGITS, 1),
        (Verdict.UNDECIDED, 1),
        (Verdict.WRONG_IN_PYTORCH, 1),
    ],
)
def test_the_exit_code_says_whether_there_is_a_disagreement(tmp_path: Path, verdict: Verdict, code: int) -> None:
    ran = swept(results(tmp_path / "a.jsonl", sin=Verdict.AGREES, cos=verdict))
    assert ran.exit_code == code, ran.output
    told = f"cos, vjp of self, float64: {verdict}\n  at x = [0.], [0]: PyTorch 1.0, JAX 2.0, right 2.0 (differences)"
    assert (told in ran.output) == bool(code)


def test_a_sweep_that_has_compared_nothing_does_not_pass(tmp_path: Path) -> None:
    assert swept(results(tmp_path / "a.jsonl", sin=Verdict.UNREACHED)).exit_code == 2


def test_discrepancies_that_are_expected_pass_and_others_do_not(tmp_path: Path) -> None:
    wrong, file = Verdict.WRONG_IN_PYTORCH, tmp_path / "expected.json"
    old = results(tmp_path / "a.jsonl", sin=Verdict.AGREES, cos=wrong, tan=Verdict.CONVENTION, exp=wrong)
    assert swept(old, "--save-expected", file).exit_code == 1
    ran = swept(old, "--expected", file)
    assert (ran.exit_code, "as expected" in ran.output) == (0, True)
    assert "seconds" not in file.read_text()
    # The operator "exp" is not judged this time, and is not missed.
    new = results(tmp_path / "b.jsonl", sin=wrong, cos=Verdict.AGREES, tan=wrong)
    ran = swept(new, "--expected", file)
    assert ran.exit_code == 1
    assert ran.output.splitlines()[-4:] == [
        "vanished  cos, vjp of self, float64: wrong in PyTorch",
        "new       sin, vjp of self, float64: wrong in PyTorch",
        "changed   tan, vjp of self, float64: convention -> wrong in PyTorch",
        "3 verdicts differ",
    ]


def test_two_sweeps_are_compared(tmp_path: Path) -> None:
    one = results(tmp_path / "a.jsonl", sin=Verdict.AGREES, cos=Verdict.AGREES)
    two = results(tmp_path / "b.jsonl", sin=Verdict.UNDECIDED, tan=Verdict.AGREES)
    table = tmp_path / "a.json"
    swept(one, "--json", table)
    same = gradparity("sweep", "--compare", table, one)
    assert (same.exit_code, same.output) == (0, "nothing differs\n")
    for path in (one, table):
        ran = gradparity("sweep", "--compare", path, two)
        assert ran.exit_code == 1
        assert [line.split()[:2] for line in ran.output.splitlines()[:-1]] == [
            ["vanished", "cos,"],
            ["changed", "sin,"],
            ["new", "tan,"],
        ]
    other = tmp_path / "other.json"
    other.write_text("[]")
    told = gradparity("sweep", "--compare", one, other)
    assert (told.exit_code, "other.json has no results of a sweep" in told.output) == (2, True)


def test_shards_are_merged(tmp_path: Path) -> None:
    one = results(tmp_path / "1", "1/2", sin=Verdict.AGREES)
    two = results(tmp_path / "2", "2/2", cos=Verdict.AGREES)
    alone = gradparity("merge", one, "-o", tmp_path / "half")
    assert (alone.exit_code, "Not whole: --shard 2/2 of the sweep is not among the files" in alone.output) == (2, True)
    ran = gradparity("merge", one, two, "-o", tmp_path / "all")
    assert ran.exit_code == 0, ran.output
    assert set(read_results(tmp_path / "all").lines) == {"sin", "cos"}
    other = results(tmp_path / "3", cos=Verdict.UNDECIDED)
    told = gradparity("merge", one, two, other, "-o", tmp_path / "none")
    assert told.exit_code == 2
    assert "differ on cos" in told.output
    assert not (tmp_path / "none").exists()
    precious = tmp_path / "precious.py"
    precious.write_text("x = 1\n")
    for command in (("merge", one, two, "-o", precious), ("sweep", "sin", *FEW, "--save-expected", precious)):
        refused = gradparity(*command)
        assert (refused.exit_code, "already exists and is not a report" in refused.output) == (2, True)
        assert precious.read_text() == "x = 1\n"


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["tanhh"], "there is tanh"),
        (["acosh_"], "PyTorch has no derivative formula of acosh_"),
        (["tanh", "--mode", "vpj"], "unknown mode 'vpj' (did you mean 'vjp'?)"),
        (["--shard", "3/2"], "--shard 3/2: write 1/4"),
        (["tanh", "--expected", "missing.json"], "missing.json"),
        (["tanh", "--html", "no/such/folder.html"], "there is no folder"),
    ],
)
def test_what_cannot_be_done_is_told(args: list[str], text: str) -> None:
    told = gradparity("sweep", *args)
    assert told.exit_code == 2
    assert text in " ".join(told.output.split())


def test_a_file_of_an_earlier_sweep_is_not_written_to_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gradparity-sweep.jsonl").write_text("precious")
    told = gradparity("sweep")
    assert (told.exit_code, "go on with it by --resume" in told.output) == (2, True)
    assert (tmp_path / "gradparity-sweep.jsonl").read_text() == "precious"


NAMES = ("sin", "cos", "tan", "exp", "log", "tanh", "sinh", "cosh", "asin", "acos")
PROGRAM = f"""
import signal
import sys
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell has started in the background ignores it
from parity_tests.cli.commands.sweep import SweepOptions, sweep
from parity_tests.cli.interruption import Interruption
if __name__ == "__main__":
    interruption = Interruption()
    interruption.install()
    options = SweepOptions(
        {NAMES}, ("vjp",), False, ("float64",), file=Path(sys.argv[1]), judge="{_judges.HERE}:slow"
    )
    sys.exit(sweep(options, interruption))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl_c", "killed"])
def test_a_run_that_is_stopped_or_killed_goes_on_and_nothing_is_judged_twice(tmp_path: Path, number: int) -> None:
    pytest.importorskip("pebble", reason="needs pebble: pip install 'gradparity[sweep]'")
    script, notes, file = tmp_path / "program.py", tmp_path / "notes", tmp_path / "a.jsonl"
    script.write_text(PROGRAM)
    notes.mkdir()
    command = [sys.executable, str(script), str(file)]

    def start(most: int) -> subprocess.Popen[str]:
        env = environment(GRADPARITY_NOTES=str(notes), GRADPARITY_MOST=str(most), PYTHONPATH=os.pathsep.join(sys.path))
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.Popen(command, cwd=tmp_path, env=env, text=True, start_new_session=True, **pipes)

    first = start(6)
    while not file.exists() or file.read_text().count("\n") < 4:
        assert first.poll() is None, first.communicate()[0]
        time.sleep(0.05)
    first.send_signal(number)
    output = first.communicate(timeout=60)[0]
    done = set(read_results(file).lines)
    assert 3 <= len(done) < len(NAMES)
    if number == signal.SIGINT:
        assert first.returncode == 130
        assert f"go on with: gradparity sweep {' '.join(NAMES)} --mode vjp --dtype float64 --resume {file}" in output
    time.sleep(2)  # for the child of a run that was killed, which ends by itself
    asked = {name: (notes / name).read_text() for name in done}
    second = start(len(NAMES))
    output = second.communicate(timeout=120)[0]
    assert second.returncode == 0, output
    assert set(read_results(file).lines) == {*NAMES}
    assert {name: (notes / name).read_text() for name in done} == asked == dict.fromkeys(done, "asked\n")


def test_every_formula_of_pytorch_s_own_is_swept() -> None:
    names = operators()
    assert len(names) == len({*names})
    assert {"tanh", "sum.dim_IntList", "_linalg_svd"} < {*names}
    assert not {"acosh_", "expand_copy"} & {*names}
    assert {name for name in names if name.partition(".")[0] == "sum"} == {*named("sum")} > {"sum"}
