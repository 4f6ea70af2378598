"""Entries are found by name, and say what derivatives.yaml says."""

from __future__ import annotations

import dataclasses

import pytest
from torchgen.packaged.autograd.load_derivatives import load_derivatives

from torch_impl.derivatives import Entry, entries, lookup
from torch_impl.derivatives.reading import PACKAGED_DERIVATIVES, PACKAGED_FUNCTIONS


def test_an_entry_is_a_frozen_record() -> None:
    entry = lookup("tanh")
    assert entry.schema == "tanh(Tensor self) -> Tensor"
    (gradient,), (tangent,) = entry.vjps, entry.jvps
    assert (gradient.names, gradient.text) == (("self",), "tanh_backward(grad, result)")
    assert tangent.rule == "auto_element_wise"
    assert tangent.text == "(tanh_backward(self_t.conj(), result)).conj()"
    assert entry.saved_outputs == ("result",)
    with pytest.raises(dataclasses.FrozenInstanceError):
        entry.schema = ""


def test_lines_are_those_of_the_file() -> None:
    lines = PACKAGED_DERIVATIVES.read_text(encoding="utf-8").splitlines()
    for entry in entries():
        assert lines[entry.line - 1].startswith("- name:")
        for formula in (*entry.vjps, *entry.jvps):
            left = lines[formula.line - 1].partition(":")[0]
            assert {name.strip() for name in left.split(",")} == set(formula.names), (entry.name, formula.line)


def test_the_text_is_the_original_one() -> None:
    (gradient,) = lookup("sum.dim_IntList").vjps
    assert gradient.text == "sum_backward(grad, self.sym_sizes(), dim, keepdim)"
    assert lookup("sum.dim_IntList").saved_inputs == ("dim", "keepdim", "self.sym_sizes()")


def test_what_is_declared_of_inputs_and_outputs() -> None:
    assert lookup("gather").non_differentiable == ("index",)
    assert lookup("igamma").not_implemented == ("self",)
    assert lookup("_linalg_svd").differentiable_outputs == (True, True, True)
    assert lookup("sort").differentiable_outputs == (True, False)
    assert lookup("_to_copy").condition == "!dtype || isDifferentiableType(*dtype)"
    assert lookup("max.dim").result_names == ("values", "indices")
    assert lookup("native_layer_norm").result_names == ("result0", "result1", "result2")
    assert lookup("zero_").in_place
    assert lookup("transpose_copy.int").view_of is not None
    assert lookup("sum", key="AutogradNestedTensor").vjps[0].text == "ones_like(self) * grad"


def test_an_unknown_name_names_the_nearest() -> None:
    with pytest.raises(LookupError, match=r"no entry for 'tahn' of the key Default; there is .*tanh"):
        lookup("tahn")
    with pytest.raises(
        LookupError, match=r"no entry for 'sum\.dim' of the key Default; there is sum, sum\.dim_IntList"
    ):
        lookup("sum.dim")


@pytest.mark.slow
def test_the_entries_are_those_of_torchgens_loader() -> None:
    tags = PACKAGED_FUNCTIONS.with_name("tags.yaml")
    infos, _ = load_derivatives(str(PACKAGED_DERIVATIVES), str(PACKAGED_FUNCTIONS), str(tags))
    theirs = {(str(schema), key): info for schema, by_key in infos.items() for key, info in by_key.items()}
    ours: dict[tuple[str, str], Entry] = {(entry.schema, entry.key): entry for entry in entries()}
    assert {(entry.schema.split("(")[0], key) for (_, key), entry in ours.items()} == {
        (str(info.func.func.name), key) for (_, key), info in theirs.items()
    }
    for (_, key), info in theirs.items():
        entry = ours[str(info.func.func), key]
        assert [f.text for f in entry.vjps] == [d.original_formula for d in info.derivatives]
        assert [f.text for f in entry.jvps] == [d.formula for d in info.forward_derivatives]
