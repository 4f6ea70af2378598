"""At special points mistakes are seen that no sample of PyTorch's shows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from parity_tests.sweep.cotangents import COTANGENTS
from parity_tests.sweep.elementwise import is_elementwise, results_of
from parity_tests.sweep.recorded_calls import RecordedCall, as_torch
from parity_tests.sweep.special_calls import SpecialCall, special_calls

X, Y = (np.random.default_rng(seed).standard_normal((4, 3)) for seed in range(2))
Z = X + 1j * Y


def call(name: str, **arguments: object) -> RecordedCall:
    results = results_of(f"aten::{name}", arguments)
    assert results is not None
    return RecordedCall(f"aten::{name}", arguments, results, "by hand")


def special(name: str, moving: Sequence[str], **arguments: object) -> dict[str, SpecialCall]:
    return {each.why: each for each in special_calls(call(name, **arguments), moving)}


ELEMENTWISE = {
    "tanh": {"self": X},
    "add.Tensor": {"self": X, "other": Y[0]},
    "clamp": {"self": X, "min": -0.3, "max": 0.4},
    "mul.Tensor": {"self": Z, "other": Z},
}
OTHERS = {
    "cumsum": {"self": X, "dim": 0},
    "softmax.int": {"self": X, "dim": 1},
    "flip": {"self": X, "dims": [0]},
    "prod": {"self": X},
    "mm": {"self": X, "mat2": Y.T.copy()},
    "sort": {"self": X},
    "where.self": {"condition": X > 0, "self": X, "other": Y},
}


@pytest.mark.parametrize("name", [*ELEMENTWISE, *OTHERS])
def test_an_elementwise_operator_is_told_from_others(name):
    arguments = {**ELEMENTWISE, **OTHERS}[name]
    moving = [key for key, x in arguments.items() if isinstance(x, np.ndarray) and x.dtype.kind in "fc"]
    assert is_elementwise(call(name, **arguments), moving) == (name in ELEMENTWISE)


def test_the_numbers_of_one_input():
    (numbers,) = (each.arguments["self"] for why, each in special("tanh", ["self"], self=X).items() if "ties" in why)
    assert {0, 1, -1, 0.5, 20, -40, 700, 1e10, 1e154, -1e300} <= set(numbers)
    assert np.signbit(numbers[numbers == 0]).tolist() in ([False, True], [True, False])


def test_the_bounds_among_the_options_are_kinks():
    found = special("clamp", ["self"], self=X, min=-0.3, max=0.4)["special numbers, and ties"].arguments["self"]
    assert {-0.3, 0.4, np.nextafter(0.4, 1), np.nextafter(0.4, 0)} <= set(found)


def test_two_inputs_are_tied_at_all_numbers_and_both_are_zero_with_every_sign():
    found = special("maximum", ["self", "other"], self=X, other=Y)["special numbers, and ties"].arguments
    pairs = list(zip(found["self"], found["other"], strict=True))
    assert len({x for x, y in pairs if x == y}) > 30
    signs = {(bool(np.signbit(x)), bool(np.signbit(y))) for x, y in pairs if x == y == 0}
    assert len(signs) == 4


def test_complex_numbers_lie_on_both_sides_of_the_cuts():
    found = special("log", ["self"], self=Z)["special numbers, and ties"].arguments["self"]
    below = [np.signbit(z.imag) for z in found if z == -2]
    assert sorted(below) == [False, True]
    assert ((found.real == 0) & (found.imag == 2)).any()


def test_nan_is_at_every_place_of_vectors_of_every_length():
    calls = [each for why, each in special("tanh", ["self"], self=X).items() if "NaN" in why]
    places = {(len(x), i) for each in calls for x in [each.arguments["self"]] for i in np.flatnonzero(np.isnan(x))}
    assert places == {(n, i) for n in range(1, 10) for i in range(n)}


def test_a_kernel_that_loses_nan_in_its_last_lanes_is_seen():
    """The planted mistake: the vectorized part takes whole registers of four, and the rest is another code."""

    def relu(x: np.ndarray) -> np.ndarray:
        whole = len(x) // 4 * 4
        return np.concatenate([np.where(x[:whole] <= 0, 0, x[:whole]), np.fmax(x[whole:], 0)])

    with_nan = [each for why, each in special("relu", ["self"], self=X).items() if "NaN" in why]
    wrong = [e for e in with_nan if not np.array_equal(relu(e.arguments["self"]), e.results[0], equal_nan=True)]
    assert {len(each.arguments["self"]) for each in wrong} == {1, 2, 3, 5, 6, 7, 9}


WRONG_GRADIENTS = {  # of the product, of the norm, of the maximum: at one zero, at two, at all zeros, at ties
    "x.prod() / x": ("prod", lambda x: x.prod() / x, {"one zero", "two zeros", "all zeros"}),
    "x / norm": ("linalg_vector_norm", lambda x: x / np.linalg.norm(x), {"all zeros"}),
    "all of the largest": ("max", lambda x: (x == x.max()) * 1.0, {"all equal"}),
}


@pytest.mark.parametrize("mistake", WRONG_GRADIENTS)
def test_a_gradient_that_is_wrong_at_a_special_point_is_seen(mistake):
    name, wrong_gradient, seen = WRONG_GRADIENTS[mistake]
    first = call(name, self=X)
    found = set()
    for each in special_calls(first, ["self"]):
        if np.isfinite(each.arguments["self"]).all() and each.arguments["self"].size > 1:
            x = as_torch(each.arguments["self"]).requires_grad_()
            getattr(torch, name, torch.linalg.vector_norm)(x).backward()
            with np.errstate(all="ignore"):
                wrong = wrong_gradient(x.detach().numpy())
            if x.grad is not None and not np.allclose(wrong, x.grad.numpy(), rtol=1e-6, atol=0, equal_nan=True):
                found.add(each.why.removeprefix("self: "))
    assert seen <= found


def test_inputs_of_other_operators_are_replaced_one_at_a_time():
    found = special("mm", ["self", "mat2"], self=X, mat2=Y.T.copy())
    assert not found["self: a row of zeros"].arguments["self"][0].any()
    assert found["self: a row of zeros"].arguments["mat2"] is not found["mat2: all zeros"].arguments["mat2"]
    assert found["mat2: a column of zeros"].arguments["mat2"][:, 0].any() == np.False_
    of_list = special("cat", ["tensors"], tensors=[X, Y], dim=0)
    assert np.isnan(of_list["tensors[1]: one NaN, the last"].arguments["tensors"][1][-1, -1])


def test_axes_are_cut_together_and_what_pytorch_refuses_is_left_out():
    found = special("mm", ["self", "mat2"], self=X, mat2=Y.T.copy())
    cut = found["axes of length 3 have 0"]
    assert [x.shape for x in cut.arguments.values()] == [(4, 0), (0, 4)]
    assert cut.results[0].shape == (4, 4)
    assert not cut.results[0].any()
    without_axis = special("amax", ["self"], self=X, dim=[1])
    assert "axes of length 3 have 1" in without_axis
    assert "axes of length 3 have 0" not in without_axis


def test_no_axes_of_a_backward_operator_are_cut():
    """With no channels native_batch_norm_backward divides by zero, which ends the process."""
    of_channels = [np.ones(3) for _ in range(5)]
    names = ["weight", "running_mean", "running_var", "save_mean", "save_invstd"]
    arguments = {"grad_out": X, "input": Y, **dict(zip(names, of_channels, strict=True))}
    found = special(
        "native_batch_norm_backward",
        ["grad_out", "input"],
        **{**arguments, "train": True, "eps": 1e-5, "output_mask": [True] * 3},
    )
    assert "input: all zeros" in found
    assert not any("axes" in why for why in found)


def test_the_call_itself_is_not_changed():
    before = X.copy()
    assert list(special_calls(call("logsumexp", self=X, dim=[0]), ["self"]))
    np.testing.assert_array_equal(X, before)


def test_an_in_place_operator_is_called_on_copies():
    found = special("elu_", ["self"], self=X)["special numbers, and ties"]
    assert (found.arguments["self"] == -1).any()
    assert (found.results[0] != found.arguments["self"]).any()


def test_cotangents_have_the_layouts_that_they_are_named_for():
    made = {each.name: each.of(X, np.random.default_rng(0)) for each in COTANGENTS}
    assert all(tuple(bar.shape) == X.shape and bar.dtype == torch.float64 for bar in made.values())
    assert made["one number, expanded"].stride() == (0, 0)
    assert made["one row, expanded along the first axis"].stride() == (0, 1)
    assert made["transposed in memory"].stride() == (1, 4)
    assert float(made["of the size 1e150"].abs().max()) > 1e149
    for each in COTANGENTS:
        assert each.of(np.ones((), complex), np.random.default_rng(0)).shape == ()
        assert each.of(np.ones((0, 2)), np.random.default_rng(0)).shape == (0, 2)
