"""gradparity doctor: what this machine can judge, and with what."""

from __future__ import annotations

import os
import platform
import shutil

import jax
import numpy as np
import torch
from rich.table import Table

from parity_tests.harness.names import DEVICES
from parity_tests.harness.numbers import devices
from parity_tests.harness.numbers.numerics import jax_missing, settings
from torch_impl.native.build import library_path, toolchain_missing


def doctor() -> Table:
    """A table of devices, versions, compiler and precision defaults, and whether each is in order."""
    missing = devices.missing("cuda")
    without_jax = jax_missing("cuda")  # first, since it keeps JAX from reserving the GPU's memory
    grid = Table(title="gradparity doctor", title_justify="left")
    for column in ("what", "found", "meaning"):
        grid.add_column(column)
    grid.add_row("Python", platform.python_version(), "3.11 to 3.13; 3.14 and 3.15 are untried")
    grid.add_row("JAX", f"{jax.__version__}, {', '.join(map(str, jax.devices()))}", "the oracle; 0.10 or later")
    torch_devices = ["cpu", *(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))]
    grid.add_row("PyTorch", f"{torch.__version__}, {', '.join(torch_devices)}", "the candidates; 2.11 or later")
    grid.add_row("NumPy", np.__version__, "the bridge between them")
    grid.add_row("judge on cpu", "yes", f"{os.cpu_count()} cores, {torch.get_num_threads()} torch threads")
    candidates = "all candidates" if without_jax is None else f"all candidates but those in JAX: {without_jax}"
    grid.add_row("judge on cuda", "no" if missing else "yes", missing or candidates)
    for name in devices.available():
        if name not in DEVICES:
            grid.add_row(f"judge on {name}", "yes", f"with --device {name}; all candidates but those in JAX")
    missing, library = toolchain_missing(), library_path()
    grid.add_row("compiler, ninja", "no" if missing else "yes", missing or "the native operators can be compiled")
    built = f"{library}" if library.exists() else "compiled at first use, about 20 s, once"
    grid.add_row("native operators", "built" if library.exists() else "not built", built)
    grid.add_row("nvcc", shutil.which("nvcc") or "not found", "for CUDA kernels of your own; not by `gradparity run`")
    matmul = jax.config.jax_default_matmul_precision  # pyright: ignore[reportAttributeAccessIssue]
    now = f"x64 {jax.config.read('jax_enable_x64')}, matmul {matmul or 'default'}"
    grid.add_row("JAX precision", now, "held at x64 True, matmul highest while judging")
    cudnn = torch.backends.cudnn.conv.fp32_precision  # pyright: ignore[reportAttributeAccessIssue]
    now = f"cuda matmul {torch.backends.cuda.matmul.fp32_precision}, cudnn {cudnn}"
    held = sum(key.startswith("torch.") for key in settings())
    grid.add_row("PyTorch precision", now, f"no TF32, no 16-bit accumulation while judging ({held} switches)")
    return grid
