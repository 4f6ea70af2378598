"""The calls at which a formula is judged are what PyTorch computes, of every order, and in-place ones too."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from parity_tests.suite.marks import fast
from parity_tests.suite.rotation import rotating
from parity_tests.sweep import own_calls
from parity_tests.sweep.calls import DTYPES, calls_of, record_opinfo, select, units
from parity_tests.sweep.operators import is_operator
from parity_tests.sweep.recorded_calls import RecordedCall, as_torch, calls_made_by
from parity_tests.sweep.unreached import WITHOUT_CALLS, reason_without_calls
from parity_tests.sweep.written_calls import WRITTEN
from torch_impl.derivatives import entries


def call(**arguments: object) -> RecordedCall:
    return RecordedCall("aten::f", arguments, (), "by hand")


@fast("_foreach_div.List-complex128")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("operator", ["tanh", "tanh_backward", "logsumexp", "_foreach_div.List"])
def test_every_result_is_what_pytorch_computes(operator, dtype):
    calls = calls_of(operator, dtype)
    assert calls
    packet, _, overload = operator.partition(".")
    function = getattr(getattr(torch.ops.aten, packet), overload or "default")
    for each in calls:
        results = function(**{key: as_torch(value) for key, value in each.arguments.items()})
        for y, expected in zip([results] if isinstance(results, torch.Tensor) else results, each.results, strict=True):
            np.testing.assert_array_equal(y.numpy(), expected)


def test_an_in_place_operator_has_its_arguments_from_before_and_its_results_from_after():
    for each in (*calls_of("elu_", "float64"), *calls_of("zero_", "float64"), *calls_of("tanh_", "float64")):
        (after,) = each.results
        if (before := each.arguments["self"]).size:
            assert not np.array_equal(before, after)
    assert all(calls_of(name, "float64") for name in ("elu_", "zero_", "tanh_"))


def test_what_the_recorder_keeps_is_not_written_to():
    x = torch.arange(3.0)
    (kept,) = calls_made_by(lambda: x.mul_(2).zero_(), {"aten::zero_"}, "here")
    assert kept.arguments["self"].tolist() == [0, 2, 4]
    assert kept.results[0].tolist() == [0, 0, 0]
    assert x.tolist() == [0, 0, 0]


def test_a_second_backward_reaches_the_backward_operators():
    names = {each.name for each in record_opinfo("nn.functional.logsigmoid", "float64")}
    assert {"aten::log_sigmoid_forward", "aten::log_sigmoid_backward"} <= names


def test_an_input_may_be_memory_that_nobody_wrote_to():
    signalling = np.array([0x7FF0_0000_0000_0001], np.uint64)
    made = call(self=np.resize(signalling, 9).view(np.float64)), call(self=np.resize(signalling, 8).view(np.complex128))
    assert select(made, 8) == [*made]


def test_special_numbers_are_kept_where_a_shape_is_the_same():
    plain, zero, infinite = (call(self=np.array(x)) for x in ([1.0, 2], [0.0, 2], [1.0, np.inf]))
    other = [call(self=np.array([1.0, 2 + i])) for i in range(9)]
    assert select([plain, *other, zero, infinite], 1) == [plain, zero, infinite]


def test_other_options_come_before_other_shapes_and_calls_without_entries_last():
    calls = [call(self=np.ones(n), dim=d) for d in (0, 1) for n in (0, 1)]
    assert select(calls, 3) == [calls[1], calls[3], calls[0]]


@pytest.mark.parametrize("name", ["igamma", "special_zeta"])
def test_calls_with_finite_results_come_first(name):
    """Samples of these have no value for the negative numbers among them."""
    first = calls_of(name, "float64")[0]
    assert np.isfinite(first.results[0]).all()


@pytest.mark.slow
def test_complex_calls_are_complex():
    for dtype in DTYPES:
        for each in calls_of("mul.Tensor", dtype):
            assert dtype in {x.dtype.name for x in each.arguments.values() if isinstance(x, np.ndarray)}
    with pytest.raises(ValueError, match="float32 is none of float64, complex128"):
        calls_of("tanh", "float32")


def test_what_is_called_is_an_operator_of_some_pytorch():
    """A name that PyTorch does not have is passed over, so that a misspelt one would be."""
    not_in_every_pytorch = {"_foreach_mm", "_upsample_lanczos2d_aa", "_upsample_lanczos2d_aa_backward"}
    assert {name for name in (*own_calls._calls(), *WRITTEN) if not is_operator(name)} <= not_in_every_pytorch


def test_every_unit_can_be_recorded_by_itself():
    assert ("tanh", "complex128") in units()
    assert ("floor", "complex128") not in units()
    assert len(units()) > 900


def entries_with_a_formula() -> list[str]:
    return [e.name for e in entries() if e.key == "Default" and e.vjps and e.view_of is None]


def test_every_reason_is_that_of_an_entry():
    of_each = {name: reason_without_calls(name) for name in entries_with_a_formula()}
    assert set(of_each.values()) - {None} == set(WITHOUT_CALLS.values())
    assert of_each["tanh"] is None
    assert "sparse" in str(of_each["_sparse_softmax"])


@pytest.mark.slow
@rotating(10, turn=0)  # three minutes, since the samples of all OpInfos are recorded
def test_an_entry_has_calls_or_a_reason_why_it_has_none():
    names = entries_with_a_formula()
    without = {name for name in names if not any(calls_of(name, dtype) for dtype in DTYPES)}
    assert without == {name for name in names if reason_without_calls(name) is not None}
    complex_ones = [name for name in names if calls_of(name, "complex128")]
    assert len(complex_ones) > 200
