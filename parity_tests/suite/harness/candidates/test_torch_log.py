"""PyTorch's own log: away from the terminal while a check runs, kept with the failure, and as before afterwards."""

from __future__ import annotations

import functools
import io
import json
import logging
from pathlib import Path

import pytest
import torch
from torch._logging import _internal
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from parity_tests import OpSpec, Report, Verdict, crosscheck
from parity_tests.harness.candidates.torch_log import TorchLog
from parity_tests.suite.harness._ops import rows

SQUARE = OpSpec("square", lambda x: x * x, "(n,n)->(n,n)")
TOLD = "failed while attempting to run meta for aten.mm.default"


def _does_not_fit_if_fake(x):
    """Dispatched as it is with fake tensors, of which PyTorch's log then says where."""
    return torch.ops.aten.mm(x, torch.ones(9, 9, dtype=x.dtype)) if isinstance(x, FakeTensor) else x * x


def _write(handler: logging.Handler, stream: io.StringIO, record: logging.LogRecord) -> None:
    stream.write(handler.format(record) + "\n")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What PyTorch's handlers write to in place of stderr."""
    monkeypatch.delenv("TORCH_LOGS", raising=False)
    stream = io.StringIO()
    for handler in _internal.handlers:
        if not isinstance(handler, (logging.FileHandler, _internal.LazyTraceHandler)):
            monkeypatch.setattr(handler, "emit", functools.partial(_write, handler, stream))
    return stream


def _filters() -> list[object]:
    return [f for handler in _internal.handlers for f in handler.filters]


def _fails(call) -> None:
    with FakeTensorMode() as mode, pytest.raises(RuntimeError):
        call(mode.from_tensor(torch.ones(3, 3)))


def test_what_pytorch_logs_is_kept_with_the_failure(terminal):
    _fails(_does_not_fit_if_fake)
    assert TOLD in terminal.getvalue()  # as it is without the harness
    terminal.seek(0)
    terminal.truncate()
    before = _filters()
    report = crosscheck(_does_not_fit_if_fake, SQUARE, checks=["fake", "forward"], dtypes=["float64"])
    assert terminal.getvalue() == ""
    assert _filters() == before
    logs = {row.check: row.failure.log for row in rows(report) if row.failure}
    assert set(logs) == {"fake"}
    assert TOLD in logs["fake"]
    assert len(logs["fake"].splitlines()) <= 100
    assert Report.from_dict(json.loads(json.dumps(report.as_dict()))).failures[0].log == logs["fake"]


@pytest.mark.usefixtures("shrinking")
def test_it_is_written_next_to_the_reproducer(terminal, tmp_path: Path):
    def wrong(x):
        logging.getLogger("torch").warning("a word of PyTorch's")
        return x * 3

    report = crosscheck(wrong, SQUARE, checks=["forward"], dtypes=["float64"])
    assert terminal.getvalue() == ""
    report.save_failures(tmp_path)
    assert terminal.getvalue() == ""
    (log,) = tmp_path.glob("*.log")
    assert "WARNING torch: a word of PyTorch's" in log.read_text()
    assert {path.stem for path in tmp_path.iterdir()} == {log.stem}


def test_a_right_operator_has_nothing_to_keep(terminal, tmp_path: Path):
    report = crosscheck(torch.square, SQUARE, checks=["fake", "forward"], dtypes=["float64"])
    assert [row.verdict for row in rows(report)] == [Verdict.PASS] * 2
    report.save_failures(tmp_path)
    assert not list(tmp_path.iterdir())


def test_who_asks_for_the_log_gets_it(terminal, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TORCH_LOGS", "+dynamo")
    with TorchLog() as log:
        logging.getLogger("torch").warning("asked for")
    assert "asked for" in terminal.getvalue()
    assert log.text == ""


def _logs_and_raises() -> None:
    logging.getLogger("torch.autograd").error("once")
    raise ValueError("mine")


def test_an_exception_leaves_no_filter_behind(terminal):
    before, log = _filters(), TorchLog()
    with pytest.raises(ValueError, match="mine"), log:
        _logs_and_raises()
    assert _filters() == before
    assert log.text == "ERROR torch.autograd: once"
    logging.getLogger("torch").warning("after")
    assert "after" in terminal.getvalue()
