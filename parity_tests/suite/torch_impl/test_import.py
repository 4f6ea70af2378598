"""What importing torch_impl gives, and that it changes nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import torch_impl

PUBLIC_NAMES = {
    "ATTN_FUNCTION_LIMITS",
    "attn_composite",
    "attn_function",
    "attn_native",
    "attn_native_implicit",
    "dot_product_attention",
}
FORBIDDEN = ("jax", "jaxlib", "jax_ref", "parity_tests", "derivation")

# In a process of its own: reports, for each statement, what it loaded and which of torch's global settings it changed.
PROBE = """
import json, sys, warnings
import torch

def settings():
    return {
        "default dtype": str(torch.get_default_dtype()),
        "default device": str(torch.get_default_device()),
        "threads": torch.get_num_threads(),
        "interop threads": torch.get_num_interop_threads(),
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "anomaly mode": torch.is_anomaly_enabled(),
        "matmul precision": torch.get_float32_matmul_precision(),
        "matmul fp32_precision": torch.backends.cuda.matmul.fp32_precision,
        "cudnn fp32_precision": torch.backends.cudnn.fp32_precision,
        "mkldnn matmul fp32_precision": torch.backends.mkldnn.matmul.fp32_precision,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "cudnn deterministic": torch.backends.cudnn.deterministic,
        "random state": bytes(torch.get_rng_state().untyped_storage()),
        "flush denormal": (torch.tensor(1e-310, dtype=torch.float64, device="cpu") * 1).item() == 0,
        "warning filters": len(warnings.filters),
    }

report = []
for statement in json.loads(sys.argv[1]):
    modules, before = set(sys.modules), settings()
    exec(statement)
    after = settings()
    loaded = {name.split(".")[0] for name in set(sys.modules) - modules}
    report.append([sorted(loaded), sorted(name for name in before if before[name] != after[name])])
print(json.dumps(report))
"""

# Statements that do what importing must not, each with the setting that must tell. A setter in torch._C where the
# public one takes seconds to import its part of torch.
CHANGES = {
    "torch.set_default_dtype(torch.float64)": "default dtype",
    "torch.set_default_device('meta')": "default device",
    "torch.set_num_threads(torch.get_num_threads() + 1)": "threads",
    "torch.set_num_interop_threads(torch.get_num_interop_threads() + 1)": "interop threads",
    "torch.set_grad_enabled(False)": "grad mode",
    "torch.autograd.set_detect_anomaly(True)": "anomaly mode",
    "torch.set_float32_matmul_precision('medium')": "matmul precision",
    "torch.backends.cuda.matmul.fp32_precision = 'ieee'": "matmul fp32_precision",
    "torch.backends.cudnn.fp32_precision = 'ieee'": "cudnn fp32_precision",
    "torch.backends.mkldnn.matmul.fp32_precision = 'ieee'": "mkldnn matmul fp32_precision",
    "torch._C._set_deterministic_algorithms(True)": "deterministic",
    "torch.backends.cudnn.deterministic = True": "cudnn deterministic",
    "torch.manual_seed(3)": "random state",
    "torch.set_flush_denormal(True)": "flush denormal",
    "warnings.simplefilter('ignore')": "warning filters",
}


@pytest.fixture(scope="module")
def report() -> dict[str, tuple[list[str], list[str]]]:
    """Per statement: the packages that it loaded, the settings that it changed."""
    statements = ["import torch_impl", "import jax, parity_tests", *CHANGES]
    ran = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps(statements)],
        cwd=Path(torch_impl.__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return dict(zip(statements, json.loads(ran.stdout), strict=True))


@pytest.mark.slow
def test_import_loads_nothing_forbidden(report):
    loaded, _ = report["import torch_impl"]
    assert "torch_impl" in loaded
    assert not set(loaded) & set(FORBIDDEN)


@pytest.mark.slow
def test_import_changes_no_setting(report):
    _, changed = report["import torch_impl"]
    assert changed == []


@pytest.mark.slow
def test_probe_would_notice_a_package(report):
    loaded, _ = report["import jax, parity_tests"]
    assert {"jax", "parity_tests"} <= set(loaded)


@pytest.mark.slow
@pytest.mark.parametrize("statement", CHANGES)
def test_probe_would_notice_a_setting(report, statement):
    _, changed = report[statement]
    assert CHANGES[statement] in changed


def test_public_names():
    modules = {name for name, value in vars(torch_impl).items() if isinstance(value, ModuleType)}
    assert {name for name in dir(torch_impl) if not name.startswith("_")} - modules - {"TYPE_CHECKING"} == PUBLIC_NAMES
