"""The page of the soak tests says on what they ran, and what pytest said of them."""

from __future__ import annotations

import datetime

import torch

from benchmarks.soak import page

DAY = datetime.date(2026, 1, 2)
OUTPUT = ["....", "=== slowest 30 durations ===", "3.00s call test_x.py::test_y", "=== 4 passed in 3.10s ==="]


def test_the_page() -> None:
    text = page(OUTPUT, DAY, 0)
    assert text.startswith("# The soak tests, 2026-01-02\n")
    assert "All passed." in text
    assert f"torch {torch.__version__.split('+')[0]}" in text
    assert "\n".join(["```", *OUTPUT[1:], "```"]) in text


def test_the_page_of_a_failure() -> None:
    lines = [
        "E   assert False",
        "=== short test summary info ===",
        "FAILED test_x.py::test_y",
        "=== 1 failed in 3 s ===",
    ]
    text = page(lines, DAY, 1)
    assert "**Failed**: pytest ended with 1." in text
    assert "E   assert False\n" in text
