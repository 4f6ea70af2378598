"""Ctrl-C, SIGTERM and SIGHUP end a run within moments, wherever it is, and what is done is told."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from parity_tests.cli import session
from parity_tests.cli.interruption import INTERRUPTED, SIGNALS, Interruption

from ._program import FEW, RIGHT, SPEC, case, environment, here, program, started

pytestmark = pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="this system has no such signals")


class Recorded(Interruption):
    """One that does not end the process of the tests."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = 0

    def end(self) -> None:
        self.last_words()
        self.ends += 1


@pytest.fixture
def interruption() -> Iterator[Recorded]:
    """Installed, and taken away again."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
    installed = Recorded()
    installed.install()
    yield installed
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_signal_ends_the_process_at_once(interruption: Recorded, number: signal.Signals) -> None:
    words: list[str] = []
    interruption.last_words = lambda: words.append("told")
    signal.raise_signal(number)
    assert (interruption.came, interruption.ends, words) == (True, 1, ["told"])


def test_a_signal_may_only_be_noted_but_not_twice(interruption: Recorded) -> None:
    with interruption.noted():
        signal.raise_signal(signal.SIGINT)
        assert (interruption.came, interruption.ends) == (True, 0)
        with pytest.raises(KeyboardInterrupt):
            interruption.check()
        signal.raise_signal(signal.SIGTERM)
        assert interruption.ends == 1


def test_a_signal_when_all_is_told_is_too_late(interruption: Recorded) -> None:
    """While the interpreter is taken down, Python would have it end the process, by the signal."""
    interruption.finish()
    for number in SIGNALS:
        assert signal.getsignal(number) is signal.SIG_IGN
        signal.raise_signal(number)
    assert (interruption.came, interruption.ends) == (False, 0)


def test_a_report_that_is_being_written_says_that_it_was_interrupted(
    tmp_path: Path, interruption: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With exit code 130 it does not pass; once it is written, a signal is too late."""
    monkeypatch.setattr("parity_tests.cli.app._interruption", lambda context: interruption)
    shown = session.timing_line

    def costs(report: object, **how: object) -> object:
        signal.raise_signal(signal.SIGINT)
        return shown(report, **how)

    monkeypatch.setattr(session, "timing_line", costs)
    report = tmp_path / "report.json"
    here("check", case(tmp_path, RIGHT), *FEW, "--no-isolate", "--json", report)
    assert json.loads(report.read_text())["error"] == "interrupted"
    assert interruption.ends == 1
    signal.raise_signal(signal.SIGINT)
    assert interruption.ends == 1


def test_a_signal_that_is_ignored_stays_so() -> None:
    """As nohup ignores SIGHUP, and a shell SIGINT of what runs in the background."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    others = {number: signal.getsignal(number) for number in SIGNALS if number != signal.SIGHUP}
    try:
        Recorded().install()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        for number, handler in {**others, signal.SIGHUP: before}.items():
            signal.signal(number, handler)


@pytest.mark.slow
def test_an_interrupt_that_python_loses_is_found(interruption: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a callback of the garbage collector, as JAX has one, Python prints KeyboardInterrupt and goes on."""
    lost: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: lost.append(raised.exc_value))

    def callback(phase: str, _: object) -> None:
        if phase == "start":
            signal.raise_signal(signal.SIGINT)

    gc.callbacks.append(callback)
    try:
        with interruption.raised():
            gc.collect()
    finally:
        gc.callbacks.remove(callback)
    assert isinstance(lost[0], KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        interruption.check()


def test_an_interrupt_that_is_lost_for_good_ends_the_process(
    interruption: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timer, which is not waited for here."""
    timers: list[Callable[[], None]] = []

    class Timer:
        daemon = False

        def __init__(self, seconds: float, function: Callable[[], None]) -> None:
            self.function = function

        def start(self) -> None:
            timers.append(self.function)

        def cancel(self) -> None:
            timers.clear()

    monkeypatch.setattr("parity_tests.cli.interruption.threading.Timer", Timer)
    monkeypatch.setattr(sys, "gettrace", lambda: None)  # coverage and debuggers are left alone
    with interruption.raised():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        (timer,) = timers
        timer()
        assert interruption.ends == 1
    assert not timers


# In a process.

WAITS = (
    SPEC
    + """
def one(x):
    return x * x

def waits(x):
    open("ready", "w").close()
    time.sleep(1e6)

candidates = {"one": one, "waits": waits}
"""
)
LOADING = "open('ready', 'w').close()\nimport time\ntime.sleep(1e6)\n"
MUTANTS = (
    SPEC
    + """
def primal(x):
    open("ready", "w").close()
    return x * x

spec = OpSpec("square", primal, signature="(n)->(n)")
"""
)


def _interrupted(
    folder: Path, text: str, number: signal.Signals, *arguments: str, group: bool = False
) -> tuple[int, str, dict, float]:
    """The exit code, the output, the report, and the seconds that it took to end."""
    case(folder, text)
    report = folder / "report.json"
    handled = [each for each in SIGNALS if each == number]  # SIGKILL cannot be
    before = [signal.signal(each, signal.default_int_handler) for each in handled]  # a shell, or nohup, may ignore it
    try:
        process = started(folder, arguments[0], "case.py", "--json", report, *arguments[1:])
    finally:
        for each, handler in zip(handled, before, strict=True):
            signal.signal(each, handler)
    try:
        while not (folder / "ready").exists():
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.05)
        start = time.monotonic()
        if group:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    return process.returncode, output, json.loads(report.read_text()), time.monotonic() - start


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "options", "group"),
    [
        pytest.param(signal.SIGINT, (), True, id="Ctrl-C"),
        pytest.param(signal.SIGTERM, (), False, id="SIGTERM"),
        pytest.param(signal.SIGHUP, ("-j", "2"), True, id="a terminal that is closed"),
        pytest.param(signal.SIGINT, ("--no-isolate",), True, id="in this process"),
    ],
)
def test_what_is_judged_is_told(tmp_path: Path, number: signal.Signals, options: tuple[str, ...], group: bool) -> None:
    code, output, report, seconds = _interrupted(tmp_path, WAITS, number, "check", *FEW, *options, group=group)
    assert code == INTERRUPTED, output
    assert "Could not judge: interrupted" in output
    assert "Traceback" not in output
    assert (report["error"], report["passed"]) == ("interrupted", False)
    assert {(row["candidate"], row["verdict"]) for row in report["rows"]} <= {("one", "PASS")}
    if "-j" not in options:
        assert "square, one, forward, float64, cpu: PASS" in output
        assert report["rows"]
    if options != ("--no-isolate",):
        assert any("waits, forward, float64, which was being judged at sample" in line for line in report["skipped"])
    assert seconds < 30  # 2 on a machine that does nothing else


@pytest.mark.slow
def test_a_run_that_is_killed_has_told_something(tmp_path: Path) -> None:
    """Its report is whole, and does not pass."""
    # What the process that judges has sent is printed by another, which is given the time for it.
    later = WAITS.replace('    open("ready"', '    time.sleep(2)\n    open("ready"')
    code, output, report, _ = _interrupted(tmp_path, later, signal.SIGKILL, "check", *FEW)
    assert code == -signal.SIGKILL
    assert "square, one, forward, float64, cpu: PASS" in output
    assert not report["passed"]
    assert report["error"].startswith("not finished: ")


@pytest.mark.slow
@pytest.mark.parametrize("isolate", ["--isolate", "--no-isolate"])
def test_while_the_case_is_loaded(tmp_path: Path, isolate: str) -> None:
    code, output, report, _ = _interrupted(tmp_path, LOADING, signal.SIGINT, "check", isolate)
    assert code == INTERRUPTED, output
    assert "Traceback" not in output
    assert (report["error"], report["passed"], report["rows"]) == ("interrupted", False, [])


@pytest.mark.slow
def test_while_mutants_are_judged(tmp_path: Path) -> None:
    code, output, report, _ = _interrupted(tmp_path, MUTANTS, signal.SIGTERM, "mutate")
    assert code == INTERRUPTED, output
    assert "Traceback" not in output
    assert report["error"] == "interrupted"


@pytest.mark.slow
@pytest.mark.parametrize("module", ["typer", "rich.console", "torch"])
def test_before_the_imports_are_done(tmp_path: Path, module: str) -> None:
    """No traceback; and a report, once it is known where it goes."""
    code = f"""
import importlib.abc, os, signal, sys

class Interrupt(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
signal.signal(signal.SIGINT, signal.default_int_handler)
from parity_tests.__main__ import main
main()
"""
    case(tmp_path, "")
    arguments = ["check", "case.py", "--json", "report.json", "--no-isolate"]
    ran = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert ran.returncode == INTERRUPTED
    if module == "torch":  # in the run
        assert ran.stdout.endswith("\nCould not judge: interrupted\n")
        assert ran.stderr == ""
    else:
        assert (ran.stdout, ran.stderr) == ("", "gradparity: interrupted\n")
    assert (tmp_path / "report.json").exists() == (module == "torch")
    if module == "torch":
        assert json.loads((tmp_path / "report.json").read_text())["error"] == "interrupted"


def test_in_this_process_an_interrupt_of_a_row_is_found_after_it(tmp_path: Path) -> None:
    """`mutate` and `check --no-isolate` look at what has come after each row."""
    text = SPEC + "def candidate(x):\n    raise KeyboardInterrupt\n"
    result = here("check", case(tmp_path, text), *FEW, "--no-isolate", "--json", tmp_path / "report.json")
    assert result.exit_code == INTERRUPTED
    assert json.loads((tmp_path / "report.json").read_text())["error"] == "interrupted"


@pytest.mark.slow
def test_a_candidate_that_ends_the_run_is_no_pass(tmp_path: Path) -> None:
    """A signal does not say who has sent it, so that it is the user's."""
    body = "    os.kill(os.getppid(), signal.SIGTERM)\n    time.sleep(60)\n"
    case(tmp_path, f"{SPEC}def candidate(x):\n{body}    return x * x\n")
    ran = program(tmp_path, "check", "case.py", *FEW, "--json", "report.json")
    report = json.loads((tmp_path / "report.json").read_text())
    assert (ran.returncode, report["passed"], report["error"]) == (130, False, "interrupted"), ran.stdout + ran.stderr
