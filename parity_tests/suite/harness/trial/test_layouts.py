"""Layouts of memory: what each is, mistakes that are wrong in one of them only, and right operators."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest
import torch

from parity_tests import OpSpec, Verdict
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.checks import layouts as check
from parity_tests.harness.judging.judge import Plan, judge
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.report.results import Row
from parity_tests.harness.trial.layouts import LAYOUTS, Layout
from parity_tests.suite.harness._ops import PAIR, judged, normal, pair, pair_backward, pair_function, pair_jvp
from parity_tests.suite.harness.trial._misreadings import (
    MISREADINGS,
    batch_of_one_taken_for_contiguous,
    channels_last_taken_for_contiguous,
    columns_taken_for_neighbours,
    sign_lost,
)
from parity_tests.suite.marks import fast

pytestmark = pytest.mark.usefixtures("certified_once")

NAMED: dict[str, Layout] = {layout.name: layout for layout in LAYOUTS}
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
PAIR_4D = replace(PAIR, inputs=(normal(2, 3, 4, 5), normal(2, 3, 4, 5, seed=1)))
PAIR_OF_ONE = replace(PAIR, inputs=(normal(1, 3, 4, 5), normal(1, 3, 4, 5, seed=1)))
SPECS = {channels_last_taken_for_contiguous: PAIR_4D, batch_of_one_taken_for_contiguous: PAIR_OF_ONE}


def laid_out(name: str, *shape: int, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    """A contiguous tensor, with the values that the layout can hold, and the same in the layout."""
    array, layout = normal(*shape), NAMED[name]
    x = torch.tensor(layout.repeat(array) if layout.repeat else array, dtype=dtype)
    return x, layout.arrange(x)


@pytest.mark.parametrize("shape", [(3, 4, 5, 2), (3, 4, 5), (3, 4), (3,), ()], ids=str)
def test_a_layout_keeps_the_values(shape, subtests):
    possible = [layout for layout in LAYOUTS if layout.takes(torch.empty(shape))]
    assert possible
    for layout in possible:
        with subtests.test(layout=layout.name):
            x, y = laid_out(layout.name, *shape)
            assert torch.equal(x, y)
            assert torch.equal(y.detach().requires_grad_(), x)
            assert layout.name == "negated lazily" or (y.stride(), y.storage_offset()) != (x.stride(), 0)


@pytest.mark.parametrize(
    ("name", "shape", "strides"),
    [
        ("transposed", (3, 4), (1, 3)),
        ("sliced", (3, 4), (9, 2)),
        ("with gaps between rows", (3, 4), (7, 1)),
        ("with gaps between rows", (2, 3, 4), (21, 7, 1)),
        ("transposed, with gaps between columns", (3, 4), (1, 6)),
        ("expanded", (3, 4), (0, 1)),
        ("expanded along the last axis", (3, 4), (1, 0)),
        ("expanded along every axis", (3, 4), (0, 0)),
        ("with channels last", (2, 3, 4), (12, 1, 3)),
        ("with channels last and an axis of one entry", (1, 3, 4), (3, 1, 3)),
        ("with channels last and an axis of one entry", (2, 3, 4, 1), (12, 1, 3, 1)),
        ("offset", (3, 4), (4, 1)),
        ("misaligned", (3, 4), (4, 1)),
    ],
)
def test_the_strides_of_a_layout(name, shape, strides):
    assert laid_out(name, *shape)[1].stride() == strides


def test_channels_last_is_pytorchs():
    x, y = laid_out("with channels last", 2, 3, 4, 5)
    assert y.stride() == x.contiguous(memory_format=torch.channels_last).stride()


def test_channels_last_with_an_axis_of_one_entry():
    x, y = laid_out("with channels last and an axis of one entry", 1, 3, 4, 5)
    assert torch.equal(x, y)
    assert y.is_contiguous(memory_format=torch.channels_last)
    assert not NAMED["with channels last and an axis of one entry"].takes(torch.empty(2, 1, 4, 5))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_addresses(dtype):
    offset, misaligned = (laid_out(name, 3, 4, dtype=dtype)[1] for name in ("offset", "misaligned"))
    assert offset.storage_offset() > 0
    assert offset.data_ptr() % 64 == 0
    assert misaligned.data_ptr() % 16 == misaligned.element_size()


def test_the_sign_is_left_undone():
    assert laid_out("negated lazily", 3, 4)[1].is_neg()


@pytest.mark.parametrize(
    "name",
    [
        "sliced",
        "with gaps between rows",
        "transposed, with gaps between columns",
        "offset",
        "misaligned",
    ],
)
def test_what_is_not_a_value_is_nan(name):
    x = laid_out(name, 3, 4)[1]
    memory = x.as_strided((x.untyped_storage().nbytes() // x.element_size(),), (1,), 0)
    assert memory.numel() > x.numel()
    assert torch.isnan(memory).sum() == memory.numel() - x.numel()


@pytest.mark.parametrize("name", ["offset", "misaligned"])
def test_what_lies_around_a_scalar_is_nan(name):
    """Such as the cotangent of a loss: a kernel that reads more than one entry of it finds out."""
    x = laid_out(name)[1]
    before, after = x.as_strided((2,), (1,), x.storage_offset() - 1)[0], x.as_strided((2,), (1,))[1]
    assert x.dim() == 0
    assert torch.isnan(torch.stack([before, after])).all()


@pytest.mark.parametrize("name", ["expanded", "expanded along the last axis", "expanded along every axis"])
def test_what_lies_behind_a_repeated_entry_is_nan(name):
    """A kernel that ignores strides of 0 must not find the right numbers there."""
    x = laid_out(name, 3, 4)[1]
    as_if_contiguous = x.as_strided((12,), (1,))
    kept = x.untyped_storage().nbytes() // x.element_size() - int(torch.isnan(as_if_contiguous).sum())
    assert kept == len(x.unique())
    assert torch.isnan(as_if_contiguous[kept:]).all()


# Mistakes: a kernel that reads its inputs, cotangents or tangents as if they lay otherwise.


def _of_inputs(read: Callable) -> Callable:
    return pair_function(forward=lambda x, y: pair(read(x), read(y))).apply


def _of_cotangents(read: Callable) -> Callable:
    return pair_function(backward=lambda x, y, g, h: pair_backward(x, y, read(g), read(h))).apply


def _of_tangents(read: Callable) -> Callable:
    return pair_function(jvp=lambda x, y, x_dot, y_dot: pair_jvp(x, y, read(x_dot), read(y_dot))).apply


def _conjugate_lost(x: torch.Tensor) -> torch.Tensor:
    """The memory of a complex tensor, without its conjugate bit."""
    return x.conj() if x.is_conj() else x


def _verdict_without(names: Sequence[str], call: Callable, spec: OpSpec) -> Verdict:
    """The verdict of the check in all layouts but these."""
    others = [layout for layout in LAYOUTS if layout.name not in names]
    plan = Plan(
        spec=spec,
        candidates=[Candidate(call, "call")],
        checks=[replace(check.CHECK, run=functools.partial(check._run, layouts=others))],
        precisions=[FLOAT64],
        device="cpu",
        seed=0,
        replay=lambda row: "",
    )
    (row,) = (event for event in judge(plan) if isinstance(event, Row) and event.candidate == "call")
    return row.verdict


GROUPS = {"inputs": _of_inputs, "cotangents": _of_cotangents, "inputs and tangents": _of_tangents}


@fast(
    "offset_ignored-inputs",
    "rows_taken_for_neighbours-cotangents",
    "channels_last_taken_for_contiguous-inputs and tangents",
)
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("read", MISREADINGS, ids=lambda read: read.__name__)
def test_a_misreading_is_caught_in_its_layout_only(read, group):
    spec = SPECS.get(read, PAIR)
    call, names = GROUPS[group](read), MISREADINGS[read]
    row = judged(call, spec, "layouts")
    assert row.verdict is Verdict.MISMATCH, row
    assert row.failure is not None
    assert {wrong.circumstance for wrong in row.failure.wrong} == {f"{group} {names[0]}"}
    for other in ("forward", "vjp", "jvp"):
        assert judged(call, spec, other).verdict is Verdict.PASS, other
    assert _verdict_without(names, call, spec) is Verdict.PASS


def test_what_few_kernels_know_of_is_told_with_the_remedy():
    failure = judged(_of_inputs(sign_lost), PAIR, "layouts").failure
    assert failure is not None
    assert failure.wrong[-1].label == "the candidate"
    assert "torch.Tensor.resolve_neg() first" in failure.wrong[-1].pattern
    complex_pair = OpSpec("product", lambda x, y: x * y, "(n),(n)->(n)", dtypes=["complex128"])
    failure = judged(lambda x, y: _conjugate_lost(x) * y, complex_pair, "layouts", "complex128").failure
    assert failure is not None
    assert "torch.Tensor.resolve_conj() first" in failure.wrong[-1].pattern


def test_what_is_wrong_in_every_layout_is_not_blamed_on_reading_memory():
    wrong_everywhere = pair_function(backward=lambda *args: tuple(2 * bar for bar in pair_backward(*args))).apply
    failure = judged(wrong_everywhere, PAIR, "layouts").failure
    assert failure is not None
    assert {wrong.label for wrong in failure.wrong} == {"x_bar", "y_bar"}


def test_what_few_kernels_know_of_comes_last():
    """A kernel that misreads strides as well is told of the strides."""

    def read(x):
        return columns_taken_for_neighbours(sign_lost(x))

    failure = judged(_of_inputs(read), PAIR, "layouts").failure
    assert failure is not None
    assert [wrong.label for wrong in failure.wrong][-1] == "the candidate"
    told = {wrong.circumstance for wrong in failure.wrong[:-1]}
    assert told == {"inputs transposed, with gaps between columns"}
    others = judged(_of_inputs(columns_taken_for_neighbours), PAIR, "layouts").failure
    assert others is not None
    assert "resolve" not in str([wrong.pattern for wrong in others.wrong])


def test_every_layout_has_a_negative_control():
    elsewhere = {"transposed", "sliced", "expanded"}  # test_checks.py
    assert {name for names in MISREADINGS.values() for name in names} | elsewhere == set(NAMED)


def test_a_jvp_that_takes_its_tangents_to_be_contiguous():
    def read(t):
        return t.as_strided(t.shape, torch.empty(t.shape, device="meta").stride(), t.storage_offset())

    failure = judged(_of_tangents(read), PAIR, "layouts").failure
    assert failure is not None
    assert {wrong.circumstance for wrong in failure.wrong} == {"inputs and tangents transposed"}


# Right operators.

RIGHT = {
    "product": (torch.matmul, OpSpec("product", jnp.matmul, "(n,k),(k,m)->(n,m)", input_names=("x", "y"))),
    "channels": (
        lambda x: torch.softmax(x, 1),
        OpSpec("softmax", lambda x: jax.nn.softmax(x, axis=1), inputs=(normal(2, 3, 4, 5),)),
    ),
    "scalar": (torch.sin, OpSpec("sin", jnp.sin, "()->()", input_names=("x",))),
}


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_operator_raises_no_alarm(name, dtype):
    call, spec = RIGHT[name]
    row = judged(call, spec, "layouts", dtype)
    assert row.verdict is Verdict.PASS, row
    assert row.comparisons > 0


def test_a_choice_among_equal_entries_is_no_matter_of_layouts():
    spec = OpSpec("max", lambda x: jnp.max(x, -1), "(n,m)->(n)")  # which divides among them
    row = judged(lambda x: x.max(-1).values, spec, "layouts")
    assert row.verdict is Verdict.PASS, row


class _ByNumpy(torch.autograd.Function):
    """The forward by NumPy, to which PyTorch hands no tensor with a negative bit."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return pair(torch.from_numpy(x.numpy().copy()), y)

    @staticmethod
    def backward(ctx, *cotangents):
        return pair_backward(*ctx.saved_tensors, *cotangents)


def test_a_clear_refusal_of_a_lazy_sign_is_no_mistake():
    assert judged(_ByNumpy.apply, PAIR, "layouts").verdict is Verdict.PASS


def test_a_refusal_of_any_other_layout_is_one():
    def contiguous_only(x, y):
        if not x.is_contiguous():
            raise RuntimeError("x must be contiguous")
        return pair(x, y)

    row = judged(contiguous_only, PAIR, "layouts")
    assert row.verdict is Verdict.MISMATCH
    assert row.failure is not None
    (wrong,) = row.failure.wrong
    assert wrong.circumstance == "inputs transposed"
    assert wrong.pattern.startswith("raises RuntimeError: x must be contiguous (at test_layouts.py:")


def test_values_and_gradients_are_judged_without_a_jvp():
    call = _ByNumpy.apply  # has none
    assert judged(call, PAIR, "jvp").verdict is Verdict.UNSUPPORTED
    assert judged(call, PAIR, "layouts").comparisons > 0


def test_what_does_not_depend_on_sizes_is_tried_on_one_sample():
    layouts = {layout.name for layout in LAYOUTS if not layout.everywhere}
    seen = set()

    def product(x, y):
        if x.storage_offset() and x.is_contiguous() and x.numel() > 1:
            seen.add((*x.shape, *y.shape))
        return x @ y

    assert {"offset", "misaligned"} <= layouts
    assert judged(product, RIGHT["product"][1], "layouts").verdict is Verdict.PASS
    assert seen == {(4, 3, 3, 5)}


def _with_what_lies_behind(times: float) -> Callable:
    """pair, which adds what lies behind each row of x, times a number, as oneDNN's product with AMX does, times 0."""

    def call(x, y):
        if x.dim() == 2 and x.stride(1) == 1 and x.stride(0) > x.shape[1] > 0:
            behind = x.as_strided((x.shape[0], 1), x.stride(), x.storage_offset() + x.shape[1])
            x = x + times * behind
        return pair(x, y)

    return call


@pytest.mark.parametrize(
    ("times", "of_matmul", "dtype", "verdict"),
    [
        (0, True, "bfloat16", Verdict.PASS),
        (0, True, "float32", Verdict.MISMATCH),
        (0, False, "bfloat16", Verdict.MISMATCH),
        (1, True, "bfloat16", Verdict.MISMATCH),
    ],
)
def test_what_oneDNN_reads_behind_a_row_is_a_convention_where_it_does(monkeypatch, times, of_matmul, dtype, verdict):
    monkeypatch.setattr(check, "matmul_reads_behind_rows", lambda: of_matmul)
    row = judged(_with_what_lies_behind(times), PAIR, "layouts", dtype)
    assert row.verdict is verdict, row
    assert any("NaN if what lies between the rows is NaN" in text for text in row.conventions) == row.passed
