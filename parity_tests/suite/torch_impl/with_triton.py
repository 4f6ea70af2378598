"""torch_impl.gpu: what is asked of every framework's kernels (`gpu_kernels`), and what only Triton's have.

Not collected: test_triton.py runs it in a process.

Where there is a GPU that PyTorch sees, the kernels are compiled and run there. Otherwise they run in Triton's
interpreter, which must be chosen before they are imported.
"""

# Triton is not a requirement
# pyright: reportMissingImports=false, reportIndexIssue=false

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from derivation import attn_kernels
from parity_tests import crosscheck
from parity_tests.catalog.attn import SPEC
from parity_tests.suite.gpu_kernels import (
    DTYPES,
    all_pass,
    judged,
    test_an_empty_axis,
    test_first_order,
    test_first_order_at_every_size,
    test_infinities_stay_where_they_are,
    test_second_order,
    test_slopes_near_saturation,
    test_the_matrix_is_rounded_once,
)
from parity_tests.suite.torch_impl._common import COTANGENTS, PRIMALS, draw, only, pull, subsets
from parity_tests.suite.torch_impl.test_memory import Memory
from torch_impl import ATTN_FUNCTION_LIMITS, attn_composite
from torch_impl.gpu import _launch, attn_output_triton, attn_triton
from torch_impl.gpu._attn_triton import _checked

__all__ = [  # of every framework's kernels
    "test_an_empty_axis",
    "test_first_order",
    "test_first_order_at_every_size",
    "test_infinities_stay_where_they_are",
    "test_second_order",
    "test_slopes_near_saturation",
    "test_the_matrix_is_rounded_once",
]

DEVICE = "cpu" if attn_kernels.INTERPRETED else "cuda"
ONE_BLOCK = (4, 3, 5, 2)
# What is left out, and why. compile, fake, make_fx: they give the kernels tensors without values, and no operator is
# registered that would stand for them. determinism: threads, of which the interpreter can have one.
OTHERS = (
    "input_subsets",
    *("jvp", "adjoint", "vjp_of_vjp", "jvp_of_vjp", "vjp_of_jvp", "jvp_of_jvp", "layouts", "linearity", "purity"),
    *("in_place", "retain_graph", "interleaved", "saved_tensors", "checkpoint", "leaks"),
    *("vmap", "functorch", "autocast"),
)
LIMITS = {"jvp_of_jvp": ATTN_FUNCTION_LIMITS["nested forward AD"]}

FACES = {"attn": attn_triton, "attn_output": attn_output_triton}
SIZES = (20, 5, 40, 3)  # n, d, m, e: the interpreter's blocks have 16 queries and 32 keys; a GPU's have up to 128


unwarned = np.errstate(all="ignore")  # the interpreter computes in NumPy, which warns of inf * 0 where a GPU does not


def on_device(face: Callable, q: Tensor, k: Tensor, v: Tensor):
    """The harness's tensors are on the CPU, whether or not JAX sees the GPU."""
    results = face(q.to(DEVICE), k.to(DEVICE), v.to(DEVICE))
    return tuple(y.cpu() for y in results) if isinstance(results, tuple) else results.cpu()


class TritonKernels:
    """See `gpu_kernels.Kernels`."""

    largest = 128
    tails = SIZES
    device = "cpu"  # from which `on_device` takes them

    def candidate(self, face: str) -> Callable:
        return functools.partial(on_device, FACES[face])

    def run(self, face: str, arrays: Sequence[np.ndarray], dtype: str) -> list[np.ndarray]:
        return values_and_gradients(FACES[face], arrays, dtype)

    def reference(self, arrays: Sequence[np.ndarray], dtype: str) -> list[np.ndarray]:
        return values_and_gradients(attn_composite, arrays, dtype)


@unwarned
def values_and_gradients(op: Callable, arrays: Sequence[np.ndarray], dtype: str) -> list[np.ndarray]:
    q, k, v, *bars = (torch.from_numpy(x).to(DEVICE, getattr(torch, dtype)) for x in arrays)
    primals = [x.requires_grad_() for x in (q, k, v)]
    results = op(*primals)
    outputs = results if isinstance(results, tuple) else (results,)
    gradients = pull(outputs, primals, bars)
    return [x.detach().cpu().double().numpy() for x in (*outputs, *gradients)]


@pytest.fixture
def kernels() -> TritonKernels:
    return TritonKernels()


one_or_all_dtypes = pytest.mark.parametrize(
    "dtypes",
    [
        pytest.param(DTYPES[:1], marks=pytest.mark.slow, id="float32"),
        pytest.param(DTYPES, marks=pytest.mark.soak, id="all"),
    ],
)


@one_or_all_dtypes
def test_every_other_check(kernels: TritonKernels, dtypes: Sequence[str]) -> None:
    """Second order, forward mode, vmap, torch.func, layouts, what is saved and what is written to."""
    report = judged(kernels, "attn", ONE_BLOCK, checks=OTHERS, dtypes=dtypes, limits=LIMITS)
    all_pass(report, but=["jvp_of_jvp"])  # listed, so that it must fail


@pytest.mark.slow
def test_every_other_check_of_the_output_alone(kernels: TritonKernels) -> None:
    """Those of layouts and of what is written to are soak tests: they are held by the face with both results."""
    all_pass(judged(kernels, "attn_output", ONE_BLOCK, checks=["vmap"], dtypes=["float32"]))


@pytest.mark.soak
def test_all_checks_of_the_output_alone(kernels: TritonKernels) -> None:
    others = [check for check in OTHERS if check != "jvp_of_jvp"]
    all_pass(judged(kernels, "attn_output", ONE_BLOCK, checks=others, dtypes=["float32"]))


@one_or_all_dtypes
@unwarned
def test_the_whole_spec(dtypes: Sequence[str]) -> None:
    """The harness's own sizes and points, infinities among them; more features than the kernels hold are not tried."""

    def narrow(q: Tensor, k: Tensor, v: Tensor):
        wide = max(q.shape[1], v.shape[1]) > 128
        return attn_composite(q, k, v) if wide else on_device(attn_triton, q, k, v)

    checks = ["forward", "vjp", "points", "exact"]
    all_pass(crosscheck(narrow, SPEC, name="attn_triton", checks=checks, dtypes=dtypes))


# tanh and its slope


@triton.jit
def _both(scores, D, A, COUNT: tl.constexpr):
    at = tl.program_id(0) * COUNT + tl.arange(0, COUNT)
    slope, tanh = attn_kernels.slope_and_tanh(tl.load(scores + at))
    tl.store(D + at, slope)
    tl.store(A + at, tanh)


@unwarned
def slope_and_tanh(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """By the kernels' function, at a multiple of 4096 float32 scores; as float64."""
    s = torch.from_numpy(scores).to(DEVICE)
    D, A = torch.empty_like(s), torch.empty_like(s)
    _both[(len(s) // 4096,)](s, D, A, 4096)
    return D.cpu().double().numpy(), A.cpu().double().numpy()


# In units of u = 2^-24, half an ulp at most. NumPy's exp is wrong by up to 5.2. D = 4 t r r with r = 1 / (1 + t) is
# wrong by what t is, times (1 - t) / (1 + t), by 2 in each r, and by 1 in each of two products: 12. Beyond SMALL, where
# t is at most 1/3, 2 t r is at most 1/2 and relatively wrong by 3/4 of 5.2 + 2 + 1; A, at least 1/2, by half of that in
# ulp, less than 4 with its own rounding. On a GPU exp is ex2.approx(x log2 e), 4 u, where x log2 e is rounded twice,
# 4 |s| u more; 1 / x is div.full, 4 u.
ULPS_OF_TANH = 4 if attn_kernels.INTERPRETED else 6


def units_of_slope(s: np.ndarray) -> np.ndarray:
    return np.full_like(s, 12) if attn_kernels.INTERPRETED else 17 + 4 * np.abs(s)


def test_tanh_and_its_slope_are_exact_to_some_ulp() -> None:
    """From 2^-32, where tanh(s) = s, to 43, where the slope is float32's smallest normal number; both signs."""
    positive = np.geomspace(2.0**-32, 43, 2**18).astype(np.float32)
    for s in (positive, -positive):
        D, A = slope_and_tanh(s)
        x = s.astype(float)
        t = np.exp(-2 * np.abs(x))
        exact = np.tanh(x)
        ulp = np.spacing(np.abs(exact).astype(np.float32)).astype(float)
        assert np.max(np.abs(A - exact) / ulp) <= ULPS_OF_TANH
        slope = 4 * t / (1 + t) ** 2
        assert np.all(np.abs(D - slope) <= units_of_slope(x) * 2.0**-24 * slope)


def test_tanh_at_the_ends() -> None:
    s = np.zeros(4096, np.float32)
    s[:5] = 0, np.inf, -np.inf, np.nan, 1e-40
    D, A = slope_and_tanh(s)
    np.testing.assert_array_equal(D[:5], [1, 0, 0, np.nan, 1])
    np.testing.assert_array_equal(A[:4], [0, 1, -1, np.nan])


# Where the tensors lie


@unwarned
def results(primals: Sequence[Tensor], bars: Sequence[Tensor]) -> list[Tensor]:
    primals = [x.detach().requires_grad_() for x in primals]
    outputs = attn_triton(*primals)
    return [x.detach() for x in (*outputs, *torch.autograd.grad(outputs, primals, bars))]


def arguments(sizes: Sequence[int] = SIZES, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    return [x.to(DEVICE) for x in (*draw(PRIMALS, sizes, dtype=dtype), *draw(COTANGENTS, sizes, dtype=dtype, seed=1))]


def framed(x: Tensor) -> Tensor:
    """The same values amid NaN, with room for a block on each side."""
    n, m = x.shape
    frame = torch.full((n + 256, m + 256), torch.nan, dtype=x.dtype, device=x.device)
    frame[128 : 128 + n, 128 : 128 + m] = x
    return frame[128 : 128 + n, 128 : 128 + m]


def transposed(x: Tensor) -> Tensor:
    return x.mT.contiguous().mT


def every_other(x: Tensor) -> Tensor:
    return x.repeat_interleave(2, 0).repeat_interleave(3, 1)[::2, ::3]


def expanded(x: Tensor) -> Tensor:
    return x[:1].expand(x.shape)


LAYOUTS = {"transposed": transposed, "every_other": every_other}


def same_in(layout: Callable[[Tensor], Tensor], which: Sequence[int]) -> None:
    given = arguments()
    laid_out = [layout(x) if i in which else x for i, x in enumerate(given)]
    for x, y in zip(results(laid_out[:3], laid_out[3:]), results(given[:3], given[3:]), strict=True):
        assert torch.equal(x, y)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout_gives_the_same_bits(layout: str) -> None:
    same_in(LAYOUTS[layout], range(5))
    same_in(LAYOUTS[layout], [0, 3])  # q and k, output_bar and attn_bar are not laid out alike


def test_expanded_gives_the_same_bits() -> None:
    """Strides of 0, as in the cotangents of a sum."""
    given = [expanded(x) for x in arguments()]
    dense = [x.contiguous() for x in given]
    for x, y in zip(results(given[:3], given[3:]), results(dense[:3], dense[3:]), strict=True):
        assert torch.equal(x, y)


def test_nothing_beside_a_matrix_is_read() -> None:
    given = [framed(x) for x in arguments()]
    assert not any(x.isnan().any() for x in results(given[:3], given[3:]))


def test_wide_indices_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    given = arguments()
    expected = results(given[:3], given[3:])
    asked = []
    monkeypatch.setattr(attn_kernels, "index_type", lambda matrices: asked.append(matrices) or tl.int64)
    for x, y in zip(results(given[:3], given[3:]), expected, strict=True):
        assert torch.equal(x, y)
    assert len(asked) == 3


def test_when_indices_are_wide() -> None:
    """n*m entries beyond 2^30 are at offsets that, with a block beyond the edge, int32 may not hold."""

    def index(*shapes: tuple[int, int]) -> tl.dtype:
        return attn_kernels.index_type((rows, columns, columns, 1) for rows, columns in shapes)

    assert index((2**15, 2**15 - 2)) == tl.int32
    assert index((64, 64), (2**16, 2**16)) == tl.int64
    assert attn_kernels.index_type([(2**16, 2**16, 1, 2**16)]) == tl.int64


# What is not computed, and what is not held


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, set[str]]]:
    """The kernels that run, with the flags that are set."""
    calls = []
    launch = _launch._launch

    def noted(name, block, tensors, flags):
        calls.append((name, {flag for flag, value in flags.items() if value}))
        launch(name, block, tensors, flags)

    monkeypatch.setattr(_launch, "_launch", noted)
    return calls


@pytest.mark.parametrize("wanted", subsets(PRIMALS))
@pytest.mark.parametrize("defined", subsets(COTANGENTS))
def test_absent_cotangents_cost_nothing(launched, wanted, defined) -> None:
    primals = [x.to(DEVICE) for x in draw(PRIMALS, dtype=torch.float32)]
    primals = [x.requires_grad_(name in wanted) for name, x in zip(PRIMALS, primals, strict=True)]
    outputs = attn_triton(*primals)
    del launched[:]
    bars = only(defined, COTANGENTS, [x.to(DEVICE) for x in draw(COTANGENTS, dtype=torch.float32)])
    pull(outputs, [x for x in primals if x.requires_grad], bars)
    given = {f"HAS_{name.upper()}" for name in defined}
    wants = {"WANTS_K"} & {f"WANTS_{x.upper()}" for x in wanted}
    wants |= {"WANTS_V"} if "v" in wanted and "output_bar" in defined else set()
    expected = [("backward_of_rows", given)] if "q" in wanted else []
    expected += [("backward_of_columns", given | wants)] if wants else []
    assert launched == expected


def peak(face: Callable, backward: bool) -> float:
    """The most memory that is held at once beside the arguments, in n*m matrices; the kernels' own is registers."""
    sizes = (128, 1, 128, 1)
    q, k, v, output_bar, attn_bar = arguments(sizes)
    primals = [x.requires_grad_() for x in (q, k, v)]
    bars = [output_bar, attn_bar][: 1 if face is attn_output_triton else 2]

    def work() -> None:
        outputs = face(*primals)
        if backward:
            torch.autograd.grad(outputs, primals, bars)

    if DEVICE == "cuda":
        work()  # tunes, with buffers of its own
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        most = torch.cuda.max_memory_allocated() - before
    else:
        with Memory() as memory:
            work()
        most = memory.peak
    return most / (128 * 128 * 4)


def test_no_matrix_is_held_but_attn() -> None:
    for backward in (False, True):
        assert peak(attn_output_triton, backward) <= 0.1
        assert 1 <= peak(attn_triton, backward) <= 1.1
    assert peak(attn_composite, True) >= 3  # what the meter says of one that holds more


# What is refused


@pytest.mark.parametrize("face", [attn_triton, attn_output_triton])
def test_refusals(face: Callable) -> None:
    q, k, v, *_ = arguments((3, 2, 4, 5))
    with pytest.raises(TypeError, match=r"float64, and the kernels take .*; use torch_impl.attn_composite"):
        face(q.double(), k.double(), v.double())
    with pytest.raises(TypeError, match=r"complex64, and the kernels take .*; use torch_impl.attn_composite"):
        face(*(x.to(torch.complex64) for x in (q, k, v)))
    with pytest.raises(
        ValueError, match=r"axis d is 129 in q and k, .* at most 128 features; use torch_impl.attn_comp"
    ):
        face(q.new_zeros(3, 129), q.new_zeros(4, 129), v)
    with pytest.raises(ValueError, match="axis e is 129 in v"):
        face(q, k, q.new_zeros(4, 129))
    with pytest.raises(ValueError, match="axis m is 4 in k but 3 in v"):
        face(q, k, v[:3])
    with pytest.raises(ValueError, match=r"are on .* and meta; move them to one device"):
        face(q, k, v.to("meta"))
    with pytest.raises(ValueError, match=r"are on cpu, and Triton compiles for GPUs; use torch_impl.attn_composite"):
        _checked(face.__name__, q.cpu(), k.cpu(), v.cpu(), interpreted=False)
