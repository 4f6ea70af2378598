"""A run of the sweep: what happens to one operator costs no other one, and every one is judged once."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from parity_tests.sweep import guard
from parity_tests.sweep.guard import Limits, Request, end_children, judged
from parity_tests.sweep.lines import Line, Verdict
from parity_tests.sweep.results_file import Header, ResultsFile
from parity_tests.sweep.running import Lost, run

from . import _judges

pytest.importorskip("pebble", reason="needs pebble: pip install 'gradparity[sweep]'")

SMALL = Limits(seconds=1, memory=200 << 20)


def swept(
    path: Path, *operators: str, judge: str = "misbehaves", limits: Limits = SMALL, jobs: int = 1
) -> dict[str, list[Line]]:
    """The lines of the operators."""
    with ResultsFile(path, Header.of(["vjp"], ["float64"], limits)) as file, ThreadPoolExecutor(jobs) as threads:
        return dict(run(operators, file, threads, f"{_judges.HERE}:{judge}", limits))


def reasons(lines: dict[str, list[Line]]) -> dict[str, str]:
    """Why each operator could not be judged."""
    assert {line.verdict for its in lines.values() for line in its} == {Verdict.UNREACHED}
    return {operator: its[0].reason for operator, its in lines.items()}


@pytest.mark.slow
def test_what_goes_wrong_costs_its_operator_only(tmp_path: Path) -> None:
    judged = swept(tmp_path / "a.jsonl", "sin", "crashes", "cos", "raises", "twice", "another", "nothing", "tan")
    assert {name for name, lines in judged.items() if lines[0].verdict is Verdict.AGREES} == {"sin", "cos", "tan"}
    del judged["sin"], judged["cos"], judged["tan"]
    told = reasons(judged)
    assert told.pop("raises").startswith("the judge raises ZeroDivisionError: division of zero, _judges.py:")
    assert told.pop("twice").startswith("the judge raises ValueError: the judge has two verdicts on twice, vjp, self")
    assert told.pop("another").startswith("the judge raises ValueError: the judge was not asked for sin, vjp")
    assert told.pop("nothing").startswith("the judge raises ValueError: the judge has no verdict")
    assert told == {"crashes": "crashed (SIGSEGV)"}


@pytest.mark.slow
def test_what_hangs_or_eats_memory_costs_its_operator_only(tmp_path: Path) -> None:
    judged = swept(tmp_path / "a.jsonl", "sin", "waits", "computes", "eats", "exits", "cos", jobs=2)
    assert judged.pop("sin")[0].verdict is judged.pop("cos")[0].verdict is Verdict.AGREES
    told = reasons(judged)
    assert told.pop("exits").startswith("the judge raises SystemExit: 3")
    assert told == {
        "waits": "gave no answer for 4 s",
        "computes": "gave no answer for 1 s of CPU time",
        "eats": "needs more than 0.195 GiB of memory",
    }


@pytest.mark.slow
def test_what_an_operator_leaves_behind_is_not_the_fault_of_the_next(tmp_path: Path) -> None:
    judged = swept(tmp_path / "a.jsonl", "first", "second", judge="crashes_if_used")
    assert [lines[0].verdict for lines in judged.values()] == [Verdict.AGREES] * 2


@pytest.mark.slow
def test_a_child_has_one_thread_and_jax_s_cache_and_the_parent_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "5")
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    before, threads = dict(os.environ), set(threading.enumerate())
    names = ("OMP_NUM_THREADS", "JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS")
    more = "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"
    judged = swept(tmp_path / "a", *names, more, judge="tells_environment", limits=Limits(operators=3))
    told = [judged[name][0].reason.rsplit(" ", 1) for name in (*names, more)]
    assert [value for value, _ in told] == ["1", str(tmp_path / "gradparity" / "jax"), "5", "-1"]
    assert len({process for _, process in told[:3]}) == 1
    assert told[3][1] != told[2][1]  # a child judges three operators here
    assert os.environ == before
    assert set(threading.enumerate()) <= threads  # one that an earlier test had left may have ended meanwhile


@pytest.mark.slow
def test_a_child_is_not_replaced_for_the_memory_that_its_parent_holds(tmp_path: Path) -> None:
    ballast = bytearray(b"1") * (1 << 30)
    limits = Limits(operators=3, memory=3 << 29)
    judged = swept(tmp_path / "a", "PATH", "HOME", judge="tells_environment", limits=limits)
    assert len({line.reason.rsplit(" ", 1)[1] for lines in judged.values() for line in lines}) == 1
    assert len(ballast) == 1 << 30


@pytest.mark.slow
def test_a_run_that_is_stopped_ends_soon_and_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    header = Header.of(["vjp"], ["float64"], Limits())
    judge = f"{_judges.HERE}:misbehaves"
    began = time.monotonic()

    def stop() -> None:
        if file.lines:
            raise KeyboardInterrupt

    with ResultsFile(path, header) as file, ThreadPoolExecutor(1) as threads, pytest.raises(KeyboardInterrupt):
        list(run(["sin", "waits", "cos"], file, threads, judge, meanwhile=stop))
    assert time.monotonic() - began < 60  # and not as long as the operator waits
    assert set(file.lines) == {"sin"}
    with ResultsFile(path, header) as file, ThreadPoolExecutor(1) as threads:
        assert [operator for operator, _ in run(["sin", "tan", "cos"], file, threads, judge)] == ["tan", "cos"]


@pytest.mark.slow
@pytest.mark.parametrize("moment", range(20))
def test_a_run_may_be_stopped_at_any_moment(tmp_path: Path, moment: int) -> None:
    """While the thread takes the next operator, asks its child for it, and waits."""
    began, path, header = time.monotonic(), tmp_path / "a", Header.of(["vjp"], ["float64"], Limits())

    def stop() -> None:
        if file.lines:
            time.sleep(moment / 1000)
            raise KeyboardInterrupt

    with (
        ResultsFile(path, header) as file,
        ThreadPoolExecutor(1) as threads,
        pytest.raises(KeyboardInterrupt),
    ):
        list(run(["sin", "waits", "cos"], file, threads, f"{_judges.HERE}:misbehaves", meanwhile=stop))
    assert time.monotonic() - began < 60
    assert multiprocessing.active_children() == []


def test_a_child_that_is_ended_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two operators, before the thread asks for the next."""
    request = Request(f"{_judges.HERE}:misbehaves", "sin", ("vjp",), ("float64",), SMALL)
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(judged, request).result()
        (found,) = guard._guards

        def ended(self: object, request: Request) -> object:
            found.close()
            return ask(found, request)

        ask = type(found)._answer
        monkeypatch.setattr(type(found), "_answer", ended)
        with pytest.raises(CancelledError):
            thread.submit(judged, request).result(timeout=20)
    end_children()


class Forgetful(Executor):
    """One that loses an operator, and runs all others here."""

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        if args[0].operator == "cos":
            future.set_exception(RuntimeError("the worker is gone"))
        else:
            future.set_result(_judges.agrees(args[0].operator, args[0].modes, args[0].dtypes))
        return future


def test_what_the_executor_loses_is_told_and_stands_in_no_file(tmp_path: Path) -> None:
    with ResultsFile(tmp_path / "a.jsonl", Header.of(["vjp"], ["float64"], SMALL)) as file:
        with pytest.raises(Lost, match=r"lost 1 of the operators \(cos\): RuntimeError: the worker is gone"):
            list(run(["sin", "cos", "tan"], file, Forgetful()))
        assert set(file.lines) == {"sin", "tan"}
