"""The native operator where it goes block by block: float32 and narrower on the CPU, from 16 rows and columns on."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from parity_tests import crosscheck
from parity_tests.catalog.attn import SPEC
from parity_tests.harness.findings import Verdict
from parity_tests.harness.report.report import Report
from parity_tests.suite.marks import fast
from parity_tests.suite.torch_impl._common import COTANGENTS, PRIMALS, draw, only, pull, shape_of, subsets
from parity_tests.suite.torch_impl._sources import library, planted, source
from parity_tests.suite.torch_impl.test_memory import Memory
from torch_impl import attn_composite
from torch_impl.native.build import toolchain_missing

SINGLE = ("float32", "bfloat16", "float16")
EDGES = [  # n, d, m, e: at the ends of blocks of 64, 128 rows and 256, 128 columns, and one beyond
    (16, 1, 16, 1),
    (17, 3, 64, 2),
    (64, 64, 128, 64),
    (65, 7, 513, 5),
    (129, 33, 257, 64),
    (257, 64, 1025, 9),
    (40, 200, 70, 130),
    (512, 2, 17, 3),
]


@pytest.fixture
def native() -> Callable:
    import torch_impl
    from torch_impl.native.build import ToolchainMissing

    try:
        return torch_impl.attn_native
    except ToolchainMissing as reason:
        pytest.skip(str(reason))


def judged(attn: Callable, sizes: Sequence[int], **options) -> Report:
    """The candidate at inputs of these sizes, and scores that do not saturate."""
    q, k, v = (x.numpy() for x in draw(PRIMALS, sizes))
    inputs = q / np.sqrt(sizes[1]), k, v
    spec = dataclasses.replace(SPEC, signature=None, inputs=inputs)
    return crosscheck(attn, spec, **options)


def gradients(attn: Callable, primals: Sequence[Tensor], cotangents: Sequence[Tensor | None]) -> list[Tensor | None]:
    leaves = [x.detach().requires_grad_() for x in primals]
    return list(pull(attn(*leaves), leaves, cotangents))


def same_bits(actual: Sequence[Tensor | None], expected: Sequence[Tensor | None]) -> bool:
    return all(
        (x is None) == (y is None) and (x is None or torch.equal(x, y)) for x, y in zip(actual, expected, strict=True)
    )


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def on_threads(count: int, attn: Callable, attn_backward: Callable) -> Callable:
    """The pair as one function, run by so many threads: crosscheck itself judges on one."""

    class Attn(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
            ctx.set_materialize_grads(False)
            with threads(count):
                output, matrix = attn(q, k, v)
            ctx.save_for_backward(q, k, v, matrix)
            return output, matrix

        @staticmethod
        def backward(ctx, *cotangents: Tensor | None) -> tuple[Tensor | None, ...]:
            with threads(count):
                return attn_backward(*cotangents, *ctx.saved_tensors, list(ctx.needs_input_grad))

    return lambda q, k, v: Attn.apply(q, k, v)


@fast("(16, 1, 16, 1)", "(65, 7, 513, 5)", "(512, 2, 17, 3)")
@pytest.mark.parametrize("sizes", EDGES, ids=str)
def test_at_the_edges_of_blocks(native: Callable, sizes):
    report = judged(native, sizes, checks=["forward", "vjp", "vjp_partial"], dtypes=SINGLE)
    report.raise_if_failed()
    assert len([row for row in report.rows if row.candidate != "oracle"]) == 9


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param((33, 5, 70, 3), marks=pytest.mark.slow),
        pytest.param((150, 6, 530, 4), marks=pytest.mark.soak),
    ],
    ids=str,
)
def test_every_check(native: Callable, sizes):
    """But the adjoint identity in narrow formats: rounding explains any sum of so many terms of both signs."""
    report = judged(native, sizes, dtypes=["float64", *SINGLE])
    left = {(row.check, row.dtype): row.verdict for row in report.rows if row.verdict is not Verdict.PASS}
    narrow = {("adjoint", "bfloat16"), ("adjoint", "float16")}
    assert {key for key, verdict in left.items() if verdict is Verdict.UNRESOLVED} <= narrow
    assert {left[key] for key in narrow & left.keys()} <= {Verdict.UNRESOLVED, Verdict.SKIPPED}
    assert {key[0] for key, verdict in left.items() if verdict is not Verdict.UNRESOLVED and key not in narrow} <= {
        "points",
        "points_second_order",
        "exact",
        "digits",  # the oracle's programs are too large there
        "captured",
        "mixed_dtypes",
    }
    assert {verdict for verdict in left.values()} <= {Verdict.UNRESOLVED, Verdict.SKIPPED}


@pytest.mark.parametrize("n", [pytest.param(1024, marks=pytest.mark.slow), pytest.param(4096, marks=pytest.mark.soak)])
def test_large(native: Callable, n: int):
    """But the VJP of 4096 in bfloat16: of sums so long rounding explains any, and nothing could be told."""
    dtypes = ["float64", "float32", "float16"] + ["bfloat16"] * (n < 4096)
    for check, formats in (("forward", ["bfloat16", *dtypes]), ("vjp", dtypes)):
        report = judged(native, (n, 64, n, 64), checks=[check], dtypes=dict.fromkeys(formats))
        report.raise_if_failed()
        rows = {row.dtype for row in report.rows if (row.candidate, row.check) != ("oracle", "vjp")}
        assert rows == {*formats}


@pytest.mark.filterwarnings("ignore:TF32 acceleration:UserWarning")  # torch's own, at any change of these flags
@pytest.mark.parametrize("count", [1, 2])
def test_without_onednn_as_well(native: Callable, count: int):
    """Then the products are BLAS's."""
    operators = torch.ops.gradparity.attn, torch.ops.gradparity.attn_backward
    candidate = on_threads(count, *operators)
    with torch.backends.mkldnn.flags(enabled=False):
        judged(candidate, (65, 7, 513, 5), checks=["forward", "vjp"], dtypes=["float32"]).raise_if_failed()


@fast("2")
@pytest.mark.parametrize("count", [1, 2, 3])
def test_on_several_threads(native: Callable, count: int):
    operators = torch.ops.gradparity.attn, torch.ops.gradparity.attn_backward
    report = judged(on_threads(count, *operators), (300, 6, 530, 4), checks=["forward", "vjp"], dtypes=["float32"])
    report.raise_if_failed()


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_narrow_result_is_rounded_once(native: Callable, dtype, count: int):
    """It is float32's of the same numbers, to the bit."""
    sizes = (300, 6, 530, 4)
    primals, cotangents = draw(PRIMALS, sizes, dtype=dtype), draw(COTANGENTS, sizes, dtype=dtype, seed=1)
    backward = torch.ops.gradparity.attn_backward
    with threads(count):
        results = native(*primals)
        narrow = [*results, *backward(*cotangents, *primals, results[1], [True] * 3)]
        wide = [*native(*(x.float() for x in primals))]
        wide += backward(*(x.float() for x in (*cotangents, *primals, results[1])), [True] * 3)
    assert same_bits(narrow, [x.to(dtype) for x in wide])


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_same_bits_every_time(native: Callable, count: int, dtype):
    sizes = (300, 16, 700, 16)
    primals, cotangents = draw(PRIMALS, sizes, dtype=dtype), draw(COTANGENTS, sizes, dtype=dtype, seed=1)
    with threads(count):
        first = [*native(*primals), *gradients(native, primals, cotangents)]
        for _ in range(5):
            assert same_bits([*native(*primals), *gradients(native, primals, cotangents)], first)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("defined", subsets(COTANGENTS))
def test_an_absent_cotangent_is_a_zero_one(native: Callable, defined, dtype):
    sizes = (70, 5, 300, 6)
    primals, cotangents = draw(PRIMALS, sizes, dtype=dtype), draw(COTANGENTS, sizes, dtype=dtype, seed=1)
    zeros = [x if name in defined else torch.zeros_like(x) for name, x in zip(COTANGENTS, cotangents, strict=True)]
    actual = gradients(native, primals, only(defined, COTANGENTS, cotangents))
    expected = gradients(native, primals, zeros)
    if "output_bar" not in defined:  # then v has no gradient, and one of zeros
        assert actual.pop() is None
        assert not expected.pop().any()
    assert same_bits(actual, expected)


@pytest.mark.parametrize("mask", [[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)], ids=str)
@pytest.mark.parametrize("defined", subsets(COTANGENTS, empty=True))
def test_what_is_not_asked_for_is_not_returned(native: Callable, mask, defined):
    sizes = (70, 5, 300, 6)
    primals = draw(PRIMALS, sizes, dtype=torch.float32)
    cotangents = only(defined, COTANGENTS, draw(COTANGENTS, sizes, dtype=torch.float32, seed=1))
    attn = native(*primals)[1]
    backward = torch.ops.gradparity.attn_backward
    asked = [bool(x) for x in mask]
    everything = backward(*cotangents, *primals, attn, [True] * 3)
    returned = backward(*cotangents, *primals, attn, asked)
    assert [x is not None for x in returned] == [
        wanted and bool(defined if name != "v" else "output_bar" in defined)
        for name, wanted in zip(PRIMALS, asked, strict=True)
    ]
    assert same_bits(returned, [x if wanted else None for x, wanted in zip(everything, asked, strict=True)])


def transposed(x: Tensor) -> Tensor:
    return x.mT.contiguous().mT


def with_gaps(x: Tensor) -> Tensor:
    return torch.stack([x, x + 1], -1).flatten(1)[:, ::2]


def as_part_of_a_wider_one(x: Tensor) -> Tensor:
    return torch.cat([x, x + 1], 1)[:, : x.shape[1]]


def as_negative_of(x: Tensor) -> Tensor:
    return torch._neg_view(-x)  # pyright: ignore[reportPrivateImportUsage]


def overlapping(x: Tensor) -> Tensor:
    return x[:1].expand(x.shape)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("layout", [transposed, with_gaps, as_part_of_a_wider_one, as_negative_of, overlapping])
def test_strides(native: Callable, layout, dtype):
    """The bits do not depend on the strides, of the matrix that was saved neither."""
    sizes = (70, 5, 300, 6)
    inputs = draw((*COTANGENTS, *PRIMALS), sizes, dtype=dtype)
    attn = native(*inputs[2:])[1]
    backward = torch.ops.gradparity.attn_backward
    for i in range(6):
        given = [*inputs, attn]
        given[i] = layout(given[i])
        copied = [x.resolve_neg().clone(memory_format=torch.contiguous_format) for x in given]
        assert not given[i].is_contiguous() or given[i].is_neg()
        assert same_bits(backward(*given, [True] * 3), backward(*copied, [True] * 3))
        assert same_bits(native(*given[2:5]), native(*copied[2:5]))


@pytest.mark.parametrize(
    ("wrong", "axis"),
    [(name, axis) for name in ("output_bar", "attn_bar", "v", "attn") for axis in (0, 1)] + [("q", 0), ("k", 0)],
)  # axis 1 of q and that of k are in no product together
def test_a_wrong_size_reads_no_memory_of_others(native: Callable, wrong: str, axis: int):
    """PyTorch's own products refuse it."""
    sizes = (70, 5, 300, 6)
    names = (*COTANGENTS, *PRIMALS, "attn")
    inputs = draw(names, sizes, dtype=torch.float32)
    i = names.index(wrong)
    shape = list(shape_of(wrong, sizes))
    shape[axis] += 1
    inputs[i] = torch.zeros(shape)
    with pytest.raises(RuntimeError, match=r"size|shape|expand"):
        torch.ops.gradparity.attn_backward(*inputs, [True] * 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("sizes", [(0, 5, 300, 6), (70, 0, 300, 6), (70, 5, 0, 6), (70, 5, 300, 0), (70, 0, 300, 0)])
def test_empty(native: Callable, sizes, dtype):
    primals, cotangents = draw(PRIMALS, sizes, dtype=dtype), draw(COTANGENTS, sizes, dtype=dtype, seed=1)
    actual = [*native(*primals), *gradients(native, primals, cotangents)]
    assert same_bits(actual, [*attn_composite(*primals), *gradients(attn_composite, primals, cotangents)])


def test_numbers_that_are_none(native: Callable):
    """What is infinite or NaN in one row of q stays there, and a block is no larger than the matrix."""
    sizes = (70, 5, 300, 6)
    q, k, v = draw(PRIMALS, sizes, dtype=torch.float32)
    clean = native(q, k, v)
    spoiled = q.clone()
    spoiled[3], spoiled[66, 0] = np.nan, np.inf
    output, attn = native(spoiled, k, v)
    assert output[3].isnan().all()
    assert attn[3].isnan().all()
    assert torch.equal(attn[66].abs(), torch.ones(300))
    rest = [i for i in range(70) if i not in (3, 66)]
    assert same_bits([output[rest], attn[rest]], [x[rest] for x in clean])


@pytest.mark.parametrize("defined", subsets(COTANGENTS))
def test_memory(native: Callable, defined):
    """attn and what is of the size of the arguments: no second matrix."""
    sizes = (2048, 16, 2048, 16)
    primals = draw(PRIMALS, sizes, dtype=torch.float32, requires_grad=PRIMALS)
    cotangents = only(defined, COTANGENTS, draw(COTANGENTS, sizes, dtype=torch.float32, seed=1))
    with Memory() as memory:
        pull(native(*primals), primals, cotangents)
    assert 1 <= memory.peak / (2048 * 2048 * torch.float32.itemsize) <= 1.1


# Planted mistakes: fused.cpp compiled by itself, and called without the rest of the operator.

FUSED = source("fused.cpp")
FACE = """
using M = gradparity::Matrix<float>;
extern "C" void attn_forward_NUMBER(const M& q, const M& k, const M& v, float* output, float* attn) {
  gradparity::fused_NUMBER::forward(q, k, v, output, attn);
}
extern "C" void attn_backward_NUMBER(
    const M* output_bar, const M* attn_bar, const M& q, const M& k, const M& v, const M& attn, float* q_bar,
    float* k_bar, float* v_bar) {
  gradparity::fused_NUMBER::backward(output_bar, attn_bar, q, k, v, attn, q_bar, k_bar, v_bar);
}
"""


class Matrix(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("rows", "columns", "row_stride", "column_stride")),
    )


def operators_of(kernels: ctypes.CDLL, number: int) -> tuple[Callable, Callable]:
    """attn and attn_backward by the copy of this number, from matrices that have gaps between their columns."""
    attn_forward_of_copy = getattr(kernels, f"attn_forward_{number}")
    attn_backward_of_copy = getattr(kernels, f"attn_backward_{number}")

    def matrix(x: Tensor | None):
        return None if x is None else ctypes.byref(Matrix(x.data_ptr(), *x.shape, *x.stride()))

    def data(x: Tensor | None) -> ctypes.c_void_p:
        return ctypes.c_void_p(None if x is None else x.data_ptr())

    def attn(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        given = [with_gaps(x) for x in (q, k, v)]
        output, attn = q.new_empty(len(q), v.shape[1]), q.new_empty(len(q), len(k))
        attn_forward_of_copy(*map(matrix, given), data(output), data(attn))
        return output, attn

    def attn_backward(output_bar, attn_bar, q, k, v, attn, mask) -> tuple[Tensor | None, ...]:
        given = [None if x is None else with_gaps(x) for x in (output_bar, attn_bar, q, k, v, attn)]
        asked = [*mask[:2], mask[2] and output_bar is not None]
        x_bar = [torch.empty_like(x) if wanted else None for x, wanted in zip((q, k, v), asked, strict=True)]
        attn_backward_of_copy(*map(matrix, given), *map(data, x_bar))
        return tuple(x_bar)

    return attn, attn_backward


ALL = {"output", "attn", "q_bar", "k_bar", "v_bar"}
# What is in fused.cpp, what is planted, and what must be found wrong.
MISTAKES = {
    "(1) with the first block's keys": ("K_transposed.get() + j * d, C,", "K_transposed.get(), C,", ALL),
    "(3) of the last block alone": ("V.stride, O, e, j > 0)", "V.stride, O, e, false)", {"output"}),
    "(3) with the first block's values": ("V.data + j * V.stride, V.stride, O", "V.data, V.stride, O", {"output"}),
    "(8) with the first block's values": ("V_transposed.get() + j * e", "V_transposed.get()", {"q_bar", "k_bar"}),
    "(8) without output's part": (
        "needs_G ? P.get() : nullptr, a",
        "attn_bar ? nullptr : P.get(), a",
        {"q_bar", "k_bar"},
    ),
    "(8) with attn's cotangent of other rows": ("attn_bar->block(i", "attn_bar->block(0", {"q_bar", "k_bar"}),
    "(9) with other columns of attn": ("attn.block(i, rows, j", "attn.block(i, rows, 0", {"q_bar", "k_bar", "v_bar"}),
    "(10) of the last block alone": ("K.stride, Q_sum, d, j > 0)", "K.stride, Q_sum, d, false)", {"q_bar"}),
    "(11) of a thread's last rows alone": ("!first); // (11)", "false); // (11)", {"k_bar"}),
    "(11) with A": ("Q_transposed.get(), R, P.get()", "Q_transposed.get(), R, A.get()", {"k_bar"}),
    "(12) of a thread's last rows alone": ("!first); // (12)", "false); // (12)", {"v_bar"}),
    "one thread's sums alone": ("int64_t t = 1; t < parts", "int64_t t = 1; t < 1", {"k_bar", "v_bar"}),
    "sums not transposed": (
        "rows::transpose(total, columns, features, columns, rows.get(), features)",
        "std::copy_n(total, columns * features, rows.get())",
        {"k_bar", "v_bar"},
    ),
    "what lies between the columns": ("x.column_stride == 1 &&", "", ALL),
}


COPIES = ["no mistake", *MISTAKES]


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The kernels for float32 once without a mistake, and once with each, in namespaces of their own.

    They are one source, since most of the time the compiler reads PyTorch's headers.
    """
    texts = []
    for number, name in enumerate(COPIES):
        text = planted(FUSED, *MISTAKES[name][:2]) if name in MISTAKES else FUSED
        for narrow in ("INSTANTIATE(c10::BFloat16)\n", "INSTANTIATE(c10::Half)\n"):
            text = planted(text, narrow, "")
        text = text.replace("namespace gradparity::fused", f"namespace gradparity::fused_{number}")
        texts.append(text + FACE.replace("NUMBER", str(number)))
    folder = tmp_path_factory.mktemp("fused")
    return library(folder, {"fused.cpp": "\n".join(texts), "rows.cpp": source("rows.cpp")})


@pytest.mark.slow
@pytest.mark.skipif(toolchain_missing() is not None, reason=f"compiles: {toolchain_missing()}")
@pytest.mark.parametrize("name", COPIES)
def test_a_planted_mistake_is_caught(name: str, copies: ctypes.CDLL):
    """Two threads, each with several blocks of rows and of columns."""
    wrong = MISTAKES[name][2] if name in MISTAKES else set()
    attn, attn_backward = operators_of(copies, COPIES.index(name))
    report = judged(on_threads(2, attn, attn_backward), (300, 6, 530, 4), checks=["forward", "vjp"], dtypes=["float32"])
    assert {result.label for row in report.failures for result in row.wrong} == wrong
