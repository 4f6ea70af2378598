"""A formula is proved, one that is off by little is not, and the page counts them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import proofs
from benchmarks.proofs import NO_CASE, Outcome, page, proved
from torch_impl.derivatives import lookup


@pytest.mark.slow
@pytest.mark.parametrize(
    ("formula", "verdict"),
    [("grad * (1 - result * result)", "PROVED"), ("grad * (1 - result * result + 1e-30)", "UNRESOLVED")],
)
def test_a_formula_is_proved_only_if_it_is_right(formula: str, verdict: str, tmp_path: Path) -> None:
    path = tmp_path / "derivatives.yaml"
    path.write_text(f"- name: tanh(Tensor self) -> Tensor\n  self: {formula}\n  result: auto_element_wise\n")
    found = proved(lookup("tanh", path=path))
    assert (found.verdict, found.where) == (verdict, "inputs that are made for it")


@pytest.mark.slow
def test_an_operator_without_a_reference_is_no_case() -> None:
    assert proved(lookup("_cudnn_rnn")).verdict == NO_CASE


@pytest.mark.slow
def test_an_operator_that_pytorch_decomposes_into_another_is_not_accused() -> None:
    """`slice_inverse` is a view of the first tensor, and its decomposition has the numbers of the second one."""
    found = proved(lookup("slice_inverse"))
    assert (found.verdict, found.text) == (
        "SKIPPED",
        "forward cannot be told: its operators in JAX compute other numbers than it does",
    )


def test_the_page_says_what_is_proved_and_why_others_are_not() -> None:
    def outcome(verdict: str, text: str) -> Outcome:
        return Outcome("2026-11-28T00:00:00", "abc", "Python", 2.0, verdict, "inputs that are made for it", text)

    found = {
        "tanh": outcome("PROVED", "proved"),
        "sin": outcome("UNRESOLVED", "differs"),
        "svd": outcome("SKIPPED", "forward cannot be told: the JAX primitive 'svd'"),
        "qr": outcome(NO_CASE, "no sample"),
    }
    text = page(found, [*found, "abs"])
    assert "4 of 5 entries with a formula: 1 PROVED, 1 UNRESOLVED, 1 SKIPPED, 1 NO CASE. Median 2.0 s" in text
    assert "| forward cannot be told: the JAX primitive 'svd' | `svd` |" in text
    assert "- `sin`, inputs that are made for it: UNRESOLVED: differs" in text
    assert text.endswith("## Proved\n\n`tanh`\n")


def test_a_result_with_other_versions_is_out_of_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    its = proofs.campaign(tmp_path / "x.json")
    its.kept = {name: Outcome("2026", "abc", of, 1.0, "PROVED", "", "") for name, of in (("a", "old"), ("b", "new"))}
    monkeypatch.setattr(proofs, "versions", lambda: "new")
    assert its.due(["a", "b", "c"]) == ["c", "a"]
