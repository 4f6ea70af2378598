"""A derivatives.yaml of one's own is read by the same function, and its mistakes are told with file, line and entry."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from torch_impl.derivatives import DerivativesFileError, entries, lookup, parse, unparse

NATIVE = Path(__file__).parents[4] / "torch_impl/native"
FUNCTIONS = """
- func: scale(Tensor self, float factor) -> Tensor
  dispatch:
    CompositeExplicitAutograd: scale
- func: halves(Tensor self) -> (Tensor low, Tensor high)
  dispatch:
    CompositeExplicitAutograd: halves
"""
SCALE = "- name: scale(Tensor self, float factor) -> Tensor\n"


@pytest.fixture
def own(tmp_path: Path):
    """Writes a derivatives.yaml for two operators, and reads it."""

    def read(text: str):
        (tmp_path / "native_functions.yaml").write_text(FUNCTIONS)
        (tmp_path / "derivatives.yaml").write_text(text)
        return entries(tmp_path / "derivatives.yaml", tmp_path / "native_functions.yaml")

    return read


def test_own_entries_are_read(own) -> None:
    (entry,) = own(f"# a comment\n{SCALE}  self: grad * factor\n  result: auto_linear\n")
    assert entry.line == 2
    assert entry.vjps[0].text == "grad * factor"
    assert entry.vjps[0].line == 3
    assert (entry.jvps[0].rule, entry.jvps[0].text) == ("auto_linear", "at::scale(self_t, factor)")


def test_a_file_that_changed_is_read_again(own) -> None:
    assert own(f"{SCALE}  self: grad\n")[0].vjps[0].text == "grad"
    assert own(f"{SCALE}  self: grad * factor\n")[0].vjps[0].text == "grad * factor"


def test_the_native_operators_formulas_are_read() -> None:
    entry = lookup("attn", path=NATIVE / "derivatives.yaml", native_functions=NATIVE / "native_functions.yaml")
    assert [formula.names for formula in entry.vjps] == [("q", "k", "v")]
    assert unparse(parse(entry.vjps[0].text)).startswith("gradparity::attn_backward(grad_output, grad_attn, q, k, v")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- name: [\n", r"derivatives\.yaml:2: not YAML: .*; put a formula that holds"),
        (f"{SCALE}  self: a ? b : c: d\n", r"derivatives\.yaml:2: not YAML: .*in quotes"),
        ("name: scale\n", r"derivatives\.yaml:1: must be a list of entries"),
        ("- self: grad\n", r"derivatives\.yaml:1: an entry must begin with `name: schema`"),
        (f"{SCALE}  self: grad\n  self: -grad\n", r"derivatives\.yaml:3: `self` is there twice; remove one"),
        (f"{SCALE}  selv: grad\n", r"derivatives\.yaml:1: scale\(.*\n  selv is neither an argument \(self, factor\)"),
        (f"{SCALE}  self: 2\n", r"derivatives\.yaml:1: scale\(.*\n  the formula of self must be text, got 2; put it"),
        (f"{SCALE}  self: grads[1] * factor\n", r"derivatives\.yaml:1: scale\(.*\n  Out of bounds grads access"),
        (
            f"{SCALE}  output_differentiability: [True, False]\n  self: grad\n",
            r"derivatives\.yaml:1: scale\(.*\n  output_differentiability has 2 items, the operator 1 outputs; remove",
        ),
        (
            f"{SCALE}  self: grad\n{SCALE}  self: grad\n",
            r"derivatives\.yaml:3: scale\(.*\n  has an entry in line 1 already",
        ),
        (
            "- name: scale(Tensor self, int factor) -> Tensor\n  self: grad\n",
            r"derivatives\.yaml:1: scale\(.*\n  no operator has this schema; declared are\n  scale\(Tensor self, float",
        ),
        (f"{SCALE}  dispatch: self\n", r"derivatives\.yaml:2: dispatch must be `names: formula` pairs"),
    ],
)
def test_a_mistake_is_told_with_its_place(own, text: str, message: str) -> None:
    with pytest.raises(DerivativesFileError, match=message):
        own(text)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(DerivativesFileError, match=re.escape(f"{tmp_path / 'no.yaml'}:1: there is no such file")):
        entries(tmp_path / "no.yaml")
