"""jax_ref.gpu as jax-triton compiles it for Hopper, which needs no GPU but JAX's part for CUDA.

Not collected: test_triton.py runs it in a process of its own, in which Triton does not interpret.
"""

# Triton is not a requirement
# pyright: reportMissingImports=false

from __future__ import annotations

import functools
import os
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import jax
import pytest
from triton.compiler.errors import CompilationError

from derivation import attn_kernels
from jax_ref.gpu import _attn as faces
from jax_ref.gpu import _launch
from parity_tests.suite.gpu_kernels import DTYPES
from parity_tests.suite.jax_ref.with_jax_triton import TAILS, arguments, values_and_gradients, with_output_only
from parity_tests.suite.sources import module_with

HOPPER = 90  # which jax-triton asks a GPU otherwise


@pytest.fixture(autouse=True)
def for_hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    triton_call = functools.partial(_launch.triton_call, compute_capability=HOPPER)
    monkeypatch.setattr(_launch, "triton_call", triton_call)


def lowered(f: Callable, *args: jax.Array) -> list[bytes]:
    """The calls of kernels in a program for CUDA, before jax-triton packs them: the assembly of all sizes of blocks."""
    with mock.patch.object(zlib, "compress", wraps=zlib.compress) as compress:
        text = jax.jit(lambda *args: f(*args)).trace(*args).lower(lowering_platforms=("cuda",)).as_text()
    calls = [call.args[0] for call in compress.call_args_list if b".target sm_" in call.args[0]]
    assert len(calls) == len(re.findall(r"custom_call @\w*triton\w*\(", text))
    return calls


# Below the faces, which refuse where there is no GPU.
FACES = {
    "attn": lambda *args: values_and_gradients(faces._with_attn)(*args),
    "attn_output": lambda *args: values_and_gradients(with_output_only(faces._output))(*args[:4]),
}


@pytest.mark.parametrize("x64", [pytest.param(False, id="32_bit"), pytest.param(True, id="64_bit")])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("face", FACES)
def test_every_kernel_is_compiled(face: str, dtype: str, x64: bool) -> None:
    """Sums are in float32 and no product in TF32; each kernel has all its sizes of blocks."""
    with jax.enable_x64(x64):
        calls = lowered(FACES[face], *arguments(TAILS, dtype))
    assert len(calls) == 3
    for name, call in zip(("forward", "backward_of_rows", "backward_of_columns"), calls, strict=True):
        assert f"attn_{name}".encode() in call
        assert call.count(b".target sm_90") == len(attn_kernels.configurations(name, dtype == "float32"))
        assert b"tf32" not in call


def test_a_batch_of_batches_is_one_launch() -> None:
    args = tuple(x[None, None, None] for x in arguments(TAILS, "bfloat16"))
    assert len(lowered(jax.vmap(jax.vmap(jax.vmap(FACES["attn"]))), *args)) == 3


def test_that_tf32_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = 'tl.dot(x, y, total, input_precision="ieee")', 'tl.dot(x, y, total, input_precision="tf32")'
    wrong = module_with(attn_kernels, old, new, tmp_path)
    monkeypatch.setattr(attn_kernels, "forward", wrong.forward)
    # Of a size that was not compiled before
    forward, *_ = lowered(FACES["attn_output"], *arguments(TAILS._replace(n=23), "float32"))
    assert b"tf32" in forward


def test_a_kernel_that_triton_does_not_have_is_not_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = module_with(attn_kernels, "x = tl.abs(s)", "x = tl.absolute(s)", tmp_path)
    monkeypatch.setattr(attn_kernels, "forward", wrong.forward)
    with pytest.raises(CompilationError):
        lowered(FACES["attn_output"], *arguments(TAILS._replace(n=24), "float32"))


def test_triton_finds_its_cache_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", "before")
    _launch._jax_triton.cache_clear()
    _launch._jax_triton()
    assert os.environ["TRITON_CACHE_DIR"] == "before"
