"""The check: what is not read is not proved."""

from __future__ import annotations

import threading
from collections.abc import Callable

import jax.numpy as jnp
import pytest
import torch
import torch.nn.functional as F
from torch.autograd.function import once_differentiable

from parity_tests import Input, OpSpec, integer
from parity_tests.harness.findings import Verdict
from parity_tests.suite.harness._ops import SQUARE, judged, unary_function
from parity_tests.suite.marks import fast


def complex_zero(x):
    return torch.fft.fft(x).real * 0


def replaced(x, g):
    slope = 2 * x * g
    slope.data = slope.data * (1 + 2**-52)
    return slope


class WithJvp(torch.autograd.Function):
    """It has a tangent, which PyTorch's tracer cannot read."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x * x

    @staticmethod
    @once_differentiable
    def backward(ctx, y_bar):
        (x,) = ctx.saved_tensors
        return 2 * x * y_bar

    @staticmethod
    def jvp(ctx, x_dot):
        (x,) = ctx.saved_tensors
        return 0 * x_dot if x_dot.abs().max() > 1e9 else 2 * x * x_dot


def _caught(condition: Callable[[torch.Tensor], object]) -> Callable[[torch.Tensor], bool]:
    """False also where a tracer, or the harness, refuses to tell."""

    def told(x: torch.Tensor) -> bool:
        try:
            return not condition(x)
        except Exception:
            return True

    return told


def branching(condition: Callable[[torch.Tensor], bool]) -> Callable[[torch.Tensor], torch.Tensor]:
    return unary_function(lambda x: x * x, lambda x, g: 2 * x * g if condition(x.detach()) else x * g)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (unary_function(lambda x: x * x + complex_zero(x), lambda x, g: 2 * x * g), "forward cannot be told"),
        pytest.param(
            lambda x: x * x + torch.nan_to_num(torch.empty_like(x)) * 0,
            "forward cannot be told",
            marks=pytest.mark.slow,
        ),
        (unary_function(lambda x: x * x, lambda x, g: 2 * x * g + complex_zero(g)), "vjp cannot be told"),
        (lambda x: x * x if x.sum() > 0 else x * x * 1.0, "forward is refused: PyTorch's tracer gives up"),
        (unary_function(lambda x: x * x, replaced), "vjp cannot be told: PyTorch's trace of it computes other numbers"),
        (WithJvp.apply, "jvp is refused: PyTorch's tracer gives up"),
        (branching(lambda x: x.numpy().max() < 50), "vjp cannot be told: numpy() gives its numbers"),
        (branching(lambda x: max(x.flatten().tolist()) < 50), "vjp cannot be told: tolist() gives its numbers"),
        (branching(lambda x: "e+" not in str(x)), "vjp cannot be told: __repr__() gives its numbers"),
        (
            branching(lambda x: not x[x > 50].numel()),
            "vjp cannot be told: the shape or the value of aten::index.Tensor",
        ),
        (
            branching(lambda x: not len(torch.nonzero(x > 50))),
            "vjp cannot be told: the shape or the value of aten::non",
        ),
        (branching(_caught(lambda x: x.min() > 50)), "vjp cannot be told: aten::_local_scalar_dense raises"),
        (branching(_caught(lambda x: len(torch.nonzero(x > 50)))), "vjp cannot be told: the shape or the value"),
        (
            branching(_caught(lambda x: torch.linalg.cholesky(-x[:1, :1].abs() - 1))),
            "vjp cannot be told: aten::_linalg_check_errors raises",
        ),
    ],
    ids=[
        "the values",
        "memory that nobody has written",
        "the gradient",
        "a branch on data",
        "memory that is replaced",
        "the tangent",
        "an array's branch",
        "a list's branch",
        "a text's branch",
        "a selection's size",
        "the number of places",
        "a refusal that is caught",
        "a refusal of ours that is caught",
        "an error that is caught",
    ],
)
def test_what_is_not_read_is_not_proved(call: Callable, reason: str) -> None:
    row = judged(call, SQUARE, "proof")
    assert row.verdict is Verdict.SKIPPED, row
    assert row.reason.startswith(reason)


def of_data(x):
    y = x * x
    y.data = 2 * y.detach()
    return y


def by_numpy(x):
    y = x * x
    y.detach().numpy()[...] *= 2
    return y


def three_times(x, g):
    g = 2 * x * g
    g.detach().numpy()[...] *= 3
    return g


def by_a_thread(x):
    y = x * x
    thread = threading.Thread(target=lambda: y.detach().mul_(2))
    thread.start()
    thread.join()
    return y


def of_another_buffer(x, g):
    return torch.ops.aten.log_sigmoid_backward(g, x, torch.zeros_like(x))


LOG_SIGMOID = OpSpec("log_sigmoid", lambda x: -jnp.log1p(jnp.exp(-x)), "(n)->(n)")


@pytest.mark.parametrize(
    ("call", "spec"),
    [
        pytest.param(unary_function(lambda x: 7 * x, lambda x, g: 2 * x * g), SQUARE, id="another forward"),
        pytest.param(of_data, SQUARE, id="by .data"),
        pytest.param(by_numpy, SQUARE, id="by NumPy"),
        pytest.param(unary_function(lambda x: x * x, three_times), SQUARE, id="a gradient by NumPy"),
        pytest.param(by_a_thread, SQUARE, id="by a thread"),
        pytest.param(
            unary_function(F.logsigmoid, of_another_buffer), LOG_SIGMOID, id="a buffer that JAX does not read"
        ),
    ],
)
def test_what_no_trace_shows_is_a_mismatch(call: Callable, spec: OpSpec) -> None:
    row = judged(call, spec, "proof")
    assert row.verdict is Verdict.MISMATCH
    assert row.failure is not None


@pytest.mark.slow
def test_the_row_says_at_which_integers_and_inputs() -> None:
    names = [Input("x"), Input("i", integer(1, 3)), Input("b", optional=True)]
    spec = OpSpec("f", lambda x, i, b=None: x * i if b is None else x * i + b, "(n),(n),(n)->(n)", input_names=names)
    row = judged(lambda x, i, b=None: x * i if b is None else x * i + b, spec, "proof")
    assert row.verdict is Verdict.PROVED
    assert "of 2 samples and at their integers, with every optional input: the programs agree" in row.proofs[0]


def test_a_map_that_the_candidate_refuses_is_told() -> None:
    row = judged(unary_function(lambda x: x * x, lambda x, g: 2 * x * g), SQUARE, "proof")
    assert row.verdict is Verdict.PROVED
    assert any(line.startswith("jvp is refused: ") for line in row.proofs)


@pytest.mark.slow
def test_integer_outputs_are_compared_by_numbers() -> None:
    spec = OpSpec("signs", lambda x: (x * 2, x > 0), "(n)->(n),(n)")
    row = judged(lambda x: (x * 2, x > 0), spec, "proof")
    assert row.verdict is Verdict.PROVED, row.reason
    assert "of 3 finite fields; output1 is compared at one sample; rounding is judged" in row.proofs[0]
    assert judged(lambda x: (x * 2, x < 0), spec, "proof").verdict is Verdict.MISMATCH


def in_float32(slope: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """A square that computes in float32 inside; a slope of 2 is right."""
    return unary_function(
        lambda x: x.float().square().to(x.dtype), lambda x, y_bar: (slope * x.float() * y_bar).to(x.dtype)
    )


@fast("bfloat16")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_formula_is_proved_in_a_shorter_format(dtype: str) -> None:
    assert judged(in_float32(2), SQUARE, "proof", dtype).verdict is Verdict.PROVED


def test_noise_hides_no_difference() -> None:
    row = judged(in_float32(2.001), SQUARE, "proof", "bfloat16")
    assert row.verdict is Verdict.UNRESOLVED
    assert row.reason.startswith("vjp differs ")
    assert "in 300 digits, which bfloat16 may not show" in row.reason
    assert judged(in_float32(2.001), SQUARE, "vjp", "bfloat16").verdict is Verdict.PASS


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "verdict"), [(0.3, Verdict.PROVED), (0.3001, Verdict.UNRESOLVED)])
def test_a_constant_is_the_decimal_that_float32_has_rounded(factor: float, verdict: Verdict) -> None:
    spec = OpSpec("scaled", lambda x: 0.3 * x, inputs=SQUARE.inputs)
    scaled = unary_function(lambda x: x * torch.tensor(0.3).item(), lambda x, g: g * torch.tensor(factor).item())
    assert judged(scaled, spec, "proof", "bfloat16").verdict is verdict


@pytest.mark.slow
def test_an_epsilon_that_pytorch_rounds_is_the_decimal() -> None:
    spec = OpSpec("rms", lambda x: x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5), inputs=SQUARE.inputs)
    assert judged(lambda x: F.rms_norm(x, (3,), None, 1e-5), spec, "proof", "float32").verdict is Verdict.PROVED


def test_a_constant_of_a_short_format_may_be_a_rounded_number() -> None:
    spec = OpSpec("scaled", lambda x: 0.3 * x, inputs=SQUARE.inputs)
    row = judged(lambda x: x * torch.tensor(0.3, dtype=x.dtype), spec, "proof", "bfloat16")
    assert (row.verdict, row.reason) == (
        Verdict.SKIPPED, "forward cannot be told: a constant of bfloat16 may be a rounded number",
    )  # fmt: skip


@pytest.mark.slow
def test_a_mask_of_the_least_float() -> None:
    spec = OpSpec("masked", lambda x: jnp.where(x > 0, x, 0.0), "(n)->(n)")
    least = torch.finfo(torch.float64).min
    row = judged(lambda x: torch.where(x > 0, x, torch.full_like(x, least)).clamp(min=0), spec, "proof")
    assert row.verdict in (Verdict.PROVED, Verdict.UNRESOLVED)


def _mean_of(count: Callable[[torch.Tensor], float]) -> Callable[[torch.Tensor], torch.Tensor]:
    return unary_function(lambda x: (x * x).mean(0), lambda x, y_bar: 2 * x * y_bar / count(x))


def _in_a_loop(x: torch.Tensor) -> torch.Tensor:
    return sum((row * row for row in x), torch.zeros_like(x[0])) / len(x)


@fast("of an array")
@pytest.mark.parametrize(
    ("call", "sizes", "where"),
    [
        (_mean_of(len), None, "n = 4, d = 3 and n = 7, d = 5 (the same operations), on"),
        pytest.param(_in_a_loop, None, "n = 4, d = 3 and n = 7, d = 5 (other operations), on", marks=pytest.mark.slow),
        (_mean_of(len), "n % 2 == 0", "n = 4, d = 3 and n = 8, d = 6 (the same operations), on"),
    ],
    ids=["of an array", "in a loop", "of even sizes"],
)
def test_a_proof_at_two_sizes(call: Callable, sizes: str | None, where: str) -> None:
    row = judged(call, OpSpec("mean", lambda x: (x * x).mean(0), "(n,d)->(d)", sizes=sizes), "proof")
    assert row.verdict is Verdict.PROVED
    assert where in row.proofs[0]
    assert row.proofs[0].endswith("; rounding is judged by the other checks, and so are other sizes")


@fast("of another axis")
@pytest.mark.parametrize(
    ("call", "sizes", "where"),
    [
        (_mean_of(lambda _: 4), None, "n = 7, d = 5"),
        (_mean_of(lambda x: x.shape[1] + 1), None, "n = 7, d = 5"),
        (_mean_of(lambda x: 7 - x.shape[1]), None, "n = 7, d = 5"),
        (_mean_of(lambda x: 12 / x.shape[1]), None, "n = 7, d = 5"),
        (_mean_of(lambda x: 8 // ((len(x) + 1) // 2)), None, "n = 7, d = 5"),
        (_mean_of(lambda x: 1 + min(x.shape)), None, "n = 7, d = 5"),
        (_mean_of(lambda _: 4), "d = 3", "n = 7, d = 3"),
    ],
    ids=[
        "a number",
        "of another axis",
        "both axes",
        "all entries",
        "a half",
        "the smaller one",
        "beside an axis of one size",
    ],
)
def test_a_size_in_the_place_of_another_is_not_proved(call: Callable, sizes: str | None, where: str) -> None:
    row = judged(call, OpSpec("mean", lambda x: (x * x).mean(0), "(n,d)->(d)", sizes=sizes), "proof")
    assert row.verdict is Verdict.UNRESOLVED
    assert row.reason.startswith(f"vjp has other numbers than the oracle at {where}")


ROUNDING_DECIDES = {
    "of casts": lambda x, g: torch.where((x * x).float() == x.float() * x.float(), 2 * x * g, 2 * x * g * 1.01),
    "of a sum": lambda x, g: torch.where((x + 1.0) - 1.0 == x, 2 * x * g, 2 * x * g * (1 + 1e-7)),
    "by a sign": lambda x, g: 2 * x * g * (1 + 0.01 * torch.sign((x + 1) - 1 - x)),
}


@fast("of casts")
@pytest.mark.parametrize("name", ROUNDING_DECIDES)
def test_where_rounding_decides_nothing_is_proved(name: str) -> None:
    spec = OpSpec("square", lambda x: x * x, "(n,d)->(n,d)")
    row = judged(unary_function(lambda x: x * x, ROUNDING_DECIDES[name]), spec, "proof", "bfloat16")
    assert (row.verdict, row.reason) == (
        Verdict.SKIPPED, "vjp cannot be told: where it compares numbers, rounding to bfloat16 may decide",
    )  # fmt: skip


def test_a_cast_to_a_shorter_dtype_is_not_exact() -> None:
    residual = unary_function(lambda x: x * x, lambda x, g: 2 * x * g + 1e-9 * (x - x.bfloat16().to(x.dtype)))
    row = judged(residual, SQUARE, "proof", "float32")
    assert (row.verdict, row.reason) == (
        Verdict.SKIPPED, "vjp cannot be told: a cast to bfloat16, which no input has, is not modelled",
    )  # fmt: skip


def test_a_fraction_of_the_gradient_is_named() -> None:
    """0.1 % in bfloat16, which its own noise hides."""
    scaled = unary_function(lambda x: x * x, lambda x, g: (2.002 * x.float() * g.float()).to(x.dtype))
    row = judged(scaled, OpSpec("square", lambda x: x * x, "(n,d)->(n,d)"), "proof", "bfloat16")
    assert row.verdict is Verdict.UNRESOLVED
    assert "in 12 of 12 entries of x_bar, 1001/1000 times it: in 300 digits" in row.reason


@pytest.mark.slow
def test_a_shape_that_follows_from_integers_is_that_of_the_sample() -> None:
    names = [Input("x"), Input("i", integer(0, 2))]
    spec = OpSpec("f", lambda x, i: x * x, "(n),(m)->(n)", input_names=names)
    call = lambda x, i: x * x * (torch.unique(i).numel() > 0)  # noqa: E731 (a candidate)
    assert judged(call, spec, "proof").verdict is Verdict.PROVED
    made = lambda x, i: x * x * (torch.unique((9 * x).long()).numel() > 0)  # noqa: E731
    assert "follows from numbers" in judged(made, spec, "proof").reason


def tail(x: torch.Tensor) -> torch.Tensor:
    """1e-1500 at a sample, and 0.02 where all numbers are about 0.03."""
    return torch.exp(-300 * (x * x).sum())


def by_roots(x: torch.Tensor) -> torch.Tensor:
    """1, and in a field 0 unless twelve roots have the sign that they have here."""
    return ((x * x).sqrt() / x.abs() + 1).div(2).prod()


def by_logarithms(x: torch.Tensor) -> torch.Tensor:
    return (((x * x).log() / 2).exp() / x.abs() + 1).div(2).prod()


@pytest.mark.slow
@pytest.mark.parametrize("one", [by_roots, by_logarithms, None])
def test_a_term_that_vanishes_at_the_samples_is_seen(one: Callable[[torch.Tensor], torch.Tensor] | None) -> None:
    """A sign that a field does not know hides it there: a run at other sizes has it."""

    def backward(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        return 2 * x * g * (1 + (1.0 if one is None else one(x)) * tail(x))

    row = judged(unary_function(lambda x: x * x, backward), OpSpec("square", lambda x: x * x, "(n,d)->(n,d)"), "proof")
    assert row.verdict is Verdict.MISMATCH


def scaled(backward: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    return unary_function(lambda x: 0.3 * x * x, backward)


# Constants that are made in a dtype that rounds them, by factories and not by `torch.tensor`.
FILLED = {
    "full_like": ("bfloat16", scaled(lambda x, g: g * 2 * x * torch.full_like(x, 0.3))),
    "fill_": ("bfloat16", scaled(lambda x, g: g * 2 * x * torch.zeros_like(x).fill_(0.3))),
    "new_full": ("float16", scaled(lambda x, g: g * 2 * x * x.new_full((), 0.3))),
    "float32 beside float64": ("float64", scaled(lambda x, g: g * 2 * x * torch.full((), 0.3))),
    "computed": ("float64", scaled(lambda x, g: g * 2 * x * (torch.arange(1, 4, dtype=torch.float32)[2] / 10))),
    "integers": ("float64", scaled(lambda x, g: g * (0.6 * x + (1e9 * x).long() - (1e9 * x).long().float().double()))),
}


# Kernels in 16 bits that round a number which they are given.
FILLED |= {
    name: ("bfloat16", scaled(lambda x, g, made=made: g * 2 * x * made(x)))
    for name, made in {
        "masked_fill": lambda x: x.masked_fill(x == x, 0.3),
        "where": lambda x: torch.where(x == x, torch.tensor(0.3), x),
        "clamp": lambda x: x.clamp(0.3, 0.3),
        "alpha": lambda x: torch.add(torch.zeros_like(x), torch.ones_like(x), alpha=0.3),
        "a cast of integers": lambda x: (x == x).long().mul(3000).to(x.dtype) / 10000,
    }.items()
}


@pytest.mark.parametrize("name", FILLED)
def test_a_constant_that_is_rounded_where_it_is_made_is_not_proved(name: str) -> None:
    dtype, call = FILLED[name]
    row = judged(call, OpSpec("scaled", lambda x: 0.3 * x * x, "(n,d)->(n,d)"), "proof", dtype)
    assert row.verdict in (Verdict.SKIPPED, Verdict.UNRESOLVED, Verdict.MISMATCH)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_a_constant_that_each_dtype_holds_is_proved_however_it_is_made(dtype: str) -> None:
    """0.5 and 2, and the mask of a comparison, are what they are everywhere."""

    def backward(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        return g * x * torch.full_like(x, 0.5) * torch.ones_like(x) * x.new_full((), 4.0) + (x > 1e9).float().to(x)

    assert judged(unary_function(lambda x: x * x, backward), SQUARE, "proof", dtype).verdict is Verdict.PROVED
