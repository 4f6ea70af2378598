"""A candidate that crashes, ends its process or hangs costs its own rows; the report has all the others."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import jax
import pytest
import torch
from typer.testing import CliRunner

from parity_tests import JaxCandidate, Verdict, assert_parity, crosscheck
from parity_tests.cli.app import app
from parity_tests.cli.run_spec import RunSpec
from parity_tests.cli.sources.catalog import CatalogOperator
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.isolation import crash, guard
from parity_tests.harness.isolation.by_name import Calls, pickled
from parity_tests.harness.isolation.messages import At, Began, Done, Found
from parity_tests.harness.report.results import Row
from parity_tests.suite.harness._ops import MADE_PAIR, PAIR, SQUARE, pair, pair_function
from parity_tests.suite.rotation import rotating

from ._rows import blank_row, place

CASE = """\
import ctypes
import os
import signal
import time

import jax.numpy as jnp
import torch
from parity_tests import OpSpec

spec = OpSpec("square", primal=lambda x: x * x, signature="(n,m)->(n,m)")


def ends(name, how):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            if x.shape[0] == 1:
                how()
            return 2 * x * g

    return Square.apply


def right(x):
    return x * x


def wrong_and_crashes_when_it_is_shrunk(x):
    if x.numel() == 1:
        os.abort()
    return 1.5 * x * x


def empty_axes(x):
    if x.numel() == 0:
        ctypes.string_at(0)
    return x * x


candidates = {
    "segv": ends("segv", lambda: ctypes.string_at(0)),
    "abort": ends("abort", os.abort),
    "exit0": ends("exit0", lambda: os._exit(0)),
    "exit3": ends("exit3", lambda: os._exit(3)),
    "killed": ends("killed", lambda: os.kill(os.getpid(), signal.SIGKILL)),
    "empty": empty_axes,
    "shrunk": wrong_and_crashes_when_it_is_shrunk,
    "right": right,
}
"""
HANGS = """
candidates = {"hangs": ends("hangs", lambda: time.sleep(1e6)), "right": right}
"""
PDIST = """
import jax.numpy as jnp
import torch
from parity_tests import OpSpec


def primal(x):
    d = x[:, None] - x[None]
    return 0.5 * jnp.sum(d * d)


def candidate(x):
    return torch.pdist(x).square().sum()


spec = OpSpec("pairs", primal, "(n,m)->()")
"""
FEW = ("--only", "forward,vjp", "--dtype", "float64", "--device", "cpu")


def _judged(folder: Path, text: str, *options: str) -> tuple[int, str, dict]:
    """`gradparity check`: its exit code, what it printed, and its report."""
    case, report = folder / "case.py", folder / "report.json"
    case.write_text(text, encoding="utf-8")
    files = ("--json", str(report), "--failures", str(folder / "failures"))
    result = CliRunner().invoke(app, ["check", str(case), *FEW, *files, *options], env={"COLUMNS": "200"})
    return result.exit_code, result.output, json.loads(report.read_text(encoding="utf-8"))


def _reasons(report: dict) -> dict[tuple[str, str], str]:
    return {(row["candidate"], row["check"]): row["verdict"] + row["reason"] for row in report["rows"]}


@pytest.mark.slow
def test_whatever_ends_a_process_costs_one_row(tmp_path: Path, shrinking: None) -> None:
    code, output, report = _judged(tmp_path, CASE)
    assert code == 1, output
    at = " at sample one_n (n=1, m=3)"
    assert _reasons(report) == {
        ("oracle", "vjp"): "PASS",
        ("segv", "forward"): "PASS",
        ("segv", "vjp"): f"MISMATCHcrashed (SIGSEGV){at}",
        ("abort", "forward"): "PASS",
        ("abort", "vjp"): f"MISMATCHcrashed (SIGABRT){at}",
        ("exit0", "forward"): "PASS",
        ("exit0", "vjp"): f"MISMATCHended the process (exit code 0){at}",
        ("exit3", "forward"): "PASS",
        ("exit3", "vjp"): f"MISMATCHended the process (exit code 3){at}",
        ("killed", "forward"): "PASS",
        ("killed", "vjp"): f"MISMATCHwas killed (SIGKILL; out of memory?){at}",
        # It crashes where it is asked whether it accepts an empty axis; then at the other one.
        ("empty", "forward"): "MISMATCHcrashed (SIGSEGV) at sample zero_n (n=0, m=3)",
        ("empty", "vjp"): "PASS",
        ("shrunk", "forward"): "MISMATCH",
        ("shrunk", "vjp"): "MISMATCH",
        ("right", "forward"): "PASS",
        ("right", "vjp"): "PASS",
    }
    assert report["error"] is None
    segv = next(failure for failure in report["failures"] if failure["candidate"] == "segv")
    pattern = segv["wrong"][0]["pattern"]
    assert "case.py:24 in backward" in pattern
    calls = Path(pattern.split("all calls: ")[1]).read_text(encoding="utf-8")
    assert "in backward" in calls
    for line in (
        "square, sample one_n (n=1, m=3): segv crashed (SIGSEGV) there; it is not called there any more",
        "square, sample zero_m (n=4, m=0): empty crashed (SIGSEGV) there; it is not called there any more",
        "square: shrunk crashed (SIGABRT) at all_axes_differ (n=1, m=1), to which a failure was shrunk: "
        "its are not shrunk",
    ):
        assert any(line == told for told in report["skipped"]), (line, report["skipped"])


@pytest.mark.slow
@rotating(4, turn=0)
def test_a_candidate_that_hangs_costs_one_row(tmp_path: Path) -> None:
    code, output, report = _judged(tmp_path, CASE + HANGS, "--trial-timeout", "20")
    assert code == 1, output
    assert _reasons(report) == {
        ("oracle", "vjp"): "PASS",
        ("hangs", "forward"): "PASS",
        ("hangs", "vjp"): "MISMATCHgave no answer for 20 s at sample one_n (n=1, m=3)",
        ("right", "forward"): "PASS",
        ("right", "vjp"): "PASS",
    }
    assert "case.py:24 in backward" in report["failures"][0]["wrong"][0]["pattern"]  # where it hangs


@pytest.mark.soak
def test_pdist_of_no_points(tmp_path: Path) -> None:
    """The backward of torch.pdist reads before the beginning of its result.

    test_whatever_ends_a_process_costs_one_row has a candidate that crashes at an empty axis.
    """
    code, output, report = _judged(tmp_path, PDIST)
    assert code == 1, output
    assert _reasons(report) == {
        ("oracle", "vjp"): "PASS",
        ("candidate", "forward"): "PASS",
        ("candidate", "vjp"): "MISMATCHcrashed (SIGSEGV) at sample zero_n (n=0, m=3)",
    }


@pytest.mark.slow
def test_an_oracle_that_crashes_is_no_candidate_s_fault(tmp_path: Path) -> None:
    crashing = "primal=lambda x: ctypes.string_at(0) if x.shape[0] == 33 else x * x"
    code, output, report = _judged(tmp_path, CASE.replace("primal=lambda x: x * x", crashing) + HANGS)
    assert code == 2, output
    assert report["error"].startswith("the process that judges crashed (SIGSEGV) at __init__.py:")
    assert "while no candidate was called: the oracle, the spec or the harness is to blame" in report["error"]


@pytest.mark.slow
def test_crosscheck_in_another_process() -> None:
    few = {"checks": ["forward", "vjp"], "dtypes": ["float64", "float32"]}
    report = crosscheck({"right": pair, "leaves": leaves}, PAIR, isolate=True, **few)
    verdicts = {(row.candidate, row.check, row.dtype): row.verdict for row in report.rows}
    assert len(verdicts) == 1 + 2 * 2 * 2
    assert {verdict for (candidate, *_), verdict in verdicts.items() if candidate != "leaves"} == {Verdict.PASS}
    assert verdicts["leaves", "forward", "float64"] is Verdict.PASS
    assert verdicts["leaves", "forward", "float32"] is Verdict.MISMATCH
    assert report.error is None


@pytest.mark.slow
def test_assert_parity_in_another_process() -> None:
    few = {"checks": ["forward"], "dtypes": ["float64"]}
    assert assert_parity(pair, MADE_PAIR, isolate=True, budget=300, **few).passed
    report = crosscheck(sleeps, PAIR, isolate=True, budget=5, **few)
    assert report.error == "the budget of 5 s is spent"
    (line,) = report.skipped
    assert line.startswith("pair: sleeps, forward, float64, which was being judged at sample given at test_guard.py:")


@pytest.mark.slow
@pytest.mark.usefixtures("shrinking")
def test_a_failure_in_another_process_has_the_reproducer_of_this_one(tmp_path: Path) -> None:
    """Byte by byte; and the script, which needs no harness, shows the failure."""
    few = {"checks": ["forward"], "dtypes": ["float64"]}
    reports = {isolate: crosscheck(half, PAIR, isolate=isolate, **few) for isolate in (True, False)}
    for isolate, report in reports.items():
        report.save_failures(tmp_path / str(isolate))
    there, here = (sorted((tmp_path / str(isolate)).iterdir()) for isolate in (True, False))
    assert [path.name for path in there] == [path.name for path in here]
    assert [path.suffix for path in there] == [".npz", ".py"]
    assert [path.read_bytes() for path in there] == [path.read_bytes() for path in here]
    (failure,) = reports[True].failures
    assert (failure.script, failure.replay) == (str(there[1]), f"gradparity replay {there[0]}")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])}
    ran = subprocess.run(
        [sys.executable, there[1]], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 1, ran.stderr
    assert "second: they differ" in ran.stdout


@pytest.mark.parametrize(("ready", "where"), [(False, "starting"), (True, "at an unknown place")])
def test_an_interruption_before_a_process_can_say_where_it_is(ready: bool, where: str) -> None:
    class Silent:
        """A process that has said nothing of where it is."""

        def request_trace(self) -> None: ...

        def stop(self) -> None: ...

        def trace(self) -> str:
            return ""

        def messages(self) -> Iterator[object]:
            return iter(())

    worker, task = Silent(), guard._Task(None)
    worker.ready = ready
    guarded = guard.Guarded([], None)
    guarded._busy[worker] = task
    assert guarded._unheard() == []
    assert task.skipped == [f"no candidate was being called: the process that judges was {where}"]


def half(x, y):
    """Half of the second output."""
    first, second = pair(x, y)
    return first, second / 2


def leaves(x, y):
    """Right in float64."""
    if x.dtype != torch.float64:
        os._exit(0)
    return pair(x, y)


def sleeps(x, y):
    """Does not end."""
    signal.pause()


@jax.jit
def jitted(x):
    """What JAX makes of a function is no function, and has its name."""
    return x * x


def test_what_can_be_sent() -> None:
    for call in (torch.sin, torch.nn.Tanh(), torch.nn.functional.softmax, pair, JaxCandidate(jitted, "jitted")):
        candidate = call if isinstance(call, JaxCandidate) else Candidate(call, "mine", {"jvp": "none"})
        work = Calls(pickled(PAIR, [candidate]), "cpu", ("forward",), ("float64",), 0, math.inf, False)
        spec, (found,) = work.load()
        assert spec.primal is PAIR.primal
        assert type(found) is type(candidate)
        assert (found.name, found.limits) == (candidate.name, candidate.limits)
        assert isinstance(call, torch.nn.Module) or found.source is candidate.source


@pytest.mark.parametrize(
    ("call", "spec", "what"),
    [
        pytest.param(lambda x: x * x, PAIR, "candidate 'mine'", id="a lambda"),
        pytest.param(pair_function().apply, PAIR, "candidate 'mine'", id="a class within a function"),
        pytest.param(torch.ops.aten.sin, PAIR, "candidate 'mine'", id="an operator"),
        pytest.param(pair, SQUARE, "OpSpec square", id="a lambda in the spec"),
        pytest.param(pair, replace(PAIR, domains={"x": lambda rng, shape: 0.0}), "OpSpec pair", id="a sampler"),
    ],
)
def test_what_cannot_be_sent(call, spec, what) -> None:
    with pytest.raises(
        TypeError, match=rf"^{what} cannot be sent .* define it at the top level of a module .* isolate="
    ):
        crosscheck(call, spec, name="mine", isolate=True)


# Going on after it.


def _task(folder: Path) -> guard._Task:
    return guard._Task(RunSpec(CatalogOperator("attn", ()), None, "cpu", (), (), 0, math.inf, False, folder))


def _lost(task: guard._Task, row: Row, place: crash.Place, limit: str | None = None) -> list[Row]:
    task.at = At(row, place, limit)
    return list(guard._lost(task, "crashed (SIGSEGV)", ""))


def test_an_unusual_sample_is_avoided_at_once_and_an_ordinary_one_after_two_checks(tmp_path: Path) -> None:
    task = _task(tmp_path)
    assert len(_lost(task, blank_row("vjp"), place("zero_n"))) == 1
    assert task.avoided == {"mine": {"zero_n"}}
    assert len(_lost(task, blank_row("jvp"), place("all", generic=True))) == 1
    assert task.avoided == {"mine": {"zero_n"}}
    assert len(_lost(task, blank_row("vmap"), place("all", generic=True))) == 1
    assert task.avoided == {"mine": {"zero_n", "all"}}
    assert [row.check for row in task.earlier.rows.values()] == ["vjp", "jvp", "vmap"]


def test_a_row_is_told_once(tmp_path: Path) -> None:
    """Where a candidate is asked whether it accepts an empty axis, `forward` may have its row already."""
    task = _task(tmp_path)
    assert len(_lost(task, blank_row("forward"), place("zero_n"))) == 1
    assert _lost(task, blank_row("forward"), place("zero_m")) == []
    assert task.avoided == {"mine": {"zero_n", "zero_m"}}


def test_a_failure_that_was_being_shrunk_is_judged_again_without(tmp_path: Path) -> None:
    task = _task(tmp_path)
    assert _lost(task, blank_row(), place(shrinking=True)) == []
    assert task.earlier.unshrunk == {"mine"}
    assert not task.avoided


def test_a_limit_that_crashes_is_a_limit(tmp_path: Path) -> None:
    (row,) = _lost(_task(tmp_path), blank_row(), place(), limit="known to crash")
    assert (row.verdict, row.listed) == (Verdict.UNSUPPORTED, True)
    assert row.reason == "known to crash (found: MISMATCH)"


def test_a_candidate_that_always_crashes_is_given_up(tmp_path: Path) -> None:
    task = _task(tmp_path)
    for i in range(guard._CRASHES):
        assert not task.given_up
        _lost(task, blank_row(), place(f"sample_{i}"))
    assert task.earlier.given_up == {"mine": f"not judged: mine has ended {guard._CRASHES} processes"}


def test_messages_are_plain_data() -> None:
    """So that they can be sent: what a failure is made of may not hold the candidate."""
    import pickle

    row = crash.row_of(blank_row(), place(), "crashed", "", None, "again")
    for message in (Began(3), At(blank_row(), place(), None), Found(row, ("line",)), Done(())):
        assert pickle.loads(pickle.dumps(message)) == message
