"""jax_ref.gpu: what is asked of every framework's kernels (`gpu_kernels`), and what its launches add to them.

Not collected: test_triton.py runs it in a process. Where there is a GPU that JAX sees, jax-triton runs the kernels
there. Otherwise Triton's interpreter does, which must be chosen before they are imported. Mistakes in the kernels are
those of with_triton_mistakes.py; here they are in the launches.
"""

# Triton is not a requirement
# pyright: reportMissingImports=false

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import ClosedJaxpr, Jaxpr

import jax_ref
from derivation import attn_kernels
from jax_ref import gpu
from jax_ref.gpu import _attn as faces
from jax_ref.gpu import _launch
from parity_tests import JaxCandidate, crosscheck
from parity_tests.suite.gpu_kernels import (
    DTYPES,
    FIRST_ORDER,
    SPECS,
    failing,
    judged,
    slopes_near_saturation,
    test_an_empty_axis,
    test_first_order,
    test_first_order_at_every_size,
    test_infinities_stay_where_they_are,
    test_second_order,
    test_slopes_near_saturation,
    test_the_matrix_is_rounded_once,
    units_of_saturation,
)
from parity_tests.suite.interpreted_jax_triton import interpreted
from parity_tests.suite.jax_ref._cases import Sizes, draw, quick_jit
from parity_tests.suite.sources import module_with

__all__ = [  # of every framework's kernels
    "test_an_empty_axis",
    "test_first_order",
    "test_first_order_at_every_size",
    "test_infinities_stay_where_they_are",
    "test_second_order",
    "test_slopes_near_saturation",
    "test_the_matrix_is_rounded_once",
]

HAS_GPU = not attn_kernels.INTERPRETED
FACES = {"attn": gpu.attn, "attn_output": gpu.attn_output}
jit = jax.jit if HAS_GPU else quick_jit
dtypes = pytest.mark.parametrize("dtype", DTYPES)
TAILS = Sizes(n=20, m=40, d=5, e=3)  # more than one of the interpreter's blocks, and a part of one, along both axes


@pytest.fixture(autouse=True)
def on_the_device() -> Iterator[None]:
    """The kernels run on the GPU where there is one, whatever the default device of other tests."""
    with jax.default_device(jax.devices()[0]), contextlib.nullcontext() if HAS_GPU else interpreted():
        yield


def rounded(args: Sequence[np.ndarray], dtype: str) -> tuple:
    return tuple(jnp.asarray(x).astype(dtype) for x in args)


def arguments(sizes: Sizes, dtype: str) -> tuple:
    return rounded(draw(sizes, "q k v output_bar attn_bar", seed=70), dtype)


def values_and_gradients(op: Callable) -> Callable:
    def run(q, k, v, *bars):
        values, pull = jax.vjp(op, q, k, v)
        return *values, *pull(bars)

    return run


def with_output_only(op: Callable) -> Callable:
    """attn_output as an op with two results, of which the second is not there."""
    return lambda *primals: (op(*primals),)


def exactly(results: Sequence[jax.Array]) -> list[np.ndarray]:
    return [np.asarray(x).astype("float64") for x in results]


class TritonKernelsInJax:
    """See `gpu_kernels.Kernels`."""

    largest = attn_kernels.WIDEST
    tails = (TAILS.n, TAILS.d, TAILS.m, TAILS.e)
    device = "cuda" if HAS_GPU else "cpu"  # JAX computes where they are

    def candidate(self, face: str) -> JaxCandidate:
        return JaxCandidate(FACES[face], name="gpu")

    def run(self, face: str, arrays: Sequence[np.ndarray], dtype: str) -> list[np.ndarray]:
        op = gpu.attn if face == "attn" else with_output_only(gpu.attn_output)
        return exactly(jit(values_and_gradients(op))(*rounded(arrays, dtype)))

    def reference(self, arrays: Sequence[np.ndarray], dtype: str) -> list[np.ndarray]:
        return exactly(jit(values_and_gradients(jax_ref.attn))(*rounded(arrays, dtype)))


@pytest.fixture
def kernels() -> TritonKernelsInJax:
    return TritonKernelsInJax()


def of_the_rounded_attn(face: str, arrays: Sequence[np.ndarray], dtype: str) -> list[np.ndarray]:
    """jax_ref.attn has D of the rounded attn, which is right by its own bound."""
    op = with_output_only(lambda *primals: jax_ref.attn(*primals)[0])
    return exactly(jit(values_and_gradients(op))(*rounded(arrays, dtype)))


def test_slopes_of_the_rounded_attn_are_noticed():
    assert slopes_near_saturation(of_the_rounded_attn, "bfloat16") > units_of_saturation("bfloat16")


# Planted mistakes of the launches: what is replaced in the source, by what, and the checks that notice.
WRONG_LAUNCHES = {
    "the strides of attn are swapped": (
        "n * e, e, 1, n * m, m, 1, 0,\n        WITH_ATTN", "n * e, e, 1, n * m, 1, n, 0,\n        WITH_ATTN",
        {"forward", "vmap"},
    ),
    "too few programs": (
        'constants[f"BLOCK_{block.upper()}"]', "64", {"forward", "vjp", "vjp_partial", "vmap"},
    ),
    "attn's cotangent is forgotten": (
        '"HAS_ATTN_BAR": attn_bar is not None', '"HAS_ATTN_BAR": False', {"vjp", "vjp_partial"},
    ),
    "only the first example of a batch": ("(B * triton.cdiv(", "(triton.cdiv(", {"vmap"}),
}  # fmt: skip


def launches_with(old: str, new: str, folder: Path) -> ModuleType:
    """The module of the launches with one piece of its source replaced, on the same device."""
    wrong = module_with(_launch, old, new, folder)
    wrong.triton_call = _launch.triton_call  # pyright: ignore[reportAttributeAccessIssue]
    return wrong


def largest(f: Callable, *args) -> int:
    """Entries of the largest array in the trace of f, wherever it is nested."""

    def search(jaxpr: Jaxpr) -> int:
        sizes = [0]
        for eqn in jaxpr.eqns:
            sizes += [np.size(x.aval) if not hasattr(x.aval, "size") else x.aval.size for x in eqn.outvars]
            for inner in jax.tree.leaves(
                list(eqn.params.values()), is_leaf=lambda x: isinstance(x, ClosedJaxpr | Jaxpr)
            ):
                if isinstance(inner, ClosedJaxpr | Jaxpr):
                    sizes.append(search(inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner))
        return max(sizes)

    return search(jax.make_jaxpr(f)(*args).jaxpr)


LARGE = Sizes(n=2048, m=2048, d=8, e=4)


def gradients_of(op: Callable) -> Callable:
    return lambda primals, bar: jax.vjp(op, *primals)[1](bar)


def test_attn_output_holds_no_matrix() -> None:
    *primals, output_bar, _ = arguments(LARGE, "bfloat16")
    matrix = LARGE.n * LARGE.m
    first = gradients_of(gpu.attn_output)
    for f in (
        lambda primals, bar: gpu.attn_output(*primals),
        first,
        lambda primals, bar: jax.jvp(first, (primals, bar), (primals, bar))[1],
        lambda primals, bar: jax.vjp(first, primals, bar)[1](tuple(primals)),
    ):
        assert 0 < largest(f, primals, output_bar) < matrix
    assert largest(gradients_of(lambda *x: gpu.attn(*x)[0]), primals, output_bar) == matrix, "the search must find it"


# What is absent, and what it costs.


@pytest.mark.parametrize(
    ("present", "kernels_and_flags"),
    [
        pytest.param((0, 1), {("backward_of_rows", True, True), ("backward_of_columns", True, True)}, id="both"),
        pytest.param((0,), {("backward_of_rows", True, False), ("backward_of_columns", True, False)}, id="output_bar"),
        pytest.param((1,), {("backward_of_rows", False, True), ("backward_of_columns", False, True)}, id="attn_bar"),
        pytest.param((), set(), id="none"),
    ],
)
def test_absent_cotangents_cost_nothing(
    present: Sequence[int], kernels_and_flags: set, monkeypatch: pytest.MonkeyPatch
) -> None:
    *primals, output_bar, attn_bar = arguments(
        TAILS._replace(n=21 + sum(2**i for i in present)), "float32"
    )  # not traced before
    bars, calls, call = (output_bar, attn_bar), [], _launch.triton_call

    def noted(*operands, name, **options):
        calls.append((name.removeprefix("attn_"), *(options.get(f"HAS_{bar}_BAR") for bar in ("OUTPUT", "ATTN"))))
        return call(*operands, name=name, **options)

    def gradients(*primals):
        def outputs(*primals):
            values = gpu.attn(*primals)
            return tuple(values[i] for i in present)

        return jax.vjp(outputs, *primals)[1](tuple(bars[i] for i in present))

    monkeypatch.setattr(_launch, "triton_call", noted)
    jax.make_jaxpr(gradients)(*primals)
    assert {call for call in calls if call[0] != "forward"} == kernels_and_flags
    assert ("forward", None, None) in calls


# Higher orders, transformations, sizes.


def test_forward_mode_first_is_refused() -> None:
    primals = arguments(TAILS, "float32")[:3]
    for op in FACES.values():
        with pytest.raises(TypeError, match="forward-mode"):
            jax.jvp(op, primals, primals)


def test_examples_of_a_batch_are_not_mixed() -> None:
    """Of batches of batches, in which k is one for all."""
    q, k, v, *bars = arguments(TAILS, "float32")
    factors = jnp.asarray([[1, -0.5, 2], [0.25, 3, -1]], "float32")
    batch = [factors[..., None, None] * x[None, None] for x in (q, v, *bars)]
    inner = jax.vmap(values_and_gradients(gpu.attn), in_axes=(0, None, 0, 0, 0))
    results = jit(jax.vmap(inner, in_axes=(0, None, 0, 0, 0)))(batch[0], k, *batch[1:])
    one = jit(values_and_gradients(gpu.attn))
    for i, j in np.ndindex(factors.shape):
        q, v, *bars = (x[i, j] for x in batch)
        for x, y in zip(results, one(q, k, v, *bars), strict=True):
            np.testing.assert_array_equal(x[i, j], y)


# What is refused.


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (
            lambda q, k, v: (q.astype("float64"), k.astype("float64"), v.astype("float64")),
            TypeError,
            "attn: q, k and v have dtype float64, and the GPU kernels take float32, bfloat16, float16; convert them, "
            "or call jax_ref.attn, which takes it",
        ),
        (
            lambda q, k, v: (q.astype("complex64"), k.astype("complex64"), v.astype("complex64")),
            TypeError,
            "attn: q, k and v have dtype complex64, and the GPU kernels take float32, bfloat16, float16; convert them, "
            "or call jax_ref.attn, which takes it",
        ),
        (
            lambda q, k, v: (jnp.zeros((4, 129), q.dtype), jnp.zeros((5, 129), q.dtype), jnp.zeros((5, 2), q.dtype)),
            ValueError,
            "attn: axis d is 129 in q, and the GPU kernels take up to 128; split it, or call jax_ref.attn, which takes "
            "it",
        ),
        (
            lambda q, k, v: (q, k, v[:-1]),
            ValueError,
            "attn: axis m is 40 in k but 39 in v (k has shape (40, 5), v has shape (39, 3)); make them equal",
        ),
    ],
    ids=["float64", "complex", "features", "shape"],
)
def test_what_is_refused(face: str, change: Callable, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as raised:
        FACES[face](*change(*arguments(TAILS, "float32")[:3]))
    assert str(raised.value) == text


def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attn_kernels, "INTERPRETED", False)
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    for op in FACES.values():
        with pytest.raises(RuntimeError) as raised:
            op(*arguments(TAILS, "float32")[:3])
        assert str(raised.value) == (
            "attn: JAX sees no GPU here, its platform is 'cpu'; call jax_ref.attn, which runs anywhere"
        )


# At all of the harness' own sizes: minutes.


def _as_far_as_it_goes(op: Callable, reference: Callable) -> Callable:
    """The harness also has more features than the kernels take."""
    return lambda q, k, v: (op if max(q.shape[1], v.shape[1]) <= attn_kernels.WIDEST else reference)(q, k, v)


@pytest.mark.soak
@pytest.mark.parametrize("face", FACES)
@dtypes
def test_agrees_with_the_oracle(face: str, dtype: str, kernels: TritonKernelsInJax) -> None:
    reference = jax_ref.attn if face == "attn" else lambda *x: jax_ref.attn(*x)[0]
    candidate = JaxCandidate(_as_far_as_it_goes(FACES[face], reference), name="gpu")
    report = crosscheck(candidate, SPECS[face], checks=FIRST_ORDER, dtypes=[dtype], device=kernels.device)
    assert report.passed, str(report)


# Mistakes.


@pytest.mark.parametrize("mistake", WRONG_LAUNCHES)
def test_a_wrong_launch_is_noticed(
    mistake: str, kernels: TritonKernelsInJax, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new, wrong = WRONG_LAUNCHES[mistake]
    monkeypatch.setattr(faces, "_launch", launches_with(old, new, tmp_path))
    assert failing(judged(kernels, "attn", kernels.tails, checks=sorted(wrong), dtypes=["float32"])) == wrong
