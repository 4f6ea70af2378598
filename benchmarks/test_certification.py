"""Which operators an OpInfo is about, and what the page of the certification says."""

from __future__ import annotations

import pytest

from benchmarks import certification
from benchmarks.certification import Outcome, is_named_after, page


@pytest.mark.parametrize(
    ("opinfo", "operator", "named"),
    [
        ("nn.functional.gelu", "aten::gelu_backward", True),
        ("linalg.svd", "aten::_linalg_svd", True),
        ("max.binary", "aten::max.other", True),
        ("tanh", "aten::mul.Tensor", False),
    ],
)
def test_which_operators_an_opinfo_is_about(opinfo, operator, named):
    assert is_named_after(opinfo, operator) is named


def test_the_page_says_how_far_it_came_and_what_is_wrong():
    outcome = Outcome(
        "2026-11-25T00:00:00", "abc", "Python", 2.0, {"aten::abs": 3}, 1, ["aten::abs in float64: values"]
    )
    text = page({"abs": outcome}, ["abs", "acos"])
    assert "1 of 2 OpInfos" in text
    assert "3 calls of 1 operators, 1 with derivatives" in text
    assert "- `abs`: aten::abs in float64: values" in text
    assert "## Not run so far\n\n`acos`" in text


def test_a_result_with_other_versions_is_out_of_date(tmp_path, monkeypatch):
    its = certification.campaign(tmp_path / "x.json")
    its.kept = {name: Outcome("2026", "abc", of, 1.0, {}, 0, []) for name, of in (("a", "old"), ("b", "new"))}
    monkeypatch.setattr(certification, "versions", lambda: "new")
    assert its.due(["a", "b", "c"]) == ["c", "a"]
