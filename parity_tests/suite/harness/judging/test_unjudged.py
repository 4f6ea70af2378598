"""What cannot be judged: no certificate, nothing to compare, a format that tells nothing, a missing rule."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax import lax

from parity_tests import OpSpec, Verdict, crosscheck
from parity_tests.harness.checks import CHECKS
from parity_tests.suite.harness._ops import (
    SQUARE,
    judged,
    normal,
    rows,
)

pytestmark = pytest.mark.usefixtures("certified_once")


def test_an_oracle_without_a_certificate_judges_nobody():
    spec = OpSpec("square", primal=lambda x: x * x, inputs=SQUARE.inputs, vjp=lambda x, g: (x * g,))
    report = crosscheck(torch.square, spec, checks=["forward", "vjp", "jvp"], dtypes=["float64"])
    verdicts = {row.check: row.verdict for row in rows(report)}
    assert verdicts == {"forward": Verdict.PASS, "vjp": Verdict.UNRESOLVED, "jvp": Verdict.PASS}
    assert report.exit_code == 2
    # Nor can a limit turn that into agreement.
    report = crosscheck(torch.square, spec, checks=["vjp"], dtypes=["float64"], limits={"vjp": "x"})
    assert rows(report)[0].verdict is Verdict.UNRESOLVED


def test_a_constant_operator_has_nothing_to_compare():
    """Its gradients are zero: a candidate without any would pass, too."""
    spec = OpSpec("constant", primal=lambda x: 0 * x + 1, inputs=(normal(3),))
    for call in (lambda x: 0 * x + 1, lambda x: torch.ones_like(x)):
        assert judged(call, spec, "forward").verdict is Verdict.PASS
        row = judged(call, spec, "vjp")
        assert (row.verdict, row.comparisons) == (Verdict.UNRESOLVED, 0)
        assert row.reason.endswith(
            "zeros: the oracle's results are 0; give inputs at which they are not (domains of OpSpec)"
        )
        assert judged(call, spec, "vjp", limits={"vjp": "a limit is no excuse"}).verdict is Verdict.UNRESOLVED


@pytest.mark.parametrize("check", ["forward", "low_precision"])
def test_a_format_whose_rounding_is_as_large_as_the_results_is_named(check: str) -> None:
    """In bfloat16 the numbers beside 1000 are 4 apart; in float64 all of them are there."""

    def there_and_back(x):
        return (x * x + 1000 * x) - 1000 * x

    spec = OpSpec("there_and_back", primal=there_and_back, inputs=(normal(3),))
    row = judged(there_and_back, spec, check, "bfloat16")
    assert (row.verdict, row.comparisons) == (Verdict.SKIPPED if check == "low_precision" else Verdict.UNRESOLVED, 0)
    assert row.reason == (
        "no comparison could tell the candidate from one that returns zeros: in bfloat16 right code may be off by as "
        "much as the results are large; judge in float32 or float64, or at smaller inputs (domains of OpSpec)"
    )
    assert judged(there_and_back, spec, "forward", "float32").verdict is Verdict.PASS


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(name, marks=pytest.mark.slow if name == "proof" else ())
        for name, check in CHECKS.items()
        if check.maps and name != "vjp_partial"
    ],
)
def test_no_check_passes_where_every_derivative_is_zero(check):
    """A check whose maps all vanish has no evidence: whatever it found, it is not PASS.

    But for vjp_partial: that a backward without any cotangent makes no gradient is a property even of this operator.
    """
    spec = OpSpec("constant", primal=lambda x: 0 * x, inputs=(normal(3),))
    dtype = "bfloat16" if CHECKS[check].only_short else "float64"
    assert judged(lambda x: 0 * x, spec, check, dtype).verdict is not Verdict.PASS


def test_without_evidence_in_a_format_the_map_s_own_check_alone_is_unresolved():
    """sin(10⁴ x) in bfloat16 may be anything: it is `vjp` that says so, not each check that compares the same map."""
    spec = OpSpec("fast", primal=lambda x: jnp.sin(1e4 * x), inputs=(normal(3) + 4,))
    checks, dtypes = ["vjp", "input_subsets", "autocast"], ["float64", "bfloat16"]
    report = crosscheck(lambda x: torch.sin(1e4 * x), spec, checks=checks, dtypes=dtypes)
    rows = {(row.check, row.dtype): row for row in report.rows if row.candidate != "oracle"}
    assert {key: row.verdict for key, row in rows.items()} == {
        ("vjp", "float64"): Verdict.PASS,
        ("input_subsets", "float64"): Verdict.PASS,
        ("autocast", "float64"): Verdict.SKIPPED,
        ("vjp", "bfloat16"): Verdict.UNRESOLVED,
        ("input_subsets", "bfloat16"): Verdict.SKIPPED,
    }
    assert rows["autocast", "float64"].reason == "in the dtypes of autocast no bound tells a result from 0"
    row = judged(lambda x: torch.sin(1e4 * x), spec, "input_subsets", "bfloat16")
    assert row.verdict is Verdict.UNRESOLVED  # nothing has compared it in a wider format


def test_values_that_overflow_the_format_are_no_evidence():
    spec = OpSpec("big", primal=lambda x: x * x, inputs=(np.full(3, 300.0),))
    row = judged(torch.square, spec, "forward", "float16")
    assert (row.verdict, row.comparisons) == (Verdict.UNRESOLVED, 0)
    assert judged(torch.square, spec, "forward", "bfloat16").verdict is Verdict.PASS


def test_a_primitive_without_a_rule_is_unresolved():
    spec = OpSpec("angles", primal=lambda x: lax.reduce(x, np.float64(0), lax.atan2, (0,)), inputs=(normal(5),))
    row = judged(lambda x: x.sum(), spec, "forward")
    assert row.verdict is Verdict.UNRESOLVED
    assert row.reason.startswith("no rounding-error rule for the JAX primitive 'reduce'")
