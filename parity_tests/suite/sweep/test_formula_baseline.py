"""An entry beside PyTorch's installed one: which of its disagreements are new."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity_tests.harness.findings import Verdict
from parity_tests.harness.report.results import ORACLE, Failure, Row, WrongResult
from parity_tests.sweep.formula_baseline import Baseline
from torch_impl.derivatives import entries, lookup

EXPM1 = """
- name: expm1(Tensor self) -> Tensor
  self: {vjp}
  result: {jvp}
"""


def beside(tmp_path: Path, vjp: str, jvp: str) -> Baseline:
    path = tmp_path / "derivatives.yaml"
    path.write_text(EXPM1.format(vjp=vjp, jvp=jvp))
    (entry,) = entries(path)
    return Baseline.of(entry)


@pytest.mark.parametrize(
    ("vjp", "jvp", "changed"),
    [
        ("grad * (result.conj() + 1)", "auto_element_wise", set()),
        ("grad*( result.conj()+1 )", "auto_element_wise", set()),
        ("grad * (result.conj() + 1)", "self_t * self_p.exp()", {"jvp"}),
        ("grad * self.exp().conj()", "auto_element_wise", {"vjp", "jvp"}),  # of which the second is made of the first
        ("grad * self.exp().conj()", "self_t * (result + 1)", {"vjp", "jvp"}),
    ],
)
def test_which_formulas_are_changed(tmp_path, vjp, jvp, changed):
    assert beside(tmp_path, vjp, jvp).changed == changed


def test_pytorch_s_own_entries_are_unchanged():
    own = [entry for entry in entries() if entry.key == "Default"][:200]
    assert [entry.name for entry in own if Baseline.of(entry).changed] == []


def test_an_operator_of_one_s_own_has_no_baseline(tmp_path):
    path = tmp_path / "derivatives.yaml"
    path.write_text("- name: mine(Tensor x) -> Tensor\n  x: grad\n")
    baseline = Baseline.of(lookup("mine", path=path, undeclared=True))
    assert not baseline.exists
    assert baseline.own([row("vjp", "x_bar"), row("forward", "output")]) == []


def row(check: str, *labels: str, verdict: Verdict = Verdict.MISMATCH, candidate: str = "mine") -> Row:
    wrong = tuple(WrongResult(label, "1/1 entries wrong") for label in labels)
    failure = Failure("op", candidate, check, "float64", "cpu", "given", "", {}, 0, wrong)
    return Row("op", candidate, check, "float64", "cpu", verdict, 2.0, 1, failure=failure)


CHANGED_JVP = Baseline(frozenset(("jvp",)))


@pytest.mark.parametrize(
    ("rows", "own"),
    [
        pytest.param([row("vjp", "self_bar")], ["vjp"], id="an unchanged formula"),
        pytest.param([row("jvp", "result_dot")], [], id="a changed formula"),
        pytest.param([row("forward", "result")], ["forward"], id="the values"),
        pytest.param([row("points", "self_bar")], ["points"], id="both kinds, of which the unchanged is wrong"),
        pytest.param([row("points", "self_bar", "result_dot")], [], id="both kinds, of which both are wrong"),
        pytest.param([row("vjp", "self_bar"), row("points", "result_dot")], ["vjp"], id="the other one at points"),
        pytest.param([row("adjoint", "adjoint")], [], id="either, and nothing else fails"),
        pytest.param([row("vjp", "self_bar"), row("adjoint", "adjoint")], ["vjp", "adjoint"], id="what follows"),
        pytest.param([row("jvp", "result_dot"), row("adjoint", "adjoint")], [], id="what follows from what is new"),
        pytest.param([row("vjp", "self_bar"), row("purity", "grad")], ["vjp"], id="what is written to"),
        pytest.param([row("vjp", "self_bar", verdict=Verdict.UNRESOLVED)], [], id="what was not judged"),
        pytest.param([row("vjp", "self_bar", candidate=ORACLE)], [], id="the oracle's certificate"),
    ],
)
def test_which_rows_are_pytorch_s_own(rows, own):
    assert [each.check for each in CHANGED_JVP.own(rows)] == own


def test_of_an_unchanged_entry_all_rows_are_its_own():
    rows = [row("vjp", "self_bar"), row("adjoint", "adjoint"), row("jvp_of_vjp", "self_bar_dot"), row("purity", "x")]
    assert Baseline(frozenset()).own(rows) == rows
    assert Baseline(frozenset(("vjp", "jvp"))).own(rows) == []
