"""Inputs that a reference in PyTorch uses detached: found, left where they are, and asked for a gradient of 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from jax import lax
from torch import Tensor

from parity_tests import OpSpec, Verdict, crosscheck
from parity_tests.operators.operator import function
from parity_tests.suite.harness._ops import judged, normal
from parity_tests.suite.marks import fast

PAIR = "x: (n), t: (n)"


def weighted(x: Tensor, t: Tensor) -> Tensor:
    return x * x * t.detach()


def clamped(x: Tensor, t: Tensor) -> Tensor:
    return torch.clamp_min(x - t.detach(), 0)


def clamped_at_a_constant(x: Tensor, t: Tensor) -> Tensor:
    return torch.clamp_min(x - t, 0)


def _without_gradients(x: Tensor, t: Tensor) -> Tensor:
    with torch.no_grad():
        scale = 2 * t + 1
    return x * scale


def _nested(x: Tensor, t: Tensor) -> Tensor:
    def target() -> Tensor:
        return 2 * t.detach()

    return x * target()


def _written_to(x: Tensor, t: Tensor) -> Tensor:
    own = t.detach().clone()
    own.add_(1)
    return x * own


def _sorted(x: Tensor, t: Tensor) -> Tensor:
    values, places = t.sort(-1)
    return x.gather(-1, places) * values.detach()


def _straight_through(x: Tensor, t: Tensor) -> Tensor:
    return (x + (torch.round(x) - x).detach()) * t.detach()


@fast("not at all")
@pytest.mark.parametrize(
    ("reference", "detached", "is_surrogate"),
    [
        pytest.param(weighted, ["t"], False, id="detach"),
        pytest.param(lambda x, t: x * t.data, ["t"], False, id="data"),
        pytest.param(_without_gradients, ["t"], False, id="no_grad"),
        pytest.param(lambda x, t: x * t.sum().item(), ["t"], False, id="item"),
        pytest.param(_nested, ["t"], False, id="in a function inside"),
        pytest.param(_written_to, ["t"], False, id="written to"),
        pytest.param(_sorted, ["t"], False, id="and as integers"),
        pytest.param(lambda x, t: torch.where(t.detach() > 0, x * x, x), ["t"], False, id="threshold"),
        pytest.param(_straight_through, ["t"], True, id="straight through"),
        pytest.param(lambda x, t: x * t.detach() + t, [], True, id="both"),
        pytest.param(lambda x, t: (x * t.detach(), t), [], True, id="an output besides"),
        pytest.param(lambda x, t: torch.where(t > 0, x * x, x), [], False, id="not at all"),
    ],
)
def test_what_is_used_detached_only(reference: Callable, detached: list[str], is_surrogate: bool) -> None:
    spec = OpSpec.from_torch(reference, inputs=PAIR, name="op")
    assert [*spec.detached] == detached
    assert (spec.surrogate is not None) == is_surrogate


class _Scaled(torch.nn.Module):
    shift: Tensor

    def __init__(self, detaches: bool = True) -> None:
        super().__init__()
        self.weight, self.scale = (torch.nn.Parameter(torch.tensor([1.0, k, -k])) for k in (2.0, 3.0))
        self.register_buffer("shift", torch.tensor([1.0, 2.0, 3.0]))
        self.detaches = detaches

    def forward(self, x: Tensor) -> Tensor:
        scale, shift = (s.detach() if self.detaches else s for s in (self.scale, self.shift))
        return x * self.weight * scale + shift


@pytest.mark.slow
def test_a_module_with_a_detached_parameter_and_buffer() -> None:
    spec = OpSpec.from_torch(_Scaled(), inputs="x: (n,3)")
    assert [*spec.detached] == ["scale"]
    checks = ["forward", "vjp", "jvp", "vjp_of_vjp"]
    crosscheck(_Scaled(), spec, checks=checks, dtypes=["float64"]).raise_if_failed()
    leaking = judged(_Scaled(detaches=False), spec, "vjp")
    assert leaking.verdict is Verdict.MISMATCH
    assert leaking.failure.wrong[0].label == "scale_bar"


@pytest.mark.slow
def test_nested_arguments_keep_their_names() -> None:
    def reference(x: Tensor, layer: dict[str, Tensor]) -> Tensor:
        return x * layer["b"].detach() * layer["a"] + layer["c"].detach()

    layer = {"c": normal(3, seed=1), "b": normal(3, seed=2), "a": normal(3, seed=3)}
    spec = OpSpec.from_torch(reference, inputs=[normal(3), layer])
    assert {*spec.detached} == {"layer.b", "layer.c"}


def _several(x: Tensor, s: Tensor, t: Tensor) -> Tensor:
    return x * s.detach() + x * x * t.detach()


@pytest.mark.slow
def test_several_inputs() -> None:
    spec = OpSpec.from_torch(_several, inputs="x: (n), s: (n), t: (n) positive")
    assert [*spec.detached] == ["s", "t"]
    checks = ["forward", "vjp", "jvp", "vjp_of_vjp", "jvp_of_vjp", "points", "vmap"]
    crosscheck(_several, spec, checks=checks, dtypes=["float64"]).raise_if_failed()
    for leaking, label in (
        (lambda x, s, t: x * s + x * x * t.detach(), "s_bar"),
        (lambda x, s, t: x * s.detach() + x * x * t, "t_bar"),
    ):
        row = judged(leaking, spec, "vjp")
        assert row.verdict is Verdict.MISMATCH
        assert row.failure.wrong[0].label == label


def _candidate(x_bar: Callable, t_bar: Callable = lambda x, t, w: None, jvp: Callable | None = None) -> Callable:
    """A Function with these gradients, that saves its inputs as they are."""
    tangent = jvp or (lambda x, t, x_dot, t_dot: 2 * x * t * x_dot)
    return function(lambda x, t: x * x * t, lambda x, t, w: (x_bar(x, t, w), t_bar(x, t, w)), tangent)


RIGHT = _candidate(lambda x, t, w: 2 * x * t * w)
CHECKS = ["forward", "vjp", "jvp", "adjoint", "vjp_of_vjp", "jvp_of_vjp", "vjp_of_jvp", "points_second_order"]


@pytest.mark.slow
def test_a_right_function_passes_to_second_order() -> None:
    """Its gradient depends on t, as its values do: beyond first order nothing is asked of t."""
    report = crosscheck(RIGHT, OpSpec.from_torch(weighted, inputs=PAIR), checks=CHECKS, dtypes=["float64"])
    assert {row.verdict for row in report.rows} == {Verdict.PASS}, str(report)


@pytest.mark.slow
@pytest.mark.parametrize(
    "candidate",
    [
        pytest.param(RIGHT, id="None"),
        pytest.param(_candidate(lambda x, t, w: 2 * x * t * w, lambda x, t, w: torch.zeros_like(t)), id="zeros"),
        pytest.param(_candidate(lambda x, t, w: 2 * x * t.detach() * w), id="detached in the backward"),
        pytest.param(weighted, id="itself"),
    ],
)
def test_right_versions_pass_every_check_in_every_format(candidate: Callable) -> None:
    crosscheck(candidate, OpSpec.from_torch(weighted, inputs=PAIR), quick=True).raise_if_failed()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("candidate", "check", "label"),
    [
        pytest.param(_candidate(lambda x, t, w: x * t * w), "vjp", "x_bar", id="halved"),
        pytest.param(_candidate(lambda x, t, w: 2 * x * t * w, lambda x, t, w: x * x * w), "vjp", "t_bar", id="leaks"),
        pytest.param(lambda x, t: x * x * t, "vjp", "t_bar", id="plain"),
        pytest.param(
            _candidate(lambda x, t, w: 2 * x * t * w, lambda x, t, w: (x == t) * w),
            "points",
            "t_bar",
            id="leaks at ties",
        ),
        pytest.param(
            _candidate(lambda x, t, w: 2 * x * t * w, jvp=lambda x, t, x_dot, t_dot: 2 * x * t * x_dot + x * x * t_dot),
            "jvp",
            "output_dot",
            id="tangent leaks",
        ),
        pytest.param(
            _candidate(lambda x, t, w: 2 * x.detach() * t * w), "vjp_of_vjp", "x_bar", id="wrong at second order"
        ),
    ],
)
def test_wrong_versions_fail(candidate: Callable, check: str, label: str) -> None:
    row = judged(candidate, OpSpec.from_torch(weighted, inputs=PAIR), check)
    assert row.verdict is Verdict.MISMATCH
    assert row.failure.wrong[0].label == label
    if check in ("vjp", "jvp") and label != "x_bar":
        assert "detached by the reference: nothing passes through t" in str(row.failure.judge)


def _at_ties(gradient: float) -> Callable:
    def x_bar(x: Tensor, t: Tensor, w: Tensor) -> Tensor:
        return w * torch.where(x == t, gradient, (x > t).to(w.dtype))

    return function(lambda x, t: torch.clamp_min(x - t, 0), lambda x, t, w: (x_bar(x, t, w), None), None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reference", "inputs"),
    [(clamped, PAIR), (clamped_at_a_constant, "x: (n), t: (n) constant")],
    ids=["detached", "constant"],
)
@pytest.mark.parametrize(("gradient", "is_right"), [(0.0, True), (0.5, True), (1.0, True), (1.5, False), (-0.5, False)])
def test_a_tie_is_judged_alike(reference: Callable, inputs: str, gradient: float, is_right: bool) -> None:
    spec = OpSpec.from_torch(reference, inputs=inputs)
    row = judged(_at_ties(gradient), spec, "points")
    assert row.verdict is (Verdict.PASS if is_right else Verdict.MISMATCH)
    told = [text for text in row.conventions if text.startswith("x_bar")]
    assert bool(told) == (is_right and gradient != 1.0)  # which is the oracle's choice


@pytest.mark.slow
def test_a_threshold_of_a_detached_input_is_a_convention() -> None:
    spec = OpSpec.from_torch(lambda x, t: torch.where(t.detach() > 0, x * x, x), inputs=PAIR, name="op")
    candidate = lambda x, t: torch.where(t >= 0, x * x, x)  # noqa: E731
    assert judged(candidate, spec, "points").verdict is Verdict.PASS


def _jax(**fields: Any) -> OpSpec:
    return OpSpec("op", lambda x, t: x * x * lax.stop_gradient(t), "(n),(n)->(n)", **fields)


@pytest.mark.slow
def test_a_primal_in_jax_says_it_by_a_field() -> None:
    report = crosscheck(RIGHT, _jax(detached=["t"]), checks=CHECKS, dtypes=["float64"])
    assert {row.verdict for row in report.rows} == {Verdict.PASS}, str(report)
    report = crosscheck(RIGHT, _jax(), checks=["vjp"], dtypes=["float64"])
    assert "OpSpec(detached=[...])" in report.rows[0].reason


@pytest.mark.slow
def test_what_is_not_detached_judges_nobody() -> None:
    spec = OpSpec("op", lambda x, t: x * x * t, "(n),(n)->(n)", detached=["t"])
    row = judged(RIGHT, spec, "vjp")
    assert row.verdict is Verdict.UNRESOLVED
    assert "t_bar is not 0, although OpSpec.detached names its input" in row.reason


def test_a_field_that_cannot_be_used() -> None:
    with pytest.raises(ValueError, match="detached names 'z'; the inputs are x, t"):
        _jax(detached=["z"])
    with pytest.raises(ValueError, match="no input is differentiated"):
        _jax(detached=["x", "t"])
    with pytest.raises(TypeError, match="detached must be a sequence of names"):
        _jax(detached="t")


@pytest.mark.slow
def test_constants_in_one_line() -> None:
    spec = OpSpec.from_torch(clamped_at_a_constant, inputs="x: (n), t: (n) positive constant")
    assert [*spec.constants] == ["t"]
    assert spec.drawn_from[1].name == "constant positive"
