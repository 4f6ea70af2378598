"""What a failure is said to look like: every explanation by a planted mistake; else nothing."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import OpSpec, crosscheck
from parity_tests.harness.diagnosis.fit import as_simple_number
from parity_tests.harness.report.markdown import as_markdown
from parity_tests.harness.report.results import WrongResult
from parity_tests.suite.harness._ops import judged, normal

pytestmark = pytest.mark.usefixtures("certified_once")

# Explanations.


class _Altered(torch.autograd.Function):
    """An operator whose gradients are altered: change(inputs, cotangents, gradients, vjp) -> gradients."""

    @classmethod
    def made(cls, forward: Callable, change: Callable) -> Callable:
        def gradients(inputs, cotangents):
            with torch.enable_grad():
                leaves = [x.detach().requires_grad_() for x in inputs]
                outputs = forward(*leaves)
                outputs = outputs if isinstance(outputs, tuple) else (outputs,)
                return torch.autograd.grad(outputs, leaves, cotangents)

        def backward(ctx, *cotangents):
            inputs = ctx.saved_tensors
            return change(inputs, cotangents, gradients(inputs, cotangents), gradients)

        def save(ctx, *inputs):
            ctx.save_for_backward(*inputs)
            return forward(*inputs)

        return type("Altered", (cls,), {"forward": staticmethod(save), "backward": staticmethod(backward)}).apply


def _both(x, y):
    return x * y, torch.sin(x) * y


SHAPE = (4, 5)
BOTH = OpSpec(
    "both",
    lambda x, y: (x * y, jnp.sin(x) * y),
    inputs=(normal(*SHAPE), normal(*SHAPE, seed=1)),
    output_names=("first", "second"),
)


def result(call: Callable, spec: OpSpec, check: str, dtype: str = "float64", label: str = "x_bar") -> WrongResult:
    """The wrong result of that label."""
    failure = judged(call, spec, check, dtype).failure
    assert failure is not None
    (wrong,) = (wrong for wrong in failure.wrong if wrong.label == label)
    return wrong


def looks(change: Callable, dtype: str = "float64") -> str | None:
    """What x_bar looks like if it is change((x, y), (g, h), (x_bar, y_bar), vjp)."""
    call = _Altered.made(_both, lambda i, w, bars, vjp: (change(i, w, bars, vjp), bars[1]))
    return result(call, BOTH, "vjp", dtype).looks_like


def _row_factors(a: torch.Tensor) -> torch.Tensor:
    return torch.tensor([1.5, 1.0, -0.3, 7.1], dtype=a.dtype)[:, None]


def _half_of_the_negative(x, a):
    return torch.where(x < 0, a / 2, a)


def _only_sine_in_float32(i, w):
    (x, y), (g, h) = i, w
    return y * g + (torch.cos(x.float()) * y.float() * h.float()).to(x.dtype) / 3 * 3


EXPLANATIONS: dict[str, tuple[Callable, str]] = {
    "a third": (lambda i, w, b, vjp: b[0] / 3, "1/3 * oracle"),
    "a number": (lambda i, w, b, vjp: b[0] * (2 / np.pi) ** 0.5, "0.797885 * oracle"),
    "nearly one": (lambda i, w, b, vjp: b[0] * (1 + 1e-6), "(1 +1e-06) * oracle"),
    "magnitude": (lambda i, w, b, vjp: b[0].abs(), "|oracle|"),
    "minus magnitude": (lambda i, w, b, vjp: -b[0].abs(), "-|oracle|"),
    "square": (lambda i, w, b, vjp: b[0] ** 2, "oracle²"),
    "clamped above": (lambda i, w, b, vjp: b[0].clamp(max=0.25), "oracle, clamped to at most 0.25"),
    "clamped": (lambda i, w, b, vjp: b[0].clamp(-0.25, 0.5), "oracle, clamped to at most 0.5, at least -0.25"),
    "other memory order": (lambda i, w, b, vjp: b[0].T.reshape(4, 5), "the oracle's, transposed, then reshaped"),
    "and back": (lambda i, w, b, vjp: b[0].reshape(5, 4).T, "the oracle's, reshaped, then transposed"),
    "reversed": (lambda i, w, b, vjp: b[0].flip(1), "the oracle's, reversed along axis 1"),
    "another input's": (lambda i, w, b, vjp: b[1], "the oracle's y_bar"),
    "sum": (
        lambda i, w, b, vjp: b[0].sum(0).expand_as(b[0]),
        "the sum of the oracle's over axis 0, everywhere along it",
    ),
    "mean": (
        lambda i, w, b, vjp: b[0].mean(1, keepdim=True).expand_as(b[0]),
        "the mean of the oracle's over axis 1, everywhere along it",
    ),
    "cotangent": (lambda i, w, b, vjp: w[0] * 1, "first_bar"),
    "minus cotangent": (lambda i, w, b, vjp: -w[1], "-second_bar"),
    "output": (lambda i, w, b, vjp: torch.sin(i[0]) * i[1], "second"),
    "a factor too many": (lambda i, w, b, vjp: b[0] * i[0], "oracle * x"),
    "a factor missing": (lambda i, w, b, vjp: b[0] / i[1], "oracle / y"),
    "a summand too many": (lambda i, w, b, vjp: b[0] + i[0], "oracle + x"),
    "a summand missing": (lambda i, w, b, vjp: b[0] - w[1], "oracle - second_bar"),
    "a cotangent of 1": (
        lambda i, w, b, vjp: vjp(i, (torch.ones_like(w[0]), w[1]))[0],
        "the oracle's with first_bar = 1",
    ),
    "cotangents of 1": (
        lambda i, w, b, vjp: vjp(i, tuple(map(torch.ones_like, w)))[0],
        "the oracle's with first_bar = 1 and second_bar = 1",
    ),
    "cotangents swapped": (
        lambda i, w, b, vjp: vjp(i, (w[1], w[0]))[0],
        "the oracle's with first_bar and second_bar swapped",
    ),
    "inputs swapped": (lambda i, w, b, vjp: vjp((i[1], i[0]), w)[0], "the oracle's with x and y swapped"),
    "magnitude of a cotangent": (
        lambda i, w, b, vjp: vjp(i, (w[0], w[1].abs()))[0],
        "the oracle's with |second_bar| for second_bar",
    ),
    "clamped cotangent": (
        lambda i, w, b, vjp: vjp(i, (w[0].clamp(-1, 1), w[1]))[0],
        "the oracle's with first_bar clamped to [-1, 1]",
    ),
    "cotangent in another memory order": (
        lambda i, w, b, vjp: vjp(i, (w[0].T.reshape(4, 5), w[1]))[0],
        "the oracle's with first_bar transposed, then reshaped",
    ),
    "cotangent in another memory order, back": (
        lambda i, w, b, vjp: vjp(i, (w[0], w[1].reshape(5, 4).T))[0],
        "the oracle's with second_bar reshaped, then transposed",
    ),
    "row by row": (
        lambda i, w, b, vjp: b[0] * _row_factors(b[0]),
        "oracle, with a factor of its own for each index of axis 0",
    ),
}


def _one_off(change: Callable) -> Callable:
    def changed(*args):
        x = change(*args).clone()
        x[2, 1] += 1e-3
        return x

    return changed


@pytest.mark.parametrize("name", EXPLANATIONS)
def test_an_explanation(name):
    change, text = EXPLANATIONS[name]
    assert looks(change) == f"x_bar = {text}"
    assert looks(_one_off(change)) is None


SENTENCES: dict[str, tuple[Callable, str]] = {
    "cotangent ignored": (
        lambda i, w, b, vjp: vjp(i, (w[0], 0 * w[1]))[0],
        "x_bar ignores the cotangent of second",
    ),
    "sign of a part": (
        lambda i, w, b, vjp: vjp(i, (w[0], -w[1]))[0],
        "x_bar has the part that comes from the cotangent of second with the wrong sign",
    ),
    "a part twice": (
        lambda i, w, b, vjp: vjp(i, (2 * w[0], w[1]))[0],
        "x_bar has 2 times the part that comes from the cotangent of first",
    ),
    "some entries halved": (
        lambda i, w, b, vjp: _half_of_the_negative(i[0], b[0]),
        "the wrong entries of x_bar are 0.5 * oracle",
    ),
    "some entries negated": (
        lambda i, w, b, vjp: torch.where(i[0] < 0, -b[0], b[0]),
        "the wrong entries of x_bar are -oracle",
    ),
    "some entries zero": (lambda i, w, b, vjp: b[0] * (i[0] < 0), "the wrong entries of x_bar are 0"),
    "another order": (
        lambda i, w, b, vjp: b[0].flatten()[torch.arange(20) * 7 % 20].reshape(4, 5),
        "x_bar has the oracle's entries, in another order",
    ),
    "rounded": (
        lambda i, w, b, vjp: b[0].float().to(b[0].dtype),
        "x_bar is right to float32's rounding, and all its entries are float32 numbers",
    ),
    "computed in float32": (
        lambda i, w, b, vjp: _only_sine_in_float32(i, w),
        "x_bar is right to float32's rounding: computed at lower precision?",
    ),
    "a constant of ten digits": (
        lambda i, w, b, vjp: i[1] * w[0] + torch.cos(i[0] * 0.9999999999) * i[1] * w[1],
        "x_bar is right to 9 digits: a constant written with about as many, or an epsilon?",
    ),
}


def test_the_constant_of_gelu_with_eight_digits():
    spec = OpSpec("gelu", lambda x: x * (1 + jnp.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), "(n,d)->(n,d)")
    wrong = result(lambda x: x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x**3))), spec, "forward", label="output")
    assert wrong.looks_like is not None
    assert "digits: a constant written with about as many" in wrong.looks_like


@pytest.mark.parametrize("name", SENTENCES)
def test_a_sentence(name):
    change, text = SENTENCES[name]
    assert looks(change) == text
    assert looks(_one_off(change)) is None


def test_the_pattern_is_said_with_the_explanation():
    call = _Altered.made(_both, lambda i, w, b, vjp: (_half_of_the_negative(i[0], b[0]), b[1]))
    assert result(call, BOTH, "vjp").pattern == "11/20 entries wrong, exactly where x < 0"


def test_rounded_to_16_bits():
    text = "x_bar is right to bfloat16's rounding, and all its entries are bfloat16 numbers"
    assert looks(lambda i, w, b, vjp: b[0].bfloat16().to(b[0].dtype), "float32") == text


@pytest.mark.parametrize(
    ("change", "to_do"),
    [
        (
            lambda b: b.float().to(b.dtype),
            "Compute in float64, the dtype of the inputs, from the first step to the last",
        ),
        (lambda b: b / 2, "Correct the factor or the term that the failure names; where it names none, "),
    ],
    ids=["rounded", "a factor"],
)
def test_what_to_do_about_a_result_that_was_rounded_on_the_way(change, to_do):
    """It has no factor or term to be corrected."""
    failure = judged(_Altered.made(_both, lambda i, w, b, vjp: (change(b[0]), b[1])), BOTH, "vjp").failure
    assert failure is not None
    assert failure.to_do.startswith(to_do)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_the_same_is_said_in_a_narrower_format(dtype):
    assert looks(lambda i, w, b, vjp: -b[0], dtype) == "x_bar = -oracle (the sign)"
    assert looks(lambda i, w, b, vjp: vjp(i, (w[0], 0 * w[1]))[0], dtype) == "x_bar ignores the cotangent of second"
    assert looks(lambda i, w, b, vjp: b[0].flip(0), dtype) == "x_bar = the oracle's, reversed along axis 0"


def test_what_is_only_nearly_proportional_is_not_said_to_be():
    """Entries of about half of their size, as sums are that no longer grow in 16 bits."""
    shrunk = torch.linspace(0.5, 0.56, 20).reshape(SHAPE)
    for dtype in ("bfloat16", "float16"):
        assert looks(lambda i, w, b, vjp: b[0] * shrunk.to(b[0]), dtype) is None


@pytest.mark.slow
def test_garbage_looks_like_nothing():
    for seed in range(20):
        noise = torch.tensor(normal(*SHAPE, seed=100 + seed))
        assert looks(lambda i, w, b, vjp, noise=noise: noise.to(b[0])) is None
        assert looks(lambda i, w, b, vjp, noise=noise: b[0] * (1 + noise.to(b[0])), "bfloat16") is None


@pytest.mark.parametrize("size", [1e-4, 1e-6, 1e-8, 1e-10])
def test_a_small_mistake_is_not_taken_for_low_precision(size):
    """An epsilon of another size makes all entries too small, or too large; rounding makes errors of either sign."""
    text = looks(lambda i, w, b, vjp: b[0] * (1 - size * (1 + i[0] ** 2))) or ""
    assert ("rounding" in text, "digits" in text) == (False, size < 1e-7)


def test_what_two_explanations_fit_is_not_said():
    spec = OpSpec("sum", lambda x, y, z: 2 * x + y + z, inputs=tuple(normal(6, seed=i) for i in range(3)))
    call = _Altered.made(lambda x, y, z: 2 * x + y + z, lambda i, w, b, vjp: (b[0] * i[0] * 0 + b[1] * i[1], *b[1:]))
    assert result(call, spec, "vjp").looks_like != "x_bar = the oracle's y_bar"
    twins = OpSpec("twins", lambda x, y, z: x * x * (y + z), inputs=tuple(normal(6, seed=i) for i in range(3)))
    call = _Altered.made(lambda x, y, z: x * x * (y + z), lambda i, w, b, vjp: (b[1], *b[1:]))
    assert result(call, twins, "vjp").looks_like is None


def test_one_entry_explains_nothing():
    spec = OpSpec("square", lambda x: x * x, inputs=(normal(1),))
    call = _Altered.made(lambda x: x * x, lambda i, w, b, vjp: (b[0] / 2,))
    assert result(call, spec, "vjp").looks_like is None


# Terms, sizes, other calls, other maps.


def _terms(x, y):
    return x * y + torch.tanh(x) * y * y + x * x * x


TERMS = OpSpec(
    "terms", lambda x, y: x * y + jnp.tanh(x) * y * y + x * x * x, inputs=(normal(3, 4), normal(3, 4, seed=1))
)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda i, w, b, vjp: (b[0] - i[1] * w[0], b[1]), "x_bar lacks the term output_bar * y"),
        (
            lambda i, w, b, vjp: (b[0] - 2 * i[1] * w[0], b[1]),
            "x_bar has the term output_bar * y with the wrong sign",
        ),
        (lambda i, w, b, vjp: (b[0] + 2 * i[1] * w[0], b[1]), "x_bar has 3 times the term output_bar * y"),
    ],
)
def test_a_term_is_missing(change, text):
    assert result(_Altered.made(_terms, change), TERMS, "vjp").looks_like == text


def test_an_output_in_a_term_is_called_by_its_name():
    spec = OpSpec("op", lambda x: jnp.tanh(x), inputs=(normal(3, 4),), output_names=("y",))
    wrong = _Altered.made(torch.tanh, lambda i, w, b, vjp: (w[0] * (1 - torch.tanh(i[0])),))
    assert result(wrong, spec, "vjp").looks_like == "x_bar lacks the term y_bar * y and the term y_bar * -y * y"


def test_the_size_of_an_axis_is_recognized():
    spec = OpSpec("total", lambda x: x.sum(0), "(n,m)->(m)")
    assert result(lambda x: x.mean(0), spec, "forward", label="output").looks_like == (
        "output = 0.25 * oracle (axis n is 4)"
    )


def test_a_tangent_is_ignored():
    class Product(_Altered):
        @staticmethod
        def forward(x, y):
            return x * y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_forward(*inputs)

        @staticmethod
        def jvp(ctx, x_dot, y_dot):
            return ctx.saved_tensors[0] * y_dot

    spec = OpSpec("product", lambda x, y: x * y, inputs=BOTH.inputs)
    text = "output_dot ignores the tangent of x"
    assert result(Product.apply, spec, "jvp", label="output_dot").looks_like == text


def test_an_argument_of_second_order_is_ignored():
    class Cube(torch.autograd.Function):
        """Its gradient with respect to y does not see that it depends on x."""

        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * x * y

        @staticmethod
        def backward(ctx, *cotangents):
            (x, y), (w,) = ctx.saved_tensors, cotangents
            return 2 * x * y * w, (x * x).detach() * w

    spec = OpSpec("cube", lambda x, y: x * x * y, inputs=BOTH.inputs)
    assert result(Cube.apply, spec, "vjp_of_vjp").looks_like == "x_bar ignores y_bar_bar"


def test_a_stale_value():
    class Kept(torch.autograd.Function):
        """The backward of every call uses y of the last."""

        y = torch.empty(0)

        @staticmethod
        def forward(ctx, x, y):
            Kept.y = y.detach().clone()
            ctx.save_for_backward(x)
            return torch.sin(x) * y

        @staticmethod
        def backward(ctx, *cotangents):
            (x,), (w,) = ctx.saved_tensors, cotangents
            return torch.cos(x) * Kept.y * w, torch.sin(x) * w

    spec = OpSpec("kept", lambda x, y: jnp.sin(x) * y, "(n,m),(n,m)->(n,m)")
    assert result(Kept.apply, spec, "interleaved").looks_like == "x_bar = the oracle's with y of another call"


def test_entries_that_are_not_finite():
    """Which ones: of those that are wrong, only these are NaN."""

    def change(i, w, b, vjp):
        return torch.where(i[0] < 0, float("nan"), b[0] + (i[0] > 1)), b[1]

    wrong = result(_Altered.made(_both, change), BOTH, "vjp")
    assert wrong.looks_like == "11 entries of x_bar are not finite, exactly where x < 0"


# Parameters.


def test_the_parameters_of_a_call_are_told():
    spec = OpSpec("scaled", lambda x, *, beta, dims: beta * x, "(n)->(n)", params={"beta": -2.0, "dims": [0]})

    class Unscaled(torch.autograd.Function):
        @staticmethod
        def forward(x, beta, dims):
            return beta * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, *bars):
            return bars[0], None, None

    report = crosscheck(lambda x, *, beta, dims: Unscaled.apply(x, beta, dims), spec, checks=["vjp"])
    assert report.failures[0].options == {"beta": "-2.0", "dims": "[0]"}
    assert "  with    beta=-2.0, dims=[0]\n" in str(report)
    assert ", with `beta=-2.0, dims=[0]`" in as_markdown(report)


# Numbers.


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.5 - 1e-12, 0.5 + 1e-12, "0.5"),
        (-3 - 1e-12, -3 + 1e-12, "-3"),
        (1 / 3 - 1e-12, 1 / 3 + 1e-12, "1/3"),
        (0.49, 0.51, "0.5"),
        (2.9, 3.05, None),
        (0.3, 0.36, None),
        (0.79788456, 0.79788457, "0.797885"),
        (0.7978, 0.7979, None),
    ],
)
def test_how_a_factor_is_written(low, high, text):
    number = as_simple_number(low, high)
    assert (number[1] if number else None) == text
