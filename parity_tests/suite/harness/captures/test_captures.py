"""What a backward captures: what is read in the source is what double backward does."""

from __future__ import annotations

import functools
import importlib

import numpy as np
import pytest
import torch
from torch.autograd.function import once_differentiable
from typer.testing import CliRunner

from parity_tests.cli.app import app
from parity_tests.harness.captures.captures import Effect, captures
from parity_tests.harness.captures.provenance import Unreadable
from parity_tests.harness.checks import CHECKS
from parity_tests.operators.catalogue import COLLECTION
from parity_tests.suite.harness.captures import _captures as shapes
from parity_tests.suite.harness.checks import planted
from parity_tests.suite.harness.checks.planted import interleaved, vjp_of_jvp, vjp_of_vjp
from torch_impl._attn_function import Attn


def wrong(formula) -> dict[tuple[str, str], str]:
    """By formula and name of what makes second order wrong: the fix."""
    return {(c.by, c.name): c.fix for c in captures(formula) if c.effect is Effect.WRONG}


def double_backward_is_right(function) -> bool:
    x = torch.tensor([0.3, -0.7, 1.1], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(function.apply, x)
    return torch.autograd.gradgradcheck(function.apply, x, raise_exception=False)


@pytest.mark.parametrize("name", shapes.RIGHT)
def test_right(name):
    function = shapes.RIGHT[name]
    assert not wrong(function)
    assert not [c for c in captures(function) if c.effect is Effect.UNKNOWN]
    assert double_backward_is_right(function)


@pytest.mark.parametrize("name", shapes.WRONG)
def test_wrong(name):
    function, found, fix = shapes.WRONG[name]
    assert list(wrong(function)) == [("backward", found)]
    assert fix in wrong(function)["backward", found]
    assert not double_backward_is_right(function)


def test_attn_is_clean():
    assert {(c.by, c.reason) for c in captures(Attn)} == {
        (by, reason) for by in ("backward", "jvp") for reason in ("an input", "an output")
    }


def test_the_planted_mistakes_are_found():
    assert list(wrong(vjp_of_vjp.SavedIntermediate)) == [("backward", "ctx.t")]
    assert wrong(vjp_of_jvp.JvpDetached) == {("jvp", "x.detach()"): "leave it in the graph"}
    assert list(wrong(vjp_of_vjp.BackwardDetached)) == [("backward", "g.detach()")]
    assert list(wrong(interleaved.StackOnTheClass)) == [("backward", "StackOnTheClass.pending")]


ALSO_WRONG = {"SavedIntermediate", "JvpDetached", "BackwardDetached", "OnTheClass", "StackOnTheClass"} | {
    "DataSaved",  # saves x.data
    "AnotherScale",  # saves x times a power of two
    "WritesToOutputInBackward",  # keeps an output that is detached
    *("CallsItInTheBackward", "_RunsAgain", "_RunsAgainWithX"),  # differentiate a graph of their own, of a detached x
    "Replaces",  # writes to the attribute .grad of what it has saved
    "CacheReturned",  # returns what it finds in a list with w.tolist() in it
}


def test_mistakes_of_another_kind_raise_no_alarm():
    """A wrong factor is no capture."""
    modules = [importlib.import_module(f"{planted.__name__}.{check}") for check in CHECKS]
    functions = [
        c
        for module in modules
        for c in vars(module).values()
        if isinstance(c, type) and issubclass(c, torch.autograd.Function) and c.__module__ == module.__name__
    ]
    assert len(functions) > 30
    assert {c.__name__ for c in functions if wrong(c)} == ALSO_WRONG


STATE = {  # planted for other checks, and a constant to autograd all the same
    ("linear", "shared_workspace"),
    ("softmax", "backward_keeps_state"),
    ("sine", "saved_on_the_class"),
    ("swiglu", "cotangent_overwritten"),
}
# False alarms, as no source tells. Of `x.detach() if flag else x` both are read, whatever the flag is; and a shift by
# the maximum of a detached x, which cancels, is read as one that does not.
FLAG_OR_SHIFT = {"bilinear", "attention", "softmax", "cross_entropy"}


@pytest.mark.slow
def test_the_collection():
    """All that is planted for double backward is found; of a hundred with other mistakes nothing is said."""
    planted, found, clean = set(), set(), 0
    for op, case in COLLECTION.items():
        for name, mistake in case.mistakes.items():
            cls = getattr(mistake.call, "__self__", None)
            if not isinstance(cls, type) or mistake.changes:  # formulas save for all of their versions, wrong or not
                continue
            planted |= {(op, name)} if mistake.caught_by == "vjp_of_vjp" else set()
            found |= {(op, name)} if wrong(cls) else set()
            clean += not wrong(cls)
        if isinstance(cls := getattr(case.right, "__self__", None), type):
            assert not wrong(cls)
    assert len(planted) > 10
    assert clean > 100
    assert found >= planted | STATE
    assert {op for op, _ in found - planted - STATE} == FLAG_OR_SHIFT


class Once(torch.autograd.Function):
    forward = shapes.SavesIntermediate.forward

    @staticmethod
    @once_differentiable
    def backward(ctx, y_bar):
        (slope,) = ctx.saved_tensors
        return y_bar * slope


def test_once_differentiable():
    (found,) = captures(Once)
    assert found.effect is Effect.FINE
    assert "it offers no second order" in found.reason


class WritesToItsInput(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.add_(1)
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, y_bar):
        (x,) = ctx.saved_tensors
        return y_bar * torch.cos(x)


class MarksItDirty(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.sigmoid_()
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, y_bar):
        (y,) = ctx.saved_tensors
        return y_bar * y * (1 - y)


def test_an_input_written_to():
    ((key, fix),) = wrong(WritesToItsInput).items()
    assert (key, fix) == (("backward", "x"), "compute with a clone of x, or ctx.mark_dirty(x) and return it")
    assert not wrong(MarksItDirty)


class Contiguous(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, eps: float):
        x = x.contiguous()
        ctx.save_for_backward(x)
        ctx.scale = 1 / eps
        return x * x / eps

    @staticmethod
    def backward(ctx, y_bar):
        (x,) = ctx.saved_tensors
        return 2 * x * y_bar * ctx.scale, None


def test_what_may_be_an_input_and_may_be_a_copy():
    ((key, fix),) = wrong(Contiguous).items()
    assert key == ("backward", "x")
    assert fix.startswith("save x and convert in the backward")


class Unset(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.sin(x)

    @staticmethod
    def backward(ctx, y_bar):
        return y_bar * ctx.anything


def test_it_says_what_it_cannot_tell():
    (found,) = captures(Unset)
    assert (found.effect, found.reason) == (Effect.UNKNOWN, "ctx.anything is set nowhere before")
    with pytest.raises(Unreadable, match="no source"):
        captures(np.sin)
    with pytest.raises(Unreadable, match="returns no closure"):
        captures(double_backward_is_right)


# functions that return their outputs and closures


def sine(x):
    y = np.sin(x)

    def backward(y_bar):
        return (y_bar * cosine(x),)

    return y, backward


def cosine(x):
    return np.cos(x), lambda y_bar: -y_bar * sine(x)[0]


def product(a, b):
    return a @ b, lambda c_bar: (product(c_bar, b), product(a, c_bar))


def hyperbolic(x):
    y = np.tanh(x)
    result = y
    return result, (lambda y_bar: y_bar * (1 - y * y)), lambda x_dot: (1 - result * result) * x_dot


def hyperbolic_with_an_intermediate(x):
    y = np.tanh(x)
    slope = 1 - y * y
    return y, lambda y_bar: y_bar * slope


def with_a_node_in_between(a, b):
    s = a @ b
    return np.tanh(s), lambda y_bar: y_bar * s


def _scaled(slope, y_bar):
    return slope * y_bar


def partial_of_an_intermediate(x):
    return np.sin(x), functools.partial(_scaled, np.cos(x))


def late_binding(x):
    def backward(y_bar):
        return y_bar * y

    y = np.exp(x)
    kept, y = y, np.exp(x) * 1
    return kept, backward


def with_parameters(x, *, axis=None):
    count = x.shape[0]
    return x.sum(axis) / count, lambda y_bar: np.broadcast_to(y_bar / count, x.shape)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (product, []),
        (hyperbolic, []),
        (with_parameters, []),
        (hyperbolic_with_an_intermediate, ["slope"]),
        (partial_of_an_intermediate, ["np.cos(x)"]),
        (late_binding, ["y"]),
    ],
)
def test_closures(function, expected):
    assert [name for _, name in wrong(function)] == expected
    assert not [c for c in captures(function) if c.effect is Effect.UNKNOWN]


def test_what_an_engine_may_have_recorded():
    (found,) = captures(with_a_node_in_between)
    assert (found.name, found.effect) == ("s", Effect.UNKNOWN)
    assert "right only if what computes it is recorded, too" in found.reason


def test_each_closure_by_its_name():
    assert {(c.by, c.name, c.reason) for c in captures(hyperbolic)} == {
        ("lambda y_bar: y_bar * (1 - y * y)", "result", "an output"),
        ("lambda x_dot: (1 - result * result) * x_dot", "result", "an output"),
    }


# the command


def invoke(*arguments: str):
    return CliRunner().invoke(app, ["captures", *arguments], env={"COLUMNS": "250"})


def test_the_command(tmp_path):
    result = invoke("torch_impl._attn_function:Attn")
    assert result.exit_code == 0, result.output
    assert "wrong" not in result.output
    result = invoke("parity_tests.suite.harness.checks.planted.vjp_of_vjp:SavedIntermediate")
    assert result.exit_code == 1
    assert "backward: ctx.t  return it as one more output, or save x and compute it" in result.output
    path = tmp_path / "mine.py"
    path.write_text("import numpy as np\n\ndef scale(x):\n    return 2 * x, lambda y_bar: 2 * y_bar\n", "utf-8")
    result = invoke(f"{path}:scale")
    assert (result.exit_code, result.output.split()[-2:]) == (0, ["captures", "nothing"])
    assert invoke(f"{__name__}:Unset").exit_code == 2


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("Attn", "give module:Name or file.py:Name"),
        ("no_such_module:Attn", "No module named"),
        ("no_such.py:Attn", "no such file"),
        ("torch_impl:NoSuch", "has no function or class NoSuch"),
        ("parity_tests.harness.captures.captures:captures", "returns no closure"),
    ],
)
def test_the_command_refuses(target, message):
    result = invoke(target)
    assert result.exit_code == 2
    assert message in result.output
