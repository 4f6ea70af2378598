"""torch_impl.gpu and jax_ref.gpu, and that torch_impl does without. Triton chooses its interpreter when the kernels are
imported, so that the files with their tests are run in processes of their own."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import torch

import torch_impl
from parity_tests.suite.rotation import rotating

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed: pip install triton"
)
SUITE = Path(__file__).parents[1]
WITH_TRITON = ("torch_impl/with_triton.py", "torch_impl/with_triton_mistakes.py", "jax_ref/with_jax_triton.py")
# Where there is a GPU, the kernels run there.
INTERPRET = {"TRITON_INTERPRET": "0" if torch.cuda.is_available() else "1"}


def run_pytest(files: Sequence[str], marks: str, environment: Mapping[str, str], seconds: float) -> None:
    """The tests of files that are not collected; none may fail, none may be skipped."""
    paths = [str(SUITE / file) for file in files]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", marks, *paths],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert re.search(r"[1-9]\d* passed", done.stdout)
    assert "skipped" not in done.stdout


@needs_triton
def test_with_triton() -> None:
    run_pytest(WITH_TRITON, "not slow and not soak", INTERPRET, 300)


@needs_triton
@pytest.mark.slow
@rotating(2)
@pytest.mark.parametrize("file", WITH_TRITON)  # so that several workers share them out
def test_with_triton_at_length(file: str) -> None:
    run_pytest([file], "slow and not soak", INTERPRET, 1800)


@needs_triton
@pytest.mark.soak
def test_with_triton_for_hours() -> None:
    run_pytest(WITH_TRITON, "soak", INTERPRET, 7200)


@needs_triton
@rotating(2, turn=1)  # with the shorter one of the two files above
@pytest.mark.skipif(sys.platform != "linux", reason="only Triton for Linux has NVIDIA's assembler")
@pytest.mark.parametrize(
    "marks", [pytest.param("not soak", marks=pytest.mark.slow), pytest.param("soak", marks=pytest.mark.soak)]
)
def test_for_hopper(marks: str, tmp_path: Path) -> None:
    run_pytest(["torch_impl/for_hopper.py"], marks, {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}, 1200)


@needs_triton
@rotating(2, turn=0)
@pytest.mark.slow
@pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("jax_triton", "jax_cuda13_plugin")),
    reason="jax-triton, or JAX's part for CUDA, is not installed: pip install jax-triton jax-cuda13-plugin",
)
def test_for_hopper_in_jax() -> None:
    run_pytest(["jax_ref/for_hopper_in_jax.py"], "not soak", {"TRITON_INTERPRET": "0"}, 1200)


def run_python(source: str) -> subprocess.CompletedProcess[str]:
    root = Path(torch_impl.__file__).parents[1]
    return subprocess.run([sys.executable, "-c", source], cwd=root, capture_output=True, text=True, check=False)


LOADED = "import sys, torch; before = set(sys.modules); import {}; print('triton' in set(sys.modules) - before)"


@pytest.mark.slow
def test_importing_torch_impl_does_not_import_triton() -> None:
    done = run_python(LOADED.format("torch_impl"))
    assert done.stdout == "False\n", done.stderr


@needs_triton
def test_the_probe_would_notice_triton() -> None:
    done = run_python(LOADED.format("torch_impl.gpu"))
    assert done.stdout == "True\n", done.stderr


@pytest.mark.slow
def test_without_triton_an_error_says_what_to_install() -> None:
    done = run_python("import sys; sys.modules['triton'] = None; import torch_impl.gpu")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: torch_impl.gpu needs Triton: pip install triton, or pip install 'grad")
    assert last.endswith("torch_impl.attn_composite and torch_impl.attn_function do without")
