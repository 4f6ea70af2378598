"""Oracles without values at some inputs, without entries, or that are no functions: whoever agrees, or not, is told."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import OpSpec, Report, Verdict, crosscheck
from parity_tests.suite.faults._run import check
from parity_tests.suite.harness._ops import rows


def judged(candidate, spec: OpSpec) -> Report:
    """Values and gradients in float64."""
    return crosscheck(candidate, spec, checks=["forward", "vjp"], dtypes=["float64"])


@pytest.mark.parametrize(
    ("primal", "candidate", "remedy"),
    [
        (jnp.log, torch.log, 'OpSpec(domains={"x": "positive"})'),
        (jnp.sqrt, torch.sqrt, 'OpSpec(domains={"x": "positive"})'),
        (jnp.arccos, torch.arccos, 'OpSpec(domains={"x": "unit"})'),
        (jnp.arccosh, torch.arccosh, "OpSpec.domains where the inputs lie: a domain's name, or a sampler"),
    ],
    ids=["log", "sqrt", "acos", "acosh"],
)
def test_entries_without_a_value_are_counted_and_a_domain_is_named(primal, candidate, remedy):
    spec = OpSpec("op", primal=lambda x: primal(x), signature="(n)->(n)")
    report = judged(candidate, spec)
    assert report.passed, report
    (line,) = (line for line in report.skipped if "entries" in line)
    left_out, all_of_them = (int(number.replace(",", "")) for number in line.split()[1:4:2])
    assert 0 < left_out < all_of_them
    assert "are NaN at the inputs that were drawn, and were left out; " in line
    assert remedy in line


def test_with_the_domain_that_is_named_nothing_is_left_out():
    spec = OpSpec("log", primal=lambda x: jnp.log(x), signature="(n)->(n)", domains={"x": "positive"})
    report = judged(torch.log, spec)
    assert report.passed
    assert report.skipped == []


def test_the_count_is_that_of_the_entries():
    x = np.array([1.0, -1.0, 2.0, -2.0, -3.0])
    report = crosscheck(torch.sqrt, jnp.sqrt, inputs=(x,), checks=["forward"], dtypes=["float64"])
    assert report.skipped == [
        "sqrt: 3 of 5 entries of the oracle's values are NaN at the inputs that were given, and were left out; "
        "give inputs at which it has a value"
    ]


def test_a_certificate_that_no_sample_gives_names_the_domain():
    sizes = "n >= 3, m = n - 1"
    spec = OpSpec("op", primal=lambda x: jnp.log(jnp.diff(x)), signature="(n)->(m)", sizes=sizes)
    (row,) = (row for row in judged(lambda x: torch.log(torch.diff(x)), spec).rows if row.candidate == "oracle")
    assert row.verdict is Verdict.UNRESOLVED
    assert row.reason == (
        "at every sample the oracle's value, or its derivative, is NaN somewhere; "
        'with OpSpec(domains={"x": "sorted"}) there are none'
    )


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (OpSpec("op", lambda x: x * jnp.nan, "(n)->(n)"), "value is NaN at all of the inputs that were drawn; say by"),
        (OpSpec("op", lambda x: jnp.log(-jnp.abs(x)), "()->()"), "value is NaN at all of the inputs that were drawn;"),
        (OpSpec("op", lambda x: x, "(0)->(0)"), "every output of the oracle is empty at every sample"),
        (OpSpec("op", lambda x: x[:0], "(n)->(0)"), "every output of the oracle is empty at every sample"),
        (OpSpec("op", lambda x: x, inputs=(np.zeros((0, 3)),)), "every output of the oracle is empty at every sample"),
        (
            OpSpec("op", lambda x: x, "(n)->(n)", sizes="n = 0"),
            "every sample has an empty axis (n is 0), so that there",
        ),
        (OpSpec("op", lambda x: x.mean(-1), "(m,n)->(m)", sizes="n = 0"), "; allow n >= 1"),
    ],
    ids=["NaN", "NaN of a number", "(0)->(0)", "empty output", "empty input", "n = 0", "a mean at n = 0"],
)
def test_where_there_is_nothing_to_compare_each_row_says_why(spec, reason):
    report = judged(lambda x: x, spec)
    assert report.exit_code == 2
    for row in report.rows:
        assert row.verdict is Verdict.UNRESOLVED
        assert reason in row.reason
    assert report.skipped == []


RANDOM = np.random.default_rng(0)  # of the oracles below: never the same number twice
CALLS = iter(range(10**6))


@pytest.mark.parametrize(
    "primal",
    [
        lambda x: x * RANDOM.random(),
        lambda x: jnp.sin(x) + 0 * x + next(CALLS),
        jax.jit(lambda x: x * RANDOM.random()),
        lambda x: x * RANDOM.choice([0.0, 1.0], x.shape, p=[0.1, 0.9]),
        lambda x: x * jax.random.normal(jax.random.key(0), x.shape),
    ],
    ids=["NumPy", "a counter", "jit", "dropout", "jax.random"],
)
def test_an_oracle_that_is_no_function_convicts_nobody(primal):
    report = judged(lambda x: x * 1.0, OpSpec("op", primal=primal, signature="(n)->(n)"))
    assert report.exit_code == 2
    for row in report.rows:
        assert row.verdict is Verdict.UNRESOLVED, row
        assert "not a function" in row.reason or "draws random numbers" in row.reason
    assert not report.failures


def test_a_random_mask_of_integers_is_no_function():
    spec = OpSpec("op", lambda x: (x, x > RANDOM.standard_normal()), "(n)->(n),(n)")
    report = judged(lambda x: (x * 1.0, x > 0), spec)
    assert report.exit_code == 2
    assert all("not a function" in row.reason for row in report.rows)


def test_what_is_random_now_and_then_is_seen_where_the_candidate_disagrees():
    """Two calls at the first samples agree: the oracle is asked again where somebody disagrees with it."""
    spec = OpSpec("op", lambda x: x + (RANDOM.random() if x.shape == (191,) else 0), "(n)->(n)")
    report = judged(lambda x: x * 1.0, spec)
    verdicts = {row.check: row.verdict for row in rows(report)}
    assert verdicts["forward"] is Verdict.UNRESOLVED
    assert report.exit_code == 2


def test_whoever_disagrees_with_a_function_still_does():
    report = judged(torch.cos, OpSpec("op", jax.jit(jnp.sin), "(n)->(n)"))
    assert {row.verdict for row in rows(report)} == {Verdict.MISMATCH}


def test_on_the_command_line(tmp_path):
    ran = check(tmp_path, "spec = OpSpec('op', lambda x: x * np.random.rand(), '(n)->(n)')\ncandidate = torch.sin\n")
    assert ran.code == 2
    assert ran.printed.count("oracle, vjp, f64: UNRESOLVED: the oracle is not a function: ") == 1
    assert "sin, forward, vjp, f64: UNRESOLVED: for the reason that the oracle's vjp has\n" in ran.printed
    assert "Traceback" not in ran.printed
