"""`-j`: several processes find what one finds, and leave nobody behind."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner, Result

from parity_tests.cli.app import app
from parity_tests.cli.run_spec import RunSpec
from parity_tests.cli.sources.catalog import CatalogOperator
from parity_tests.harness.findings import Verdict
from parity_tests.harness.isolation import processes
from parity_tests.harness.isolation.guard import _in_order, _Task
from parity_tests.harness.isolation.processes import _interruptions_held_back, cores
from parity_tests.harness.report.results import ORACLE, Row

CASE = """\
import os
import time

import torch
from parity_tests import OpSpec

spec = OpSpec("square", primal=lambda x: x * x, signature="(n,m)->(n,m)")


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, output_bar):
        (x,) = ctx.saved_tensors
        return 3 * x * output_bar


def right(x):
    return x * x


def wrong(x):
    return Square.apply(x)


def no_empty_axes(x):
    if x.numel() == 0:
        raise ValueError("nothing to square")
    return x * x


def threads(x):
    raise RuntimeError(" ".join(os.environ[f"{name}_NUM_THREADS"] for name in ("OMP", "MKL", "OPENBLAS")))


def dies(x):
    os._exit(7)


def hangs(x):
    time.sleep(600)


candidates = CANDIDATES
"""
ENVIRONMENT = os.environ | {"COLUMNS": "200", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def _case(folder: Path, candidates: str) -> Path:
    path = folder / "case.py"
    path.write_text(CASE.replace("CANDIDATES", candidates), encoding="utf-8")
    return path


def _check(case: Path, jobs: int, *options: str) -> Result:
    few = ("--only", "forward,vjp", "--dtype", "float64", "--device", "cpu")
    return CliRunner().invoke(app, ["check", str(case), "-j", str(jobs), *few, *options])


@pytest.mark.parametrize("jobs", ["0", "-1"])
@pytest.mark.parametrize("command", [["run"], ["check", "case.py"]], ids=["run", "check"])
def test_nobody_to_judge(command: list[str], jobs: str) -> None:
    result = CliRunner().invoke(app, [*command, f"-j{jobs}"])
    assert result.exit_code == 2
    assert result.output == f"gradparity: -j {jobs}: give at least 1 process\n"


def _row(candidate: str, check: str, device: str = "cpu") -> Row:
    return Row("op", candidate, check, "float64", device, Verdict.PASS, 0.0, 1)


@pytest.mark.parametrize(("jobs", "candidates", "started"), [(4, 1, 1), (4, 3, 3), (2, 6, 2), (1, 1, 1)])
def test_no_process_is_started_for_which_there_is_no_candidate(
    monkeypatch: pytest.MonkeyPatch, jobs: int, candidates: int, started: int
) -> None:
    begun = []

    def worker(threads: int | None, trace: Path) -> SimpleNamespace:
        begun.append(trace)
        ready = SimpleNamespace(poll=lambda timeout: True)
        process = SimpleNamespace(join=lambda: None, is_alive=lambda: True)
        return SimpleNamespace(connection=ready, ready=False, kill=lambda: None, process=process)

    monkeypatch.setattr(processes, "Worker", worker)
    with processes.Pool(jobs) as pool:
        pool.start(candidates)
        pool.prepare()
        assert len(begun) == started
        for count in range(1, jobs + 1):  # who takes more has more
            pool.take()
            assert len(begun) == max(started, count)


def test_the_order_of_rows_is_that_of_one_process() -> None:
    def order(position: int, device: str) -> RunSpec:
        return RunSpec(CatalogOperator("attn", ()), position, device, (), (), 0, 0.0, False, Path())

    orders = [order(position, device) for device in ("cpu", "cuda") for position in (0, 1)]
    found = [
        [_row("a", "forward"), _row("a", "vjp")],
        [_row(ORACLE, "vjp"), _row("b", "forward")],  # the second was faster, so the oracle's rows are its own
        [_row(ORACLE, "vjp", "cuda"), _row("a", "forward", "cuda")],
        [_row("b", "forward", "cuda")],
    ]
    tasks = [
        _Task(order, rows={(row.candidate, row.check, row.dtype): row for row in rows})
        for order, rows in zip(orders, found, strict=True)
    ]
    told = [(row.candidate, row.check, row.device) for row in _in_order(tasks)]
    assert told == [
        (ORACLE, "vjp", "cpu"), ("a", "forward", "cpu"), ("a", "vjp", "cpu"), ("b", "forward", "cpu"),
        (ORACLE, "vjp", "cuda"), ("a", "forward", "cuda"), ("b", "forward", "cuda"),
    ]  # fmt: skip


def _plain(path: Path) -> dict:
    report = json.loads(path.read_text(encoding="utf-8"))
    del report["environment"]["date"], report["seconds"]
    for row in report["rows"]:
        del row["seconds"]
    return report


@pytest.mark.slow
def test_two_processes_find_what_one_finds(tmp_path: Path, shrinking: None) -> None:
    """Rows, failures with their reproducers, what was skipped, and the exit code."""
    case, folder = _case(tmp_path, "[right, wrong, no_empty_axes]"), str(tmp_path / "failures")
    options = ("--failures", folder, "--json")
    one, two = (_check(case, jobs, *options, str(tmp_path / f"{jobs}.json")) for jobs in (1, 2))
    assert one.exit_code == two.exit_code == 1
    report = _plain(tmp_path / "1.json")
    assert _plain(tmp_path / "2.json") == report
    assert [failure["candidate"] for failure in report["failures"]] == ["wrong"]
    assert Path(report["failures"][0]["script"]).exists()
    assert any("refuses an empty axis" in line for line in report["skipped"])

    def told(result: Result) -> tuple[list[str], str]:
        """The rows come in another order, and take another time."""
        rows, _, rest = re.sub(r"\d+\.\d s\b.*", "", result.output).partition("\n\n")
        return sorted(rows.splitlines()), rest

    assert told(two) == told(one)


@pytest.mark.slow
def test_the_suite_by_two_processes(tmp_path: Path) -> None:
    """Of every framework an implementation. How many formats there are is nothing to the processes."""
    few = ["--quick", "--only", "forward,vjp", "--dtype", "float64", "--failures", str(tmp_path), "--device", "cpu"]
    few += [f"--candidate={name}" for name in ("attn_composite", "attn_native", "engine_formula")]
    for jobs in ("1", "2"):
        result = CliRunner().invoke(app, ["run", *few, "-j", jobs, "--json", str(tmp_path / f"{jobs}.json")])
        assert result.exit_code == 0, result.output
    assert _plain(tmp_path / "2.json") == _plain(tmp_path / "1.json")


class _LivesOn:
    """A process that has closed its descriptors, also the pipe by which its end is told, and lives on."""

    pid = None
    exitcode = -signal.SIGKILL
    alive = True

    def start(self) -> None:
        pass

    def is_alive(self) -> bool:
        return self.alive

    def join(self, timeout: float | None = None) -> None:
        assert not self.alive, "this would wait for ever"

    def kill(self) -> None:
        self.alive = False


@pytest.mark.parametrize("sends", [None, b"", b"no pickle", b"\x80\x05"], ids=["nothing", "empty", "text", "half"])
def test_a_process_that_lives_on_without_a_connection_is_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sends: bytes | None
) -> None:
    monkeypatch.setattr(processes, "_ENDING", 0.05)
    here, there = multiprocessing.Pipe()
    if sends is not None:
        there.send_bytes(sends)
    there.close()
    process = _LivesOn()
    monkeypatch.setattr(
        multiprocessing,
        "get_context",
        lambda method: SimpleNamespace(
            Pipe=lambda: (here, SimpleNamespace(close=lambda: None)),
            Process=lambda **_: process,
        ),
    )
    worker = processes.Worker(None, tmp_path / "trace.txt")
    assert list(worker.messages()) == []
    assert worker.ended
    assert not process.alive
    assert worker.end == "broke the connection between its process and the run"


@pytest.mark.slow
def test_the_processes_share_the_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    before = dict(os.environ)
    for module in ("parity_tests.cli.app", "parity_tests.harness.isolation.processes"):
        monkeypatch.setattr(f"{module}.cores", lambda: 7)
    result = _check(_case(tmp_path, "[threads, right]"), 2)
    assert "RuntimeError: 3 3 3" in result.output
    assert dict(os.environ) == before


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="this system cannot interrupt a thread")
@pytest.mark.parametrize("thread", ["the main one", "another one"])
def test_an_interruption_waits_until_all_are_started(thread: str) -> None:
    sleeper = threading.Thread(target=time.sleep, args=(1,))
    sleeper.start()
    interrupted = threading.main_thread().ident if thread == "the main one" else sleeper.ident
    assert interrupted is not None
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    started: list[bool] = []

    def start() -> None:
        with _interruptions_held_back():
            signal.pthread_kill(interrupted, signal.SIGINT)
            time.sleep(0.1)
            started.append(True)

    try:
        with pytest.raises(KeyboardInterrupt):
            start()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
        sleeper.join()
    assert started


@pytest.mark.slow
def test_a_candidate_that_ends_its_process_costs_its_own_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parity_tests.cli.app.cores", lambda: 2)
    result = _check(_case(tmp_path, "[dies, right]"), 2, "--json", str(tmp_path / "report.json"))
    assert result.exit_code == 1, result.output
    assert "dies, forward, f64: MISMATCH: ended the process (exit code 7) at sample zero_n (n=0, m=3)" in result.output
    rows = _plain(tmp_path / "report.json")["rows"]
    assert len(rows) == 1 + 2 * 2
    assert {row["verdict"] for row in rows if row["candidate"] == "right"} == {"PASS"}


@pytest.mark.slow
def test_an_oracle_that_cannot_judge_is_told(tmp_path: Path) -> None:
    case = _case(tmp_path, "[right, wrong]")
    case.write_text(case.read_text().replace('"(n,m)->(n,m)"', '"(n,m)->(n)"'), encoding="utf-8")
    one, two = _check(case, 1), _check(case, 2)
    assert one.exit_code == two.exit_code == 2
    lines = [re.findall("Could not judge: .*", result.output) for result in (one, two)]
    assert lines[0] == lines[1] != []


def _started(case: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "parity_tests", "check", str(case), "-j", "2", *options]
    # What a shell starts with & ignores interruptions, and so do all its children; this one must not.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=ENVIRONMENT,
            cwd=case.parent,
            start_new_session=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _is_spared_interruptions(pid: int) -> bool:
    masks = re.findall(r"^Sig(?:Blk|Ign):\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return any(int(mask, 16) >> (signal.SIGINT - 1) & 1 for mask in masks)


def _wait_for(condition, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


linux = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


@pytest.mark.slow
@linux
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_nobody_is_left(tmp_path: Path, how: signal.Signals) -> None:
    """Not by an interruption, and not even if who started them is killed."""
    process = _started(_case(tmp_path, "{'one': hangs, 'other': hangs}"))
    children: list[int] = []
    try:
        _wait_for(lambda: len(_children(process.pid)) == 1 + min(2, cores()))  # Python's resource tracker is one
        time.sleep(0.5)
        children = _children(process.pid)
        assert all(_is_spared_interruptions(child) for child in children)
        if how is signal.SIGINT:
            os.killpg(process.pid, how)  # as a terminal does
        else:
            process.send_signal(how)
        output, _ = process.communicate(timeout=60)
        if how is signal.SIGINT:
            assert process.returncode == 130
            assert output.splitlines()[-1].endswith("interrupted"), output  # of the run, or of its beginning
            assert "Traceback" not in output
        _wait_for(lambda: not any(Path(f"/proc/{child}").exists() for child in children))
    finally:
        for pid in (process.pid, *children):
            if Path(f"/proc/{pid}").exists():
                os.kill(pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.slow
@linux
def test_a_budget_ends_processes_that_hang(tmp_path: Path) -> None:
    process = _started(_case(tmp_path, "{'one': hangs, 'other': hangs}"), "--budget", "8")
    try:
        output, _ = process.communicate(timeout=90)
    finally:
        process.kill()
    assert process.returncode == 2
    assert "Could not judge: the budget of 8 s is spent" in output
