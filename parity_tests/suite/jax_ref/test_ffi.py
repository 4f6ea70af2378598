"""attn by the kernels in C++, judged like any candidate, at the sizes they are for; and every error of their tanh."""

import functools
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_ref
from jax_ref import ffi
from jax_ref.ffi import _build
from jax_ref.ffi._attn import _FRESH, _backward_kernel, _forward_kernel
from parity_tests.catalog.attn import SPEC_FLOAT32
from parity_tests.harness.candidates.jax_candidate import JaxCandidate
from parity_tests.harness.crosscheck import crosscheck
from parity_tests.suite.jax_ref._cases import ALL_DIFFER, Sizes, draw
from parity_tests.suite.jax_ref._cases import shape as shape_of
from parity_tests.suite.marks import fast

NAMES = ("q", "k", "v", "output_bar", "attn_bar")


@pytest.fixture(autouse=True, scope="module")
def _compiled() -> None:
    try:
        _build.targets()
    except ffi.CompilerMissing as error:
        pytest.skip(str(error))


def inputs(sizes: Sizes, names: tuple[str, ...] = NAMES, seed: int = 0) -> list[jax.Array]:
    return [jnp.asarray(x, jnp.float32) for x in draw(sizes, names, seed=seed)]


def at(sizes: Sizes, seed: int = 0):
    """The spec at one sample of these sizes."""
    return replace(SPEC_FLOAT32, signature=None, inputs=draw(sizes, NAMES[:3], seed=seed))


# The fused kernel, at every small size and through every transform.

FIRST_ORDER = ("forward", "vjp", "vjp_partial", "points", "exact", "linearity", "determinism")
SECOND_ORDER = ("vjp_of_vjp", "jvp_of_vjp")


@pytest.mark.slow
def test_agrees():
    report = crosscheck(JaxCandidate(ffi.attn_fused), SPEC_FLOAT32)
    report.raise_if_failed()
    for check in (*FIRST_ORDER, *SECOND_ORDER):
        (row,) = (row for row in report.rows if (row.candidate, row.check) == ("attn_fused", check))
        assert row.verdict == "PASS", (check, row.verdict)
        assert row.comparisons


# Around the ends of tiles and of blocks, and over several of them.
EDGES = [
    Sizes(n=31, m=33, d=32, e=65),
    Sizes(n=65, m=257, d=33, e=31),
    Sizes(n=129, m=511, d=17, e=16),
    Sizes(n=263, m=31, d=1, e=3),
]


@fast("*n=263*")
@pytest.mark.parametrize("sizes", EDGES, ids=str)
def test_at_the_ends_of_blocks(sizes):
    crosscheck(JaxCandidate(ffi.attn_fused), at(sizes), checks=["forward", "vjp", "vjp_partial"]).raise_if_failed()


@pytest.mark.slow
def test_at_a_thousand():
    """The public face, in as many slices as there are threads; the same bits again."""
    sizes = Sizes(n=1024, m=1024, d=64, e=64)
    crosscheck(JaxCandidate(ffi.attn), at(sizes), checks=["forward", "vjp", "vjp_partial"]).raise_if_failed()
    q, k, v, *bars = inputs(sizes)
    both = jax.jit(lambda q, k, v, bars: (lambda values, pull: (values, pull(bars)))(*jax.vjp(ffi.attn, q, k, v)))
    first = both(q, k, v, tuple(bars))
    for _ in range(5):
        jax.tree.map(np.testing.assert_array_equal, both(q, k, v, tuple(bars)), first)


@pytest.mark.slow
def test_batches():
    """Nested, each array mapped over axes of its own, of an example the bits that it has alone."""
    q, k, v, output_bar, attn_bar = inputs(Sizes(n=37, m=66, d=9, e=35))
    q, k = jnp.stack([q, 2 * q, 3 * q]), jnp.stack([k, -k])
    v = jnp.stack([jnp.stack([v, 2 * v, -v]), jnp.stack([3 * v, v, -2 * v])])

    def both(q, k, v):
        values, pull = jax.vjp(ffi.attn_fused, q, k, v)
        return values, pull((output_bar, attn_bar))

    batched = jax.vmap(jax.vmap(both, (0, None, 0)), (None, 0, 0))(q, k, v)
    for i in range(2):
        for j in range(3):
            alone = both(q[j], k[i], v[i, j])
            jax.tree.map(lambda x, y, i=i, j=j: np.testing.assert_array_equal(x[i, j], y), batched, alone)


# What is run.


def kernels_in(f, *args) -> list[str]:
    """Which kernels a map calls, in order."""
    return re.findall(r"target_name=gradparity_attn_(\w+?)_", str(jax.make_jaxpr(f)(*args)))


@pytest.mark.slow
def test_an_absent_cotangent_costs_nothing():
    q, k, v, output_bar, attn_bar = inputs(ALL_DIFFER)

    def pulled(i):
        bar = (output_bar, attn_bar)[i]
        return lambda q, k, v: jax.vjp(lambda *x: ffi.attn_fused(*x)[i], q, k, v)[1](bar)

    assert kernels_in(pulled(0), q, k, v) == kernels_in(pulled(1), q, k, v) == ["forward", "backward"]
    text = str(jax.make_jaxpr(pulled(1))(q, k, v))
    assert "('has_attn_bar', True)" in text
    assert "('has_output_bar', False)" in text
    assert not np.any(pulled(1)(q, k, v)[2])
    assert kernels_in(lambda q: jax.grad(lambda q: jnp.sum(v))(q), q) == []
    assert _backward_kernel(q, k, v, jnp.tanh(q @ k.T), None, attn_bar)[2] is None


@pytest.mark.parametrize(
    ("sizes", "dtype", "expected"),
    [
        (Sizes(32, 32, 128, 128), "float32", ["forward"]),
        (Sizes(31, 32, 8, 8), "float32", []),
        (Sizes(32, 31, 8, 8), "float32", []),
        (Sizes(32, 32, 129, 8), "float32", []),
        (Sizes(32, 32, 8, 129), "float32", []),
        (Sizes(32, 32, 8, 8), "float64", []),
        (Sizes(32, 32, 8, 8), "bfloat16", []),
    ],
)
def test_who_takes_the_kernel(sizes, dtype, expected):
    args = [jax.ShapeDtypeStruct(shape_of(sizes, name), dtype) for name in NAMES[:3]]
    assert kernels_in(ffi.attn, *args) == expected


def test_a_forward_into_fresh_memory_is_xlas():
    args = [jax.ShapeDtypeStruct(s, jnp.float32) for s in ((2048, 64), (_FRESH // 2048, 64), (_FRESH // 2048, 64))]
    assert kernels_in(ffi.attn, *args) == []
    assert kernels_in(jax.grad(lambda *x: ffi.attn(*x)[0].sum()), *args) == ["backward"]


def test_other_dtypes_are_refused_or_go_another_way():
    q, k, v = draw(ALL_DIFFER, NAMES[:3], seed=0)
    with pytest.raises(TypeError, match=r"the kernel computes in float32, got float64; take jax_ref\.ffi\.attn"):
        ffi.attn_fused(q, k, v)
    jax.tree.map(np.testing.assert_array_equal, ffi.attn(q, k, v), jax_ref.attn(q, k, v))
    with pytest.raises(ValueError, match="axis d is 4 in q but 3 in k"):
        ffi.attn(q, k[:, :3], v)


# tanh. The kernel is asked for attn of the queries 1 and -1, and keys x: S = x, and -x.


@jax.jit
def tanh_by_kernel(x):
    return _forward_kernel(jnp.array([[1.0], [-1.0]], jnp.float32), x[:, None], x[:, None])[1]


def ulps(bits: np.ndarray) -> float:
    """The largest error of tanh at the floats with these bits, in units of the last place of the right result."""
    x = bits.view(np.float32)
    got, negative = map(np.asarray, tanh_by_kernel(x))
    np.testing.assert_array_equal(negative, -got)
    right = np.tanh(x.astype(np.float64))
    return float(np.max(np.abs(got - right) / np.spacing(np.abs(right).astype(np.float32)), initial=0.0))


TINY, TEN, INFINITY = 0x00800000, 0x41200000, 0x7F800000  # the bits of the smallest normal number, 10 and infinity
ULPS = 5.5  # XLA's own tanh errs by 4.9


@pytest.mark.slow
def test_tanh_at_a_million_floats():
    """The first and last floats, and those between in equal steps, of either sign."""
    bits = np.linspace(TINY, INFINITY - 1, 2**20).astype(np.uint32)
    assert 1.0 < ulps(bits) <= ULPS
    assert ulps(np.arange(0x3C000000, TEN, 79, dtype=np.uint32)) <= ULPS  # 2**-7 to 10


@pytest.mark.slow
def test_tanh_is_never_beyond_one():
    """From 8 to 9.1, where as it is rounded the quotient is at times."""
    x = np.arange(0x41000000, 0x4111999A, dtype=np.uint32).view(np.float32)
    assert np.abs(np.asarray(tanh_by_kernel(x))).max() == 1


def test_tanh_at_special_values():
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 9.1, -9.1, 1e30, 1e-30], np.float32)
    y = np.asarray(tanh_by_kernel(x))[0]
    np.testing.assert_array_equal(y, np.array([0, 0, 1, -1, np.nan, 1, -1, 1, 1e-30], np.float32))
    assert list(np.signbit(y[:2])) == [False, False]  # 0 + 1 · -0, as a sum that starts with 0


@pytest.mark.soak
def test_tanh_at_every_float():
    """From the smallest normal number to the largest, of either sign; from 10 on it is 1."""
    step, worst = 2**16, 0.0  # NumPy keeps memory of that size
    for start in range(TINY, TEN, step):
        worst = max(worst, ulps(np.arange(start, min(start + step, TEN), dtype=np.uint32)))
    for start in range(TEN, INFINITY, step):
        x = np.arange(start, min(start + step, INFINITY), dtype=np.uint32).view(np.float32)
        got, negative = map(np.asarray, tanh_by_kernel(x))
        assert (got == 1).all()
        assert (negative == -1).all()
    assert 4.0 < worst <= ULPS


# The other instruction sets, and planted mistakes: variants of the source, compiled.


@pytest.fixture
def variant(tmp_path, monkeypatch):
    """The kernels with one text of their source replaced, for this test."""

    def use(old: str, new: str) -> None:
        folder = tmp_path / "csrc"
        shutil.copytree(_build.SOURCES, folder)
        (path,) = (path for path in folder.iterdir() if old in path.read_text())
        assert path.read_text().count(old) == 1
        path.write_text(path.read_text().replace(old, new))
        monkeypatch.setattr(_build, "targets", functools.partial(_build.targets, folder))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        jax.clear_caches()

    yield use
    jax.clear_caches()


AVX512 = '  if (__builtin_cpu_supports("avx512f")) return KERNELS(avx512);\n'
AVX2 = '  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return KERNELS(avx2);\n'


@pytest.mark.parametrize(
    "without",
    [
        pytest.param(AVX512, id="avx2", marks=pytest.mark.slow),
        pytest.param(AVX512 + AVX2, id="any", marks=pytest.mark.soak),
    ],
)
def test_other_instruction_sets(variant, without):
    variant(without, "")
    crosscheck(JaxCandidate(ffi.attn_fused), SPEC_FLOAT32, checks=["forward", "vjp", "exact"]).raise_if_failed()
    for sizes in EDGES:
        crosscheck(JaxCandidate(ffi.attn_fused), at(sizes), checks=["forward", "vjp"]).raise_if_failed()
    assert ulps(np.arange(0x3C000000, TEN, 79, dtype=np.uint32)) <= 2 * ULPS


MISTAKES = {
    "the slope 1 - A": ("(1 - a.x[i][j]) * (1 + a.x[i][j])", "(1 - a.x[i][j])", {"q_bar", "k_bar"}),
    "G in place of A": (
        "add_across(t, A + r / WIDTH * WIDTH * height",
        "add_across(t, P + r / WIDTH * WIDTH * height",
        {"v_bar"},
    ),
    "a block of keys starts anew": (
        "K + c * m + m0 * WIDTH, keys);",
        "K + c * m, keys);",
        {"q_bar"},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_caught(variant, mistake):
    old, new, wrong = MISTAKES[mistake]
    variant(old, new)
    report = crosscheck(JaxCandidate(ffi.attn_fused), at(Sizes(n=40, m=300, d=5, e=6)), checks=["forward", "vjp"])
    rows = {row.check: row.verdict for row in report.rows if row.candidate == "attn_fused"}
    assert rows == {"forward": "PASS", "vjp": "MISMATCH"}
    assert {result.label for result in report.failures[0].wrong} == wrong


@pytest.mark.slow
def test_a_wrong_coefficient_of_tanh_is_caught(variant):
    variant("TANH_P1 = 0.13382680", "TANH_P1 = 0.13382980")
    assert ulps(np.arange(0x3C000000, TEN, 79, dtype=np.uint32)) > ULPS
    report = crosscheck(JaxCandidate(ffi.attn_fused), SPEC_FLOAT32, checks=["forward"])
    assert {row.verdict for row in report.rows if row.candidate == "attn_fused"} == {"MISMATCH"}


# Building.


def test_without_a_compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler --fast")
    with pytest.raises(ffi.CompilerMissing, match=r"no-such-compiler is not on the PATH.*apt install g\+\+.*CXX"):
        _build._compile(_build.SOURCES, tmp_path / "x.so")
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_source(tmp_path):
    (tmp_path / "attn.cpp").write_text("int main() { return nothing; }\n")
    with pytest.raises(ffi.BuildError, match=r"attn\.cpp:1:\d+: error: .*nothing"):
        _build._compile(tmp_path, tmp_path / "cache" / "x.so")
    assert list((tmp_path / "cache").iterdir()) == []


def test_another_name_for_another_source(tmp_path, monkeypatch):
    path = _build.library_path(_build.SOURCES)
    folder = tmp_path / "csrc"
    shutil.copytree(_build.SOURCES, folder)
    assert _build.library_path(folder) == path
    (folder / "kernel.h").write_text((folder / "kernel.h").read_text() + "\n")
    assert _build.library_path(folder) != path
    monkeypatch.setenv("CXX", "another")
    assert _build.library_path(_build.SOURCES) != path


@pytest.mark.slow
def test_importing_compiles_nothing(tmp_path):
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(Path(jax_ref.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", "import jax_ref.ffi"], env=environment, check=True, timeout=120)
    assert list(tmp_path.iterdir()) == []
