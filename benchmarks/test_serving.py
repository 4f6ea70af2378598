"""A short run of the benchmark: its verdicts are right, and its table has a row for each kind of kernel."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.serving import FAULTS, measure_serving

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it reads /proc")


@pytest.mark.slow
def test_all_kinds_of_kernels(tmp_path: Path) -> None:
    assert measure_serving(Console(quiet=True), 40, tmp_path / "serving.md") == 0
    text = (tmp_path / "serving.md").read_text()
    assert all(f"| {kind} | 1 |" in text for kind in FAULTS)
    assert "| is right | 36 |" in text
