"""Fixtures of the tests of the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from parity_tests.cli import last_failed


@pytest.fixture(autouse=True)
def _nothing_failed_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails in a test is kept in a folder of its own."""
    monkeypatch.setattr(last_failed, "folder", lambda: tmp_path / "last-failed")


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for a line, so that rich wraps none."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("FORCE_COLOR", raising=False)


@pytest.fixture
def case(tmp_path: Path) -> Callable[..., str]:
    """Writes a case file."""

    def write(text: str, name: str = "case.py") -> str:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write
