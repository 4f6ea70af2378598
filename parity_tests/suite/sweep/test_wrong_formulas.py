"""Wrong formulas of the installed PyTorch: convicted as they stand, right as in docs/mended_derivatives.yaml."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from parity_tests.harness.crosscheck import crosscheck
from parity_tests.harness.findings import Verdict
from parity_tests.suite.rotation import rotating
from parity_tests.sweep.formula_cases import CHECKS, by_formulas, cases
from torch_impl.derivatives import Entry, lookup

MENDED = Path(__file__).parents[3] / "docs" / "mended_derivatives.yaml"
# By operator: the checks that see what is wrong.
WRONG = {
    "addcdiv": {"points"},
    "clamp.Tensor": {"points"},
    "copysign.Tensor": {"vjp_of_vjp", "points_second_order"},
    "expm1": {"vjp", "jvp", "points"},
    "fmax": {"jvp"},
    "fmin": {"jvp"},
    "hardsigmoid": {"vjp", "jvp", "points"},
    "hypot": {"points"},
    "logaddexp": {"points_second_order"},
    "logaddexp2": {"points_second_order"},
    "maximum": {"jvp"},
    "minimum": {"jvp"},
    "special_log_ndtr": {"points"},
}
MENDED_SINCE = dict.fromkeys(["clamp.Tensor", "fmax", "fmin", "maximum", "minimum"], "2.14.1")

pytestmark = pytest.mark.slow


def _found(entry: Entry) -> tuple[set[str], int]:
    """The checks that do not agree, and in how many cases all do."""
    reports = [crosscheck({entry.name: c.call}, c.spec, checks=CHECKS, progress=False) for c in cases(entry)]
    wrong = {row.check for report in reports for row in report.rows if row.verdict is Verdict.MISMATCH}
    return wrong, sum(report.passed for report in reports)


def _skip_where_mended(name: str) -> None:
    if torch.__version__ >= MENDED_SINCE.get(name, "9"):
        pytest.skip(f"mended in PyTorch {MENDED_SINCE[name]}; the mended entry is one of PyTorch 2.13")


@pytest.mark.parametrize("name", WRONG)
def test_it_is_convicted_as_it_stands(name):
    _skip_where_mended(name)
    wrong, _ = _found(lookup(name))
    assert wrong >= WRONG[name]


@rotating(5)
@pytest.mark.parametrize("name", WRONG)
def test_it_passes_as_mended(name):
    _skip_where_mended(name)
    wrong, agreeing = _found(lookup(name, path=MENDED))
    assert not wrong
    assert agreeing >= 2


@pytest.mark.parametrize(("name", "base"), [("logaddexp", math.e), ("logaddexp2", 2.0)])
def test_as_mended_the_second_derivatives_keep_their_digits(name, base):
    """Those with respect to the larger argument, too, which a sigmoid loses: docs/found.md, 57."""
    entry = lookup(name, path=MENDED)
    apart = torch.tensor([60.0, 0.0, 0.5], dtype=torch.float64), torch.tensor([0.0, 60.0, 0.5], dtype=torch.float64)
    call = by_formulas(entry, ["self", "other"], {})
    hessian = torch.autograd.functional.hessian(lambda *inputs: call(*inputs).sum(), apart)
    power = base**60
    right = math.log(base) * torch.tensor([power / (1 + power) ** 2] * 2 + [0.25], dtype=torch.float64)
    for i in range(2):
        for j in range(2):
            torch.testing.assert_close(hessian[i][j].diagonal(), right if i == j else -right, rtol=1e-13, atol=0)
