"""Where certificates are kept in a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity_tests.harness.judging import kept_certificates


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where certificates are kept in this test."""
    monkeypatch.setattr(kept_certificates, "folder", lambda: tmp_path / "kept")
    return tmp_path / "kept"
