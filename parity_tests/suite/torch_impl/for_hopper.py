"""derivation.attn_kernels, compiled for Hopper, which needs no GPU.

Not collected: test_triton.py runs it in a process of its own, in which Triton does not interpret.
"""

# Triton is not a requirement
# pyright: reportMissingImports=false

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, CompiledKernel

from derivation import attn_kernels
from parity_tests.suite.torch_impl.with_triton_mistakes import kernels_with

SHARED = 227 * 1024  # bytes, of an sm_90
FLAGS = {
    "forward": ["WITH_ATTN"],
    "backward_of_rows": ["HAS_OUTPUT_BAR", "HAS_ATTN_BAR"],
    "backward_of_columns": ["HAS_OUTPUT_BAR", "HAS_ATTN_BAR", "WANTS_K", "WANTS_V"],
}
CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"


def compiled(
    name: str, dtype: str, features: int, config: triton.Config, kernels: ModuleType = attn_kernels, index=tl.int32
) -> CompiledKernel:
    """For contiguous tensors at multiples of 16 bytes and entries, with every flag set."""
    kernel = getattr(kernels, name)
    constants = {flag: True for flag in FLAGS[name]} | {"INDEX": index, "INTERPRETED": False} | config.kwargs
    constants |= {"BLOCK_D": features, "BLOCK_E": features}
    constants |= {x: 1 for x in kernel.arg_names if re.fullmatch(r"(q|k|q_bar|k_bar)_d|\w+_e|attn(_bar)?_m", x)}
    types = {
        x: "constexpr" if x in constants else "i32" if re.search(r"_[BnmdeM]$|^[nmde]$|^work$", x) else f"*{dtype}"
        for x in kernel.arg_names
    }
    divisible = {
        (i,): [["tt.divisibility", 16]]
        for i, x in enumerate(kernel.arg_names)
        if types[x] != "constexpr" and x != "work"
    }
    return triton.compile(
        ASTSource(kernel, types, constants, divisible),
        target=GPUTarget("cuda", 90, 32),
        options={"num_warps": config.num_warps, "num_stages": config.num_stages, "enable_fp_fusion": True},
    )


def stack(kernel: CompiledKernel, folder: Path) -> int:
    """Bytes of a thread's memory, which is where registers are spilled to."""
    file = folder / "kernel.cubin"
    file.write_bytes(kernel.asm["cubin"])
    said = subprocess.run([CUOBJDUMP, "-res-usage", file], capture_output=True, text=True, check=True).stdout
    (found,) = re.findall(r"STACK:(\d+)", said)
    return int(found)


def test_it_is_not_interpreted() -> None:
    assert not attn_kernels.INTERPRETED


SOME = {("bf16", 128), ("fp32", 64)}  # fp16 is compiled as bf16 is


@pytest.mark.parametrize(
    ("dtype", "features"),
    [
        pytest.param(dtype, features, marks=() if (dtype, features) in SOME else pytest.mark.soak)
        for dtype in ("bf16", "fp16", "fp32")
        for features in (64, 128)
    ],
)
@pytest.mark.parametrize("name", FLAGS)
def test_every_configuration(name: str, dtype: str, features: int, tmp_path: Path) -> None:
    """It fits, sums are in float32 and no product in TF32, nothing is added up across programs."""
    stacks = []
    for config in attn_kernels.configurations(name, dtype == "fp32"):
        kernel = compiled(name, dtype, features, config)
        assert kernel.metadata.shared <= SHARED
        ptx = kernel.asm["ptx"]
        assert not re.search(r"\b(atom|red)\.", ptx)
        assert "tf32" not in ptx
        products = set(re.findall(r"wgmma\.mma_async\.sync\.aligned\.m64n\d+k16\.(\S+)", ptx))
        assert products == (
            set() if dtype == "fp32" else {f"f32.{dtype.replace('fp', 'f')}.{dtype.replace('fp', 'f')}"}
        )
        stacks.append(stack(kernel, tmp_path))
    assert min(stacks) == 0, stacks


@pytest.mark.parametrize("name", FLAGS)
def test_wide_indices(name: str) -> None:
    compiled(name, "bf16", 64, attn_kernels.configurations(name, False)[0], index=tl.int64)


def test_that_tf32_is_seen(tmp_path: Path) -> None:
    wrong = kernels_with(
        'return tl.dot(x, y, total, input_precision="ieee")',
        'return tl.dot(x, y, total, input_precision="tf32")',
        tmp_path,
    )
    config = attn_kernels.configurations("forward", False)[0]
    assert "tf32" in compiled("forward", "fp32", 64, config, wrong).asm["ptx"]


def test_that_atomics_are_seen(tmp_path: Path) -> None:
    wrong = kernels_with(
        "    tl.store(base + rows[:, None] * row_stride + columns[None, :] * column_stride, x, mask=inside)",
        "    x = x.to(tl.float32)\n"
        "    tl.atomic_add(base + rows[:, None] * row_stride + columns[None, :] * column_stride, x, mask=inside)",
        tmp_path,
    )
    config = attn_kernels.configurations("forward", True)[0]
    assert re.search(r"\b(atom|red)\.", compiled("forward", "fp32", 64, config, wrong).asm["ptx"])
