"""The judging process ends without a word where its candidate interrupts it, or leaves nobody to tell."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from parity_tests.harness.isolation import worker
from parity_tests.harness.isolation.messages import Ready, Survey


class _Exited(BaseException):
    """The process has ended at once."""


@pytest.fixture(autouse=True)
def ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def ended(code: int) -> None:
        raise _Exited(code)

    monkeypatch.setattr(os, "_exit", ended)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_an_interruption_by_a_candidate_ends_the_process(capfd: pytest.CaptureFixture[str]) -> None:
    def load() -> None:
        raise KeyboardInterrupt("its own")

    sent: list[object] = []
    job = SimpleNamespace(source="case.py", load=load)
    connection = SimpleNamespace(send=sent.append, recv=lambda: (job, None))
    with pytest.raises(_Exited, match=str(worker.INTERRUPTED)):
        worker._serve(connection)
    assert sent == [Ready()]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("when", ["judging", "waiting"])
def test_a_closed_connection_leaves_no_traceback(when: str, tmp_path: Path) -> None:
    here, there = multiprocessing.Pipe()
    work = SimpleNamespace(
        source="case.py", load=lambda: (None, ()), surveyed=lambda *_: os.close(there.fileno())
    )  # as a candidate may

    def received() -> object:
        if when == "waiting":
            os.close(there.fileno())
            return there.recv()
        return Survey(work)

    with pytest.raises(_Exited, match=str(worker.LOST)):
        worker._serve(SimpleNamespace(send=there.send, recv=received))
    there._handle = None  # it is closed already
    assert isinstance(here.recv(), Ready)
    with pytest.raises(EOFError):
        here.recv()
    assert list(tmp_path.iterdir()) == []
