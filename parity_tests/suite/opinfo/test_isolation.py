"""Neither collecting these tests nor running them changes the process that they share with the rest of the suite."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# What PyTorch's test machinery would change, and what is like it.
SETTINGS = """
import faulthandler, gc, logging, os, random, signal, sys, warnings

def settings():
    import hypothesis, jax, numpy, torch

    return {
        "argv": list(sys.argv),
        "environment": dict(os.environ),
        "recursion limit": sys.getrecursionlimit(),
        "hooks": (sys.excepthook, sys.displayhook),
        "warning filters": list(warnings.filters),
        "signal handlers": [signal.getsignal(x) for x in signal.valid_signals()],
        "fault handler": faulthandler.is_enabled(),
        "garbage collection": (gc.isenabled(), gc.get_threshold()),
        "logging": (logging.root.level, list(logging.root.handlers)),
        "Hypothesis": (hypothesis.settings.default, hypothesis.settings.get_profile("default")),
        "Python's generator": random.getstate(),
        "NumPy's generator": repr(numpy.random.get_state()),
        "torch's generator": torch.get_rng_state().tolist(),
        "torch.backends frozen": torch.backends.flags_frozen(),
        "scripted functions": (torch._C.ScriptFunction.__call__, torch._C.ScriptMethod.__call__),
        "default dtype": torch.get_default_dtype(),
        "threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "matmul precision": torch.get_float32_matmul_precision(),
        "deterministic": (torch.are_deterministic_algorithms_enabled(), torch.is_warn_always_enabled()),
        "gradients": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "anomaly mode": torch.is_anomaly_enabled(),
        "sparse invariants": torch.sparse.check_sparse_tensor_invariants.is_enabled(),
        "torch function modes": torch._C._len_torch_function_stack(),
        "vmap fallback": torch._C._functorch._is_vmap_fallback_enabled(),
        "jax": (jax.config.jax_enable_x64, jax.config.jax_default_matmul_precision),
    }
"""

RUN = """
import pytest

class Plugin:
    def pytest_sessionstart(self):
        self.before = settings()

    def pytest_sessionfinish(self):
        self.after = settings()

plugin = Plugin()
code = pytest.main(sys.argv[1:], plugins=[plugin])
assert [name for name, value in plugin.after.items() if value != plugin.before[name]] == []

import torch
torch.backends.cuda.matmul.allow_fp16_accumulation = torch.backends.cuda.matmul.allow_fp16_accumulation
assert code in (0, 1), code  # that a test fails is not what is tested here
"""

PLAIN_IMPORT = """
before = settings()
import torch.testing._internal.common_utils
print([name for name, value in settings().items() if value != before[name]])
"""


def run(script: str, *args: str) -> subprocess.CompletedProcess[str]:
    # Options and workers of the outer pytest are not for the inner one.
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "COV_"))}
    return subprocess.run(
        [sys.executable, "-c", script, *args], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.usefixtures("native")
def test_settings_are_as_before():
    """All of the folder is collected, and of every kind of test some run."""
    folder = Path(__file__).parent
    some = "(is_refused or derivatives_nesting_vjp or mode_sees or on_write or test_reverse) and attn_cpu_float64"
    options = ["-q", "-p", "no:cacheprovider", "-k", some]
    result = run(SETTINGS + RUN, *options, *(str(path) for path in folder.glob("test_*.py") if path != Path(__file__)))
    assert result.returncode == 0, result.stdout + result.stderr
    assert " passed" in result.stdout


@pytest.mark.slow
def test_plain_import_is_seen():
    """The negative control: the same settings after PyTorch's own import."""
    result = run(SETTINGS + PLAIN_IMPORT)
    assert result.returncode == 0, result.stderr
    for name in ("Hypothesis", "scripted functions", "torch.backends frozen"):
        assert repr(name) in result.stdout
