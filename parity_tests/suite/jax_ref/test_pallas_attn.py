"""jax_ref.gpu: the kernels in Pallas' interpreter, compiled where there is a GPU; and that JAX lowers them for CUDA.

What is asked of the kernels of every framework is in `gpu_kernels`. The interpreter does not see what a kernel writes
outside of an array: that every access has a mask, and that the masks cover an axis once, is tested apart.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import ClosedJaxpr, Jaxpr

import jax_ref
from jax_ref import gpu
from jax_ref.gpu import _attn as faces
from jax_ref.gpu import _kernels
from parity_tests import JaxCandidate, crosscheck
from parity_tests.suite.gpu_kernels import (
    DTYPES,
    FIRST_ORDER,
    ROUNDED_ONCE,
    SPECS,
    error_of_attn,
    failing,
    infinities,
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
from parity_tests.suite.jax_ref._cases import Sizes, draw, quick_jit
from parity_tests.suite.jax_ref.test_gemms import gemms

__all__ = [  # of every framework's kernels
    "test_an_empty_axis",
    "test_first_order",
    "test_first_order_at_every_size",
    "test_infinities_stay_where_they_are",
    "test_second_order",
    "test_slopes_near_saturation",
    "test_the_matrix_is_rounded_once",
]

pytestmark = pytest.mark.slow

HAS_GPU = jax.default_backend() == "gpu"
attn = functools.partial(gpu.attn, interpret=not HAS_GPU)
attn_output = functools.partial(gpu.attn_output, interpret=not HAS_GPU)
FACES = {"attn": attn, "attn_output": attn_output}
jit = jax.jit if HAS_GPU else quick_jit
dtypes = pytest.mark.parametrize("dtype", DTYPES)
TAILS = Sizes(n=70, m=131, d=5, e=3)  # more than one block, and a part of one, along both axes


@pytest.fixture(autouse=True)
def on_the_device():
    """The kernels are lowered for the GPU where there is one, whatever the default device of other tests."""
    with jax.default_device(jax.devices()[0]):
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


class PallasKernels:
    """See `gpu_kernels.Kernels`."""

    largest = _kernels.LARGEST
    tails = (TAILS.n, TAILS.d, TAILS.m, TAILS.e)
    device = "cuda" if HAS_GPU else "cpu"  # JAX computes where they are

    def candidate(self, face: str) -> JaxCandidate:
        return JaxCandidate(FACES[face], name="gpu")

    def run(self, face: str, arrays: Sequence[np.ndarray], dtype: str) -> list[np.ndarray]:
        op = attn if face == "attn" else with_output_only(attn_output)
        return exactly(jit(values_and_gradients(op))(*rounded(arrays, dtype)))

    def reference(self, arrays: Sequence[np.ndarray], dtype: str) -> list[np.ndarray]:
        return exactly(jit(values_and_gradients(jax_ref.attn))(*rounded(arrays, dtype)))


@pytest.fixture
def kernels() -> PallasKernels:
    return PallasKernels()


def of_the_rounded_attn(face: str, arrays: Sequence[np.ndarray], dtype: str) -> list[np.ndarray]:
    """jax_ref.attn has D of the rounded attn, which is right by its own bound."""
    op = with_output_only(lambda *primals: jax_ref.attn(*primals)[0])
    return exactly(jit(values_and_gradients(op))(*rounded(arrays, dtype)))


def test_slopes_of_the_rounded_attn_are_noticed():
    assert slopes_near_saturation(of_the_rounded_attn, "bfloat16") > units_of_saturation("bfloat16")


# Planted mistakes.


def _unmasked(ref, rows, columns):
    return _kernels.plgpu.load(ref.at[rows.slice, columns.slice])


def _block_zero(layout, j):
    return _kernels.Span(_kernels._int32(j) * 0, layout.block, layout.m)


def _last_block_only(lower, upper, step, carry):
    return step(jnp.int32(upper - 1), carry)


def _without_attn_bar(backward: Callable) -> Callable:
    return lambda *args, **options: backward(*args[:5], None, **options)


def _without_output_bar_in_G(A_and_P: Callable) -> Callable:
    return lambda layout, refs, rows, columns, q, k, v, bar: A_and_P(layout, refs, rows, columns, q, k, None, None)


def _of_the_rounded_attn(A_and_D: Callable) -> Callable:
    def mutant(q, k):
        A, _ = A_and_D(q, k)
        wide = A.astype(jnp.float32)
        return A, 1 - wide * wide

    return mutant


def _products_rounded(mm: Callable) -> Callable:
    return lambda subscripts, x, y: mm(subscripts, x, y).astype(y.dtype).astype(jnp.float32)


# What is patched, by what, in which dtype, and the checks that convict it
WRONG_KERNELS = {
    "D_is_one_minus_A": (_kernels, "_D", lambda _: lambda S: 1 - jnp.tanh(S), "bfloat16", {"vjp", "vjp_partial"}),
    "no_mask_at_the_edge": (_kernels, "_load", lambda _: _unmasked, "float32", set(FIRST_ORDER)),
    "attn_bar_forgotten": (_kernels, "backward", _without_attn_bar, "float32", {"vjp", "vjp_partial"}),
    "output_bar_forgotten_in_G": (
        _kernels, "_A_and_P", _without_output_bar_in_G, "float32", {"vjp", "vjp_partial"},
    ),
    "every_step_at_block_zero": (_kernels.Layout, "columns", lambda _: _block_zero, "float32", set(FIRST_ORDER)),
    "an_accumulator_starts_anew": (
        _kernels.jax.lax, "fori_loop", lambda _: _last_block_only, "float32", set(FIRST_ORDER),
    ),
}  # fmt: skip


@pytest.fixture
def patched(monkeypatch):
    """monkeypatch.setattr, for kernels that JAX then traces again."""
    jitted = _kernels.forward, _kernels.backward

    def setattr(*args):
        monkeypatch.setattr(*args)
        for f in jitted:
            f.clear_cache()

    yield setattr
    for f in jitted:
        f.clear_cache()


@pytest.mark.parametrize("name", WRONG_KERNELS)
def test_a_wrong_kernel_is_noticed(patched, kernels, name):
    owner, where, mutant, dtype, wrong = WRONG_KERNELS[name]
    patched(owner, where, mutant(getattr(owner, where)))
    assert failing(judged(kernels, "attn", kernels.tails, checks=FIRST_ORDER, dtypes=[dtype])) == wrong


def test_rounded_scores_are_noticed(patched, kernels):
    patched(_kernels, "_mm", _products_rounded(_kernels._mm))
    assert error_of_attn(kernels) > ROUNDED_ONCE


def test_the_slope_of_the_rounded_attn_is_noticed(patched, kernels):
    patched(_kernels, "_A_and_D", _of_the_rounded_attn(_kernels._A_and_D))
    assert slopes_near_saturation(kernels.run, "bfloat16") > units_of_saturation("bfloat16")


def test_zeros_alone_are_no_mask(patched, kernels):
    patched(_kernels, "_where", lambda mask, x: x)
    assert infinities(kernels)


# Masks.


@pytest.mark.parametrize("size", [1, 63, 64, 65, 131])
def test_blocks_cover_an_axis_once(size):
    for layout, blocks, of in (
        (_kernels.Layout(size, 7, 5, 3, 64), "query_blocks", "rows"),
        (_kernels.Layout(7, size, 5, 3, 64), "key_blocks", "columns"),
    ):
        spans = [getattr(layout, of)(jnp.int32(i)) for i in range(getattr(layout, blocks))]
        indices = [(np.asarray(x.start) + np.arange(x.size))[np.asarray(x.inside)] for x in spans]
        np.testing.assert_array_equal(np.concatenate(indices), np.arange(size))
    features = _kernels.Layout(1, 1, size, 3, 64).query_features
    assert features.inside.sum() == size
    assert features.size.bit_count() == 1


def test_every_access_is_masked(monkeypatch):
    accesses = []

    def recorded(access: Callable) -> Callable:
        def call(*args, mask, **options):
            accesses.append((access.__name__, mask.shape))
            return access(*args, mask=mask, **options)

        return call

    for name in ("load", "store"):
        monkeypatch.setattr(_kernels.plgpu, name, recorded(getattr(_kernels.plgpu, name)))
    sizes = Sizes(71, 132, 6, 7)  # not traced before
    jax.make_jaxpr(values_and_gradients(attn))(*arguments(sizes, "float32"))
    # Forward q, k, v, output, attn; of queries q, output_bar, k, v, attn, attn_bar, q_bar; of keys the same and v_bar.
    assert sorted({name for name, _ in accesses}) == ["load", "store"]
    kinds = [name for name, _ in accesses]
    assert (kinds.count("load") % (3 + 6 + 6), kinds.count("store") % (2 + 1 + 2)) == (0, 0)


# What is absent, and what it costs.


@pytest.mark.parametrize(
    ("present", "dtype", "count"),
    [
        # G, (10); G, (11), (12)
        pytest.param((0, 1), "float32", 5, id="both-float32"),
        pytest.param((0,), "float32", 5, id="output_bar-float32"),
        pytest.param((1,), "float32", 2, id="attn_bar-float32"),
        # S twice, besides
        pytest.param((0, 1), "bfloat16", 7, id="both-bfloat16"),
        pytest.param((1,), "bfloat16", 4, id="attn_bar-bfloat16"),
        pytest.param((), "float32", 0, id="none"),
    ],
)
def test_products_of_a_backward(present, dtype, count):
    *primals, output_bar, attn_bar = arguments(TAILS, dtype)
    bars = output_bar, attn_bar

    def gradients(*primals):
        def outputs(*primals):
            values = attn(*primals)
            return tuple(values[i] for i in present)

        return jax.vjp(outputs, *primals)[1](tuple(bars[i] for i in present))

    assert gemms(gradients, *primals) == 2 + count


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


def test_attn_output_holds_no_matrix():
    *primals, output_bar, _ = arguments(LARGE, "bfloat16")
    matrix = LARGE.n * LARGE.m
    first = gradients_of(attn_output)
    for f in (
        lambda primals, bar: attn_output(*primals),
        first,
        lambda primals, bar: jax.jvp(first, (primals, bar), (primals, bar))[1],
        lambda primals, bar: jax.vjp(first, primals, bar)[1](tuple(primals)),
    ):
        assert 0 < largest(f, primals, output_bar) < matrix
    assert largest(gradients_of(lambda *x: attn(*x)[0]), primals, output_bar) == matrix, "the search must find it"


# Higher orders, transformations, sizes.


def test_forward_mode_first_is_refused():
    primals = arguments(TAILS, "float32")[:3]
    for op in (attn, attn_output):
        with pytest.raises(TypeError, match="forward-mode"):
            jax.jvp(op, primals, primals)


def test_examples_of_a_batch_are_not_mixed():
    args = arguments(TAILS, "float32")
    batch = [tuple(x * factor for x in args) for factor in (1, -0.5)]
    run = jit(jax.vmap(values_and_gradients(attn)))
    results = run(*(jnp.stack(x) for x in zip(*batch, strict=True)))
    for i, example in enumerate(batch):
        for x, y in zip(results, jit(values_and_gradients(attn))(*example), strict=True):
            np.testing.assert_array_equal(x[i], y)


# What is refused.


@pytest.mark.parametrize("op", [pytest.param(attn, id="attn"), pytest.param(attn_output, id="attn_output")])
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
            lambda q, k, v: (jnp.zeros((4, 257), q.dtype), jnp.zeros((5, 257), q.dtype), jnp.zeros((5, 2), q.dtype)),
            ValueError,
            "attn: axis d is 257 in q, and the GPU kernels take up to 256; split it, or call jax_ref.attn, which takes "
            "it",
        ),
        (
            lambda q, k, v: (q, k, v[:-1]),
            ValueError,
            "attn: axis m is 131 in k but 130 in v (k has shape (131, 5), v has shape (130, 3)); make them equal",
        ),
    ],
    ids=["float64", "complex", "features", "shape"],
)
def test_what_is_refused(op, change, error, text):
    with pytest.raises(error) as raised:
        op(*change(*arguments(TAILS, "float32")[:3]))
    assert str(raised.value) == text


@pytest.mark.skipif(HAS_GPU, reason="there is a GPU, and the kernels run on it")
@pytest.mark.parametrize("op", [pytest.param(gpu.attn, id="attn"), pytest.param(gpu.attn_output, id="attn_output")])
def test_without_a_gpu(op):
    with pytest.raises(RuntimeError) as raised:
        op(*arguments(TAILS, "float32")[:3])
    assert str(raised.value) == (
        f"attn: JAX sees no GPU here, its platform is {jax.default_backend()!r}; pass interpret=True, or call "
        "jax_ref.attn, which runs anywhere"
    )


# For CUDA, as far as it goes without one: JAX's part of the compiler, down to Triton's IR.

# From JAX 0.11 on the lowering asks which GPU it is for.
H200 = jax.sharding.AbstractDevice(device_kind="NVIDIA H200", num_cores=132, platform="gpu")
ON_H200 = jax.sharding.AbstractMesh((1,), ("devices",), abstract_device=H200)


def lowered(f: Callable, *args) -> str:
    with jax.sharding.use_abstract_mesh(ON_H200):
        return jax.jit(lambda *args: f(*args)).trace(*args).lower(lowering_platforms=("cuda",)).as_text()


def compiled_attn(*args):
    """Below the faces, which refuse where there is no GPU."""
    return values_and_gradients(functools.partial(faces._with_attn, False))(*args)


def compiled_output(*args):
    return values_and_gradients(with_output_only(functools.partial(faces._output, False)))(*args[:4])


lowering = pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated:DeprecationWarning")


@lowering
@dtypes
@pytest.mark.parametrize("x64", [pytest.param(False, id="32_bit"), pytest.param(True, id="64_bit")])
def test_lowers_for_cuda(dtype, x64):
    with jax.enable_x64(x64):
        for f in (compiled_attn, compiled_output):
            assert lowered(f, *arguments(TAILS, dtype)).count("@__gpu$xla.gpu.triton(") == 3


@lowering
def test_a_kernel_that_triton_does_not_have_is_not_lowered(patched):
    patched(_kernels, "_D", lambda S: jnp.sort(S, axis=1))
    with pytest.raises(NotImplementedError, match="Triton lowering: sort"):
        lowered(compiled_output, *arguments(TAILS, "float32"))


@lowering
def test_a_batch_of_batches_lowers_for_cuda():
    args = tuple(x[None, None, None] for x in arguments(TAILS, "bfloat16"))
    run = jax.vmap(jax.vmap(jax.vmap(compiled_attn)))
    assert lowered(run, *args).count("@__gpu$xla.gpu.triton(") == 3


@pytest.mark.parametrize("default", ["tensorfloat32", "bfloat16", "highest"])
def test_no_product_is_shortened(default):
    """Precision HIGHEST is Triton's IEEE, whatever the caller's default is; with none it is TF32."""
    with jax.default_matmul_precision(default):
        text = str(jax.make_jaxpr(lambda *args: compiled_attn(*args))(*arguments(TAILS, "float32")))
    assert text.count("dot_general[") == 2 + 2 + 3
    assert text.count("precision=(Precision.HIGHEST, Precision.HIGHEST)") == 2 + 2 + 3
    assert text.count("preferred_element_type=float32") == 2 + 2 + 3


# At all of the harness' own sizes: minutes.


def _as_far_as_it_goes(op: Callable, reference: Callable) -> Callable:
    """The harness also has more features than the kernels take."""
    return lambda q, k, v: (op if max(q.shape[1], v.shape[1]) <= _kernels.LARGEST else reference)(q, k, v)


@pytest.mark.soak
@pytest.mark.parametrize("face", FACES)
@dtypes
def test_agrees_with_the_oracle(face, dtype):
    reference = jax_ref.attn if face == "attn" else lambda *x: jax_ref.attn(*x)[0]
    candidate = JaxCandidate(_as_far_as_it_goes(FACES[face], reference), name="gpu")
    device = "cuda" if HAS_GPU else "cpu"
    report = crosscheck(candidate, SPECS[face], checks=FIRST_ORDER, dtypes=[dtype], device=device)
    assert report.passed, str(report)
