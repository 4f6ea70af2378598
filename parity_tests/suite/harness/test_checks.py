"""Every check lets a right operator pass and catches the mistake that it is there for.

A mistake passes the plainer checks wherever it can, so that it is this check that is needed.
"""

from __future__ import annotations

import pkgutil
import warnings
from collections.abc import Callable

import pytest
import torch

from parity_tests import OpSpec, Verdict
from parity_tests.harness import checks as package
from parity_tests.harness.checks import CHECKS

from ._batches import BATCH_MISTAKES, MixesExamples
from ._memory import MEMORY_MISTAKES, KeepsState, first_row_only
from ._ops import (
    MADE_PAIR,
    PAIR,
    Mistake,
    judged,
    normal,
    pair,
    pair_backward,
    pair_function,
    pair_jvp,
    tensors,
    unary_function,
)
from ._protocol import PROTOCOL_MISTAKES
from ._transforms import RIGHT_OPERATOR, TRANSFORM_MISTAKES

pytestmark = pytest.mark.usefixtures("certified_once")

# The mistakes.


def _forward(x, y):
    first, second = pair(x, y)
    return first, 1.001 * second


def _jvp_of_other_input(x, y, x_dot, y_dot):
    return pair_jvp(x, y, y_dot, x_dot)


class DroppedTangent(pair_function()):
    """Its jvp takes an absent first tangent for two."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, *cotangents):
        x, y = ctx.saved_tensors
        return pair_backward(x, y, *(torch.zeros_like(x) if g is None else g for g in cotangents))

    @staticmethod
    def jvp(ctx, x_dot, y_dot):
        x, y = ctx.saved_tensors
        if x_dot is None:
            return torch.zeros_like(x), torch.zeros_like(x)
        return pair_jvp(x, y, x_dot, torch.zeros_like(y) if y_dot is None else y_dot)


def _jvp_doubled(*args):
    return tuple(2 * y for y in pair_jvp(*args))


def _saved_intermediate(x, y, g, h):
    t = torch.tanh(x).detach()
    return (1 - t * t) * y * g + y * y * h, t * g + 2 * x * y * h


def _jvp_hidden_from_autograd(x, y, x_dot, y_dot):
    return pair_jvp(x.detach(), y, x_dot, y_dot)


class _LazyFunction(torch.autograd.Function):
    """Without materialized cotangents: an undefined one is None."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, y)
        return pair(x, y)


class OrForAnd(_LazyFunction):
    @staticmethod
    def backward(ctx, *cotangents):
        if any(g is None for g in cotangents):
            return None, None
        return pair_backward(*ctx.saved_tensors, *cotangents)


class DroppedWhenBothMeet(_LazyFunction):
    """Each cotangent alone is handled rightly."""

    @staticmethod
    def backward(ctx, *cotangents):
        g, h = cotangents
        x, y = ctx.saved_tensors
        if g is not None and h is not None:
            return pair_backward(x, y, g, 0 * h)
        zero = torch.zeros_like(x)
        return pair_backward(x, y, zero if g is None else g, zero if h is None else h)


class NonzeroWithoutCotangents(_LazyFunction):
    @staticmethod
    def backward(ctx, *cotangents):
        x, y = ctx.saved_tensors
        g, h = (torch.zeros_like(x) if c is None else c for c in cotangents)
        x_bar, y_bar = pair_backward(x, y, g, h)
        return x_bar, y_bar + (cotangents == (None, None))


class NeedsBoth(torch.autograd.Function):
    """The gradient of x only if y needs one, too."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return pair(x, y)

    @staticmethod
    def backward(ctx, *cotangents):
        x_bar, y_bar = pair_backward(*ctx.saved_tensors, *cotangents)
        return (x_bar, y_bar) if all(ctx.needs_input_grad) else (0 * x_bar, y_bar)


def _linearised(x, y):
    """Right in value and first derivative; its second derivatives are those of a linear function."""
    x0, y0 = x.detach(), y.detach()
    values = (y.detach() for y in pair(x0, y0))
    return tuple(value + slope for value, slope in zip(values, pair_jvp(x0, y0, x - x0, y - y0), strict=True))


def _with_vjp(change: Callable) -> Callable:
    """The identity's neighbour x -> 2 x, with a backward that is nonlinear in its cotangent."""
    return unary_function(lambda x: 2 * x, lambda x, g: 2 * change(g))


DOUBLE = OpSpec("double", primal=lambda x: 2 * x, inputs=(normal(3, 4),))
NONLINEAR = {
    "|g|": lambda g: g.abs(),
    "clamp(g, -1, 1)": lambda g: g.clamp(-1, 1),
    "g |g|": lambda g: g * g.abs(),
}


def _zero_over_zero(x, y, g, h):
    x_bar, y_bar = pair_backward(x, y, g, h)
    return x_bar * (x / x), y_bar


def _zero_times_infinity(x, y, g, h):
    """The derivative of 0 * sqrt(|x|) is 0 * infinity at 0."""
    x_bar, y_bar = pair_backward(x, y, g, h)
    return x_bar + 0 * x.abs().sqrt(), y_bar


def _one_bit_more(x, y, g, h):
    x_bar, y_bar = pair_backward(x, y, g, h)
    return torch.nextafter(x_bar, 2 * x_bar), y_bar


def _infinity_over_infinity(x, y):
    first, second = pair(x, y)
    return torch.exp(x) / torch.exp(x) * first, second


MISTAKES: dict[str, dict[str, Mistake]] = {
    "forward": {"one output off by a thousandth": Mistake(_forward)},
    "vjp": {
        "a dropped term": Mistake(
            pair_function(backward=lambda x, y, g, h: (y * y * h, 2 * x * y * h)).apply, ("forward",)
        ),
        "wrong where both cotangents meet": Mistake(DroppedWhenBothMeet.apply, ("forward", "vjp_partial")),
        **{name: Mistake(_with_vjp(change), ("forward",), DOUBLE) for name, change in NONLINEAR.items()},
    },
    "vjp_partial": {
        "or for and": Mistake(OrForAnd.apply, ("forward", "vjp")),
        "a gradient out of nothing": Mistake(NonzeroWithoutCotangents.apply, ("forward", "vjp")),
    },
    "jvp": {
        "the other input's tangent": Mistake(pair_function(jvp=_jvp_of_other_input).apply, ("forward", "vjp")),
        "zero without a tangent of the first input": Mistake(DroppedTangent.apply, ("forward", "vjp", "adjoint")),
    },
    "adjoint": {"a factor in the jvp": Mistake(pair_function(jvp=_jvp_doubled).apply, ("forward", "vjp"))},
    "vjp_of_vjp": {
        "a saved intermediate": Mistake(
            pair_function(backward=_saved_intermediate).apply, ("vjp", "vjp_partial", "layouts")
        )
    },
    "jvp_of_vjp": {
        "a saved intermediate": Mistake(pair_function(backward=_saved_intermediate).apply, ("vjp", "jvp", "adjoint"))
    },
    "vjp_of_jvp": {
        "a jvp hidden from autograd": Mistake(
            pair_function(jvp=_jvp_hidden_from_autograd).apply, ("vjp", "jvp", "vjp_of_vjp")
        )
    },
    "jvp_of_jvp": {"linearised": Mistake(_linearised, ("forward", "vjp", "jvp", "adjoint"))},
    "input_subsets": {"a gradient that needs the other": Mistake(NeedsBoth.apply, ("vjp", "vjp_partial", "layouts"))},
    "points": {
        "0 / 0 at zero": Mistake(pair_function(backward=_zero_over_zero).apply, ("forward", "vjp", "jvp"), MADE_PAIR),
        "inf / inf": Mistake(_infinity_over_infinity, ("forward",), MADE_PAIR),
    },
    "points_second_order": {
        "0 * inf at zero": Mistake(
            pair_function(backward=_zero_times_infinity).apply, ("vjp", "vjp_of_vjp", "points"), MADE_PAIR
        ),
    },
    "exact": {
        "one bit too much": Mistake(
            pair_function(backward=_one_bit_more).apply, ("forward", "vjp", "points"), MADE_PAIR
        ),
    },
    **MEMORY_MISTAKES,
    **BATCH_MISTAKES,
    **PROTOCOL_MISTAKES,
    **TRANSFORM_MISTAKES,
}


def _at(check):
    """The operator's spec: with inputs that are given, but for the checks that make their own."""
    return MADE_PAIR if check in ("points", "points_second_order", "exact") else PAIR


def test_every_check_has_a_negative_control():
    assert set(MISTAKES) == set(CHECKS)


def test_every_module_of_checks_is_registered_under_its_own_name():
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)} - {"check"}
    assert modules == set(CHECKS)
    assert all(check.name == name for name, check in CHECKS.items())


@pytest.mark.parametrize(
    ("check", "dtype"),
    [
        (check, dtype)
        for check in CHECKS
        for dtype in ("float64", "float32", "bfloat16", "float16")
        if check != "points_second_order" or dtype in ("float64", "float32")  # in the others it has nothing to say
    ],
)
def test_a_right_operator_passes(check, dtype):
    row = judged(pair if check != "opcheck" else RIGHT_OPERATOR, _at(check), check, dtype, limits={})
    assert (row.verdict, row.reason) == (Verdict.PASS, "")
    assert row.comparisons > 0


@pytest.mark.parametrize("check", [name for name in CHECKS if name not in ("jvp_of_jvp", "opcheck")])
def test_a_right_function_passes(check):
    assert judged(pair_function().apply, _at(check), check, limits={}).verdict is Verdict.PASS


CAUGHT = [
    pytest.param(check, mistake, id=f"{check}: {name}")
    for check, mistakes in MISTAKES.items()
    for name, mistake in mistakes.items()
]


@pytest.mark.parametrize(("check", "mistake"), CAUGHT)
def test_a_mistake_is_caught_by_the_check_that_is_there_for_it(check, mistake):
    row = judged(mistake.call, mistake.spec, check)
    assert row.verdict is Verdict.MISMATCH, row
    assert row.failure is not None
    for other in mistake.passes:
        assert judged(mistake.call, mistake.spec, other).verdict is Verdict.PASS, other


# What torch.autograd.gradcheck does not see.


def gradcheck(call: Callable, spec: OpSpec) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.autograd.gradcheck(call, tensors(spec.inputs or ()), raise_exception=False)


@pytest.mark.parametrize(
    "mistake",
    [
        *(pytest.param(MISTAKES["vjp"][name], id=name) for name in NONLINEAR),
        pytest.param(MISTAKES["vjp"]["wrong where both cotangents meet"], id="both cotangents"),
        pytest.param(MISTAKES["layouts"]["a cotangent's strides ignored"], id="non-contiguous cotangents"),
        pytest.param(MISTAKES["layouts"]["a cotangent of stride 0"], id="stride 0"),
        pytest.param(MISTAKES["layouts"]["an input's strides ignored"], id="strides of inputs"),
    ],
)
def test_gradcheck_passes_what_a_check_here_catches(mistake):
    assert gradcheck(mistake.call, mistake.spec)


def test_gradcheck_does_run_here():
    assert not gradcheck(MISTAKES["vjp"]["a dropped term"].call, PAIR)


# The details of a single check.


def _circumstances(call: Callable, check: str, spec: OpSpec = PAIR) -> set[str]:
    failure = judged(call, spec, check).failure
    assert failure is not None
    return {wrong.circumstance for wrong in failure.wrong}


def test_the_circumstance_is_told():
    assert _circumstances(OrForAnd.apply, "vjp_partial") == {"only the cotangent of first is defined"}
    assert _circumstances(NonzeroWithoutCotangents.apply, "vjp_partial") == {"no cotangent is defined"}
    assert _circumstances(NeedsBoth.apply, "input_subsets") == {"gradients of x alone"}
    assert _circumstances(pair_function(backward=first_row_only).apply, "layouts") == {"cotangents expanded"}
    assert _circumstances(KeepsState.apply, "purity") == {"backward twice"}
    assert all(where.startswith("in_dims (") for where in _circumstances(MixesExamples.apply, "vmap"))


def test_purity_names_what_was_written_to():
    for name, label in (
        ("writes to its cotangent", "first_bar"),
        ("writes to its input", "x"),
        ("writes to its output", "second"),
    ):
        failure = judged(MISTAKES["purity"][name].call, PAIR, "purity").failure
        assert failure is not None
        written = [wrong.label for wrong in failure.wrong if wrong.pattern == "was written to"]
        assert written == [label]


def test_an_output_that_requires_a_gradient_unasked():
    one = torch.nn.Parameter(torch.ones((), dtype=torch.float64))

    def double(x):
        return 2 * x * one

    assert judged(double, DOUBLE, "vjp").verdict is Verdict.PASS
    failure = judged(double, DOUBLE, "input_subsets").failure
    assert failure is not None
    assert [(wrong.label, wrong.pattern) for wrong in failure.wrong] == [("output", "requires a gradient")]


def test_scalars_can_be_batched():
    spec = OpSpec("scalar", primal=lambda x: x * x, inputs=(normal(),))
    assert judged(lambda x: x * x, spec, "vmap").verdict is Verdict.PASS
