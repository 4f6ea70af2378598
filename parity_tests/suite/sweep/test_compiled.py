"""Compiled code against JAX: right code agrees, a planted lowering is found by name, and no setting is left changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pytest
import torch

from parity_tests.suite.sweep import _judges
from parity_tests.suite.sweep.test_judgement import call_of, no_special_calls
from parity_tests.sweep.cases import Case, case_of
from parity_tests.sweep.compiled import AS_EAGER, GENERATED, KERNELS_ONLY, LOST, RAISES, judge_compiled
from parity_tests.sweep.guard import Limits, Request, end_children, judged
from parity_tests.sweep.judgement import judge_entry
from parity_tests.sweep.lines import COMPILED, Line, Verdict
from parity_tests.sweep.special_calls import special_calls
from parity_tests.sweep.tallies import Tally
from torch_impl.derivatives import lookup

X = np.array([[-1.5, -0.25, 0.5], [2.0, 0.75, -4.0]])
aten = torch.ops.aten


def as_it_is(function: Callable[..., Any], **_: Any) -> Callable[..., Any]:
    """A compiler that changes nothing."""
    return function


def with_results(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    """A compiler whose code returns other results."""
    return lambda function, **_: lambda *a: [tuple(change(y) for y in results) for results in function(*a)]


class Gradient(torch.autograd.Function):
    """The identity, with another gradient."""

    change: Callable[[torch.Tensor], torch.Tensor] = staticmethod(lambda bar: bar)

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, bar: torch.Tensor) -> torch.Tensor:
        return Gradient.change(bar)


def with_gradients(function: Callable[..., Any], **_: Any) -> Callable[..., Any]:
    """A compiler whose code has the gradients that `Gradient.change` makes of the right ones."""
    return lambda a, inputs: function(a, [[Gradient.apply(x) for x in each] for each in inputs])


def tallies_of(
    name: str, compile: Callable[..., Any], *calls: dict[str, Any], special: bool = False
) -> dict[str, Tally]:
    """What comes of calls of an operator of one input, "self", with a compiler."""
    cases = [case for each in calls if (case := case_of(lookup(name), call_of(name, each))) is not None]
    tallies = {"self": Tally(), "result": Tally()}

    def points(case: Case) -> Iterator[Case]:
        for call in special_calls(case.call, ["self"]) if special else ():
            other = case_of(case.entry, call)
            if other is not None:
                yield other

    with jax.enable_x64(True):
        judge_compiled(cases, points, lambda case: None, tallies, compile)
    return tallies


def lines_of(name: str, **arguments: Any) -> dict[str, Line]:
    call = call_of(name, arguments)
    lines = judge_entry(
        lookup(name), [COMPILED], ["float64"], calls=lambda name, dtype: [call], special=no_special_calls
    )
    return {line.of: line for line in lines}


def settings() -> tuple[Any, ...]:
    import torch._dynamo.config
    import torch._functorch.config
    import torch._inductor.config

    modules = (torch._dynamo.config, torch._functorch.config, torch._inductor.config)
    return *(each.get_config_copy() for each in modules), torch.get_default_dtype(), torch.is_grad_enabled()


@pytest.mark.slow
def test_right_code_agrees_and_no_setting_is_left_changed():
    before = settings()
    lines = lines_of("tanh", self=X)
    assert {line.verdict for line in lines.values()} == {Verdict.AGREES}
    assert {of for of, line in lines.items() if line.reason.startswith(GENERATED)} == {"self", "result"}
    assert settings() == before


@pytest.mark.slow
def test_where_no_code_is_generated_the_line_says_so():
    lines = lines_of("mm", self=X, mat2=X.T.copy())
    assert {(line.verdict, line.reason) for line in lines.values()} == {(Verdict.AGREES, KERNELS_ONLY)}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "wrong", "right"), [("sin", "self", "result"), ("cos", "result", "self")])
def test_a_wrong_lowering_is_found_by_name(name, wrong, right, monkeypatch):
    """A cosine that is lowered to a sine makes the gradient of the sine wrong, and the values of the cosine."""
    from torch._inductor.lowering import lowerings

    monkeypatch.setitem(lowerings, aten.cos.default, lowerings[aten.sin.default])
    lines = lines_of(name, self=X)
    assert (lines[wrong].verdict, lines[right].verdict) == (Verdict.WRONG_IN_PYTORCH, Verdict.AGREES)
    finding = lines[wrong].finding
    assert finding is not None
    assert "compiled" in finding.pytorch


CHANGES: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], Verdict]] = {
    "right": (lambda y: y, Verdict.AGREES),
    "sign": (lambda y: -y, Verdict.WRONG_IN_PYTORCH),
    "factor": (lambda y: 1.001 * y, Verdict.WRONG_IN_PYTORCH),
    "one NaN": (lambda y: torch.where(y == y.max(), torch.nan, y), Verdict.WRONG_IN_PYTORCH),
    "ten digits": (lambda y: y * (1 + 1e-10), Verdict.LOSES_DIGITS),
}


@pytest.mark.parametrize("change", CHANGES)
def test_wrong_values_are_seen(change):
    how, verdict = CHANGES[change]
    tallies = tallies_of("sin", with_results(how), {"self": X})
    assert tallies["result"].verdict is verdict
    if verdict.is_wrong:
        finding = tallies["result"].finding
        assert finding is not None
        assert "JAX" in finding.witness


@pytest.mark.parametrize("change", CHANGES)
def test_wrong_gradients_are_seen(change, monkeypatch):
    how, verdict = CHANGES[change]
    monkeypatch.setattr(Gradient, "change", staticmethod(how))
    tallies = tallies_of("sin", with_gradients, {"self": X})
    assert (tallies["self"].verdict, tallies["result"].verdict) == (verdict, Verdict.AGREES)
    if verdict.is_wrong:
        finding = tallies["self"].finding
        assert finding is not None
        assert "torch.compile" in finding.repro


@pytest.mark.parametrize("change", [lambda y: y[:1], lambda y: y.float()], ids=["shape", "dtype"])
def test_results_of_another_shape_or_dtype_are_seen(change):
    tally = tallies_of("sin", with_results(change), {"self": X})["result"]
    assert tally.verdict is Verdict.WRONG_IN_PYTORCH
    assert "the compiled code returns" in tally.reason


def test_digits_that_are_lost_at_small_numbers_are_told_beside_what_is_lost_at_tiny_ones():
    """Of exp(x) - 1 nothing is left at 1e-160, and half of the digits at 1e-8."""
    tallies = tallies_of(
        "expm1", lambda f, **_: lambda a, xs: [(x.exp() - 1,) for (x,) in xs], {"self": X}, special=True
    )
    assert tallies["result"].verdict is Verdict.OVERFLOWS
    assert LOST in tallies["result"].reason


def test_what_pytorch_s_operator_has_as_well_is_not_held_against_the_compiler():
    """Both make the gradient of tanh of the result, which has lost half of its digits at 8.9."""
    tally = tallies_of("tanh", as_it_is, {"self": np.array([8.861205042846699])})["self"]
    assert (tally.verdict, tally.reason.rpartition("; ")[2]) == (Verdict.AGREES, AS_EAGER)


def test_calls_that_do_not_compile_together_are_compiled_one_by_one():
    counts = []

    def compile(function: Callable[..., Any], **_: Any) -> Callable[..., Any]:
        def called(arguments: Any, inputs: Any) -> Any:
            counts.append(len(inputs))
            if len(inputs) > 1:
                raise RuntimeError("too many")
            return function(arguments, inputs)

        return called

    tallies = tallies_of("sum.dim_IntList", compile, {"self": X, "dim": [0]}, {"self": X, "dim": [1]})
    assert {tally.verdict for tally in tallies.values()} == {Verdict.AGREES}
    assert max(counts) == 2
    assert all(RAISES not in tally.reason for tally in tallies.values())


def test_what_does_not_compile_cannot_be_reached_and_the_reason_says_why():
    def compile(function: Callable[..., Any], **_: Any) -> Callable[..., Any]:
        def called(*_: Any) -> Any:
            raise RuntimeError("no lowering")

        return called

    tallies = tallies_of("sin", compile, {"self": X})
    assert {(t.verdict, t.reason) for t in tallies.values()} == {(Verdict.UNREACHED, "RuntimeError: no lowering")}


def test_an_error_at_other_sizes_is_told_beside_the_verdict():
    def compile(function: Callable[..., Any], dynamic: bool | None, **_: Any) -> Callable[..., Any]:
        def called(arguments: Any, inputs: Any) -> Any:
            if dynamic and inputs[0][0].shape != X.shape:
                raise RuntimeError("of another size")
            return function(arguments, inputs)

        return called

    tally = tallies_of("sum.dim_IntList", compile, {"self": X, "dim": [0]})["result"]
    assert tally.verdict is Verdict.AGREES
    assert f"{RAISES} RuntimeError: of another size" in tally.reason


def test_random_numbers_are_not_compared():
    lines = lines_of("native_dropout", input=X, p=0.5, train=True)
    assert {line.verdict for line in lines.values()} == {Verdict.UNREACHED}
    assert all("draws random numbers" in line.reason for line in lines.values())


def test_a_crash_costs_a_line():
    request = Request(f"{_judges.HERE}:misbehaves", "crashes", (COMPILED,), ("float64",), Limits(seconds=20))
    try:
        (line,) = judged(request)
    finally:
        end_children()
    assert (line.mode, line.verdict) == (COMPILED, Verdict.UNREACHED)
    assert "SIGSEGV" in line.reason
