"""Mistakes in attn that a smaller operator cannot have are caught, by the check that is there for them."""

from __future__ import annotations

import functools

import pytest

from parity_tests.catalog.attn import SPEC
from parity_tests.harness.judging.certified import Oracles
from parity_tests.suite.marks import marks
from parity_tests.suite.mistakes import assert_caught, judged
from parity_tests.suite.mutants import MUTANTS


@functools.cache
def oracles() -> Oracles:
    """Traced and certified once for all of them."""
    return Oracles(SPEC, "cpu", 0)


FAST = ("mean_for_sum", "tail_rows_left_out", "nan_on_empty", "narrow_accumulator", "whole_blocks", "strides_ignored")


@pytest.mark.slow
@pytest.mark.parametrize("name", marks(FAST, MUTANTS))
def test_mutant_is_caught(name: str) -> None:
    assert_caught(MUTANTS[name], SPEC, oracles())


@pytest.mark.slow
def test_the_low_precision_mutant_is_right_in_float64() -> None:
    report = judged(MUTANTS["narrow_accumulator"].call, SPEC, ["vjp"], ["float64"], oracles=oracles())
    assert report.passed, str(report)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tail_rows_left_out", "all in rows 32"),
        ("pair_of_queries", "two_n (n=2, d=3, m=5, e=4)"),
        ("whole_blocks", "blocks_m (n=4, d=3, m=256, e=2)"),
        ("wrong_power", "equation (10) in derivation/attn.md"),
    ],
)
def test_the_message_says_what_is_wrong(name: str, text: str) -> None:
    assert text in str(judged(MUTANTS[name].call, SPEC, ["vjp"], ["float64"], oracles=oracles()))
