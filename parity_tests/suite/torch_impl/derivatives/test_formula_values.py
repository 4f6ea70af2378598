"""What an expression means, and what is refused rather than guessed."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch

from torch_impl.derivatives import (
    DerivativeNotImplemented,
    EvaluationError,
    NotEvaluable,
    bind,
    evaluate,
    jvp,
    lookup,
    parse,
    vjp,
)

X = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
Z = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex128)


def value(text: str, **names: Any) -> Any:
    return evaluate(parse(text), names)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7 / 2", 3),
        ("-7 / 2", -3),
        ("7 % -2", 1),
        ("7 / 2.", 3.5),
        ("1.0/x.toFloat()", 1 / 0.10000000149011612),
        ("std::sqrt(2 * M_PI)", math.sqrt(2 * math.pi)),
        ("false && nothing", False),
        ("true || nothing", True),
        ("!none.has_value() ? 1 : 2", 1),
        ("none.value_or(3)", 3),
        ("std::vector<c10::SymInt>(two.size(), 0)", [0, 0]),
        ("std::get<1>(two)", 6),
        ("fmap(reverse_list(two), [](c10::SymInt i){return -i;})", [-6, -5]),
        ("std::tuple<Tensor, Tensor>()", (None, None)),
        ("std::make_tuple(1, 2)", (1, 2)),
        ("at::Reduction::Mean", 1),
        ("Tensor()", None),
        ("none->sym_sizes()", None),
        ("z.conj()", 1 - 2j),
    ],
)
def test_values_are_those_of_cpp(text: str, expected: Any) -> None:
    assert value(text, x=0.1, none=None, two=[5, 6], z=1 + 2j) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("at::where(x > 0, x, 0)", X.clamp(min=0)),
        ("pow(2, x)", 2**X),
        ("x.sum(0, true, dtype)", X.float().sum(0, keepdim=True)),
        ("at::zeros({2, 2}, x.options())", torch.zeros(2, 2, dtype=torch.float64)),
        ('x.div(x, "floor")', torch.ones(3, dtype=torch.float64)),
        ("x.narrow_symint(0, 1, x.sym_size(0) - 1)", X[1:]),
        ("handle_r_to_c(x.scalar_type(), z)", Z.real),
        ("at::sum_to(x, {1})", X.sum(0, keepdim=True)),
    ],
)
def test_operators_take_their_arguments_by_position(text: str, expected: torch.Tensor) -> None:
    torch.testing.assert_close(value(text, x=X, z=Z, dtype=torch.float32), expected)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("nobody(x)", NotEvaluable, "cannot evaluate nobody: there is no such operator"),
        ("std::nobody(x)", NotEvaluable, "cannot evaluate std::nobody"),
        ("nothing + 1", NotEvaluable, "cannot evaluate nothing: it is no argument"),
        ("x.nobody()", NotEvaluable, r"cannot evaluate nobody\(\): it is no member of Tensor"),
        ("grid_sampler_2d_double_backward(x)", NotEvaluable, "cannot evaluate grid_sampler_2d_double_backward"),
        ("x.size", NotEvaluable, r"cannot evaluate x\.size: a member that is not called"),
        ('not_implemented("f")', DerivativeNotImplemented, "PyTorch has no derivative of f"),
        ("none + 1", EvaluationError, "an undefined tensor or an empty optional was used as a value"),
        ("none.sum()", EvaluationError, r"an undefined tensor or an empty optional has no sum\(\)"),
        ("x ? 1 : 2", EvaluationError, "a condition must be a bool, got Tensor"),
        ("at::tanh(x, x)", EvaluationError, r"no overload of aten::tanh takes \(Tensor, Tensor\)"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        value(text, x=X, none=None)


@pytest.mark.slow
def test_arguments_are_bound_by_the_schema() -> None:
    entry = lookup("avg_pool2d")
    bound = bind(entry, [X, 2], {"ceil_mode": True})
    assert bound["kernel_size"] == [2, 2]
    assert (bound["stride"], bound["padding"], bound["ceil_mode"], bound["divisor_override"]) == (
        [],
        [0, 0],
        True,
        None,
    )
    assert bind(lookup("gelu"), [X])["approximate"] == "none"
    assert bind(lookup("mse_loss"), [X, X])["reduction"] == 1
    with pytest.raises(EvaluationError, match="kernel_size is missing"):
        bind(entry, [X])
    with pytest.raises(EvaluationError, match="size is no argument of"):
        bind(entry, [X, 2], {"size": 3})
    with pytest.raises(EvaluationError, match="self is given twice of"):
        bind(entry, [X, 2], {"self": X})
    with pytest.raises(EvaluationError, match="tanh has 1 arguments, not 2"):
        bind(lookup("tanh"), [X, X])


def test_a_gradient_is_summed_to_the_shape_of_its_input() -> None:
    entry = lookup("mul.Tensor")
    one = torch.ones(1, dtype=torch.float64)
    found = vjp(entry, bind(entry, [X, one]), [X * one], [torch.ones_like(X)])
    torch.testing.assert_close(found["other"], X.sum(0, keepdim=True))


def test_only_wanted_gradients_are_computed() -> None:
    entry = lookup("atan2")
    found = vjp(entry, bind(entry, [X, X]), [X.atan2(X)], [X], wanted=["other"])
    assert list(found) == ["other"]


def test_a_gradient_without_a_formula_is_refused() -> None:
    entry = lookup("gather")
    index = torch.tensor([0, 1])
    with pytest.raises(NotEvaluable, match="gradient of index of gather: the entry has no formula for it"):
        vjp(entry, bind(entry, [X, 0, index]), [X[:2]], [X[:2]], wanted=["index"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("self_t.sum()", r"tanh: the tangent of result has shape \(\), result has \(3,\)"),
        ("at::complex(self_t, self_t)", "tanh: the tangent of result is complex, result is torch.float64"),
        ("1", "tanh: the tangent of result is int"),
    ],
)
def test_a_formula_that_gives_no_tangent_is_refused(text: str, message: str) -> None:
    entry = lookup("tanh")
    entry = dataclasses.replace(entry, jvps=(dataclasses.replace(entry.jvps[0], text=text),))
    with pytest.raises(EvaluationError, match=message):
        jvp(entry, bind(entry, [X]), [X.tanh()], {"self": X})


def test_a_list_of_outputs_has_as_many_tangents() -> None:
    entry = lookup("unbind.int")
    entry = dataclasses.replace(entry, jvps=(dataclasses.replace(entry.jvps[0], text="2 * at::unbind(self_t, dim)"),))
    with pytest.raises(EvaluationError, match=r"unbind\.int: result is a list of 3, its tangent is none of as many"):
        jvp(entry, bind(entry, [X]), [list(X.unbind())], {"self": X})


def test_an_undefined_cotangent_gives_an_undefined_gradient() -> None:
    entry = lookup("tanh")
    assert vjp(entry, bind(entry, [X]), [X.tanh()], [None]) == {"self": None}


def test_tangents_that_are_left_out_are_zero() -> None:
    entry = lookup("mul.Tensor")
    found = jvp(entry, bind(entry, [X, X]), [X * X], {"other": torch.ones_like(X)})
    torch.testing.assert_close(found["result"], X)


def test_the_second_derivatives_of_logcumsumexp_are_those_of_its_formula() -> None:
    x, bar = X.clone().requires_grad_(), torch.tensor([0.5, -2.0, 3.0], dtype=torch.float64, requires_grad=True)
    args = bind(lookup("logcumsumexp"), (x, 0))
    found = vjp(lookup("logcumsumexp"), args, (x.logcumsumexp(0),), (bar,))["self"]
    assert isinstance(found, torch.Tensor)
    summed = torch.stack([x[: i + 1].logsumexp(0) for i in range(3)])
    (expected,) = torch.autograd.grad(summed, x, bar, create_graph=True)
    for of_formula, right in zip(*(torch.autograd.grad(y, (x, bar), X) for y in (found, expected)), strict=True):
        torch.testing.assert_close(of_formula, right)


def test_an_entry_without_forward_mode_is_refused() -> None:
    entry = lookup("igamma")
    with pytest.raises(NotEvaluable, match="cannot evaluate igamma: the entry has no formula for forward mode"):
        jvp(entry, bind(entry, [X, X]), [X], {"self": X})


def _changed(name: str, text: str) -> Any:
    entry = lookup(name)
    return dataclasses.replace(entry, vjps=(dataclasses.replace(entry.vjps[0], text=text), *entry.vjps[1:]))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("atan2", "grad", r"atan2: the formula of self, other must give a tuple of 2, and gave Tensor"),
        ("atan2", "std::make_tuple(grad, grad, grad)", "must give a tuple of 2, and gave 3 values"),
        ("atan2", "std::make_tuple(grad.sum(), grad)", r"gradient of self has shape \(\), self has \(3,\)"),
        ("tanh", "2", "tanh: the gradient of self is int"),
        ("tanh", "at::complex(grad, grad)", "tanh: the gradient of self is complex, self is torch.float64"),
        (
            "tanh",
            "grad.matmul(grad.unsqueeze(0))",
            r"derivatives\.yaml:\d+: tanh, self: grad\.matmul.*\n  RuntimeError",
        ),
    ],
)
def test_a_formula_that_gives_no_gradient_is_refused(name: str, text: str, message: str) -> None:
    entry = _changed(name, text)
    with pytest.raises(EvaluationError, match=message):
        vjp(entry, bind(entry, [X] * len(entry.argument_names)), [X], [X])


def test_clamp_at_its_bounds_is_that_of_pytorch() -> None:
    """Whichever of the three arguments are equal: from 2.14.1 on ties are split."""
    names, numbers = ("self", "min", "max"), torch.tensor([-1.0, 0.0, 1.0])
    given = dict(zip(names, torch.cartesian_prod(numbers, numbers, numbers).unbind(1), strict=True))
    bar = torch.arange(1.0, 28.0)
    theirs = torch.func.vjp(torch.clamp, *given.values())[1](bar)
    ours = vjp(lookup("clamp.Tensor"), given, [torch.clamp(*given.values())], [bar])
    for name, gradient in zip(names, theirs, strict=True):
        torch.testing.assert_close(ours[name], gradient, rtol=0, atol=0)
    tangents = [torch.ones(27), torch.full((27,), 10.0), torch.full((27,), 100.0)]
    _, tangent = torch.func.jvp(torch.clamp, tuple(given.values()), tuple(tangents))
    named = dict(zip(names, tangents, strict=True))
    (found,) = jvp(lookup("clamp.Tensor"), given, [torch.clamp(*given.values())], named).values()
    torch.testing.assert_close(found, tangent, rtol=0, atol=0)


@pytest.mark.parametrize(("low", "high"), [(-1.0, 0.0), (0.0, 0.0), (None, 1.0), (0.0, None)])
def test_clamp_by_numbers_at_its_bounds_is_that_of_pytorch(low: float | None, high: float | None) -> None:
    x = torch.tensor([-1.0, 0.0, 1.0])
    (gradient,) = torch.func.vjp(lambda x: torch.clamp(x, low, high), x)[1](torch.ones(3))
    given = {"self": x, "min": low, "max": high}
    found = vjp(lookup("clamp"), given, [torch.clamp(x, low, high)], [torch.ones(3)])
    torch.testing.assert_close(found["self"], gradient, rtol=0, atol=0)
