"""`pinned` sets every switch and puts every one back; importing the harness sets none."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import pytest
import threadpoolctl
import torch

from parity_tests import JaxCandidate, OpSpec, Verdict, crosscheck
from parity_tests.harness.candidates import jax_candidate
from parity_tests.harness.numbers import numerics
from parity_tests.harness.numbers.numerics import jax_missing, pinned, settings

PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"

# Written out here, so that one that is lost from the harness is missed: (inside the block, another valid value).
TORCH_SWITCHES = {
    "cuda.matmul.fp32_precision": ("ieee", "tf32"),
    "cudnn.conv.fp32_precision": ("ieee", "tf32"),
    "cudnn.rnn.fp32_precision": ("ieee", "tf32"),
    "mkldnn.matmul.fp32_precision": ("ieee", "bf16"),
    "mkldnn.conv.fp32_precision": ("ieee", "bf16"),
    "mkldnn.rnn.fp32_precision": ("ieee", "bf16"),
    "cuda.matmul.allow_fp16_reduced_precision_reduction": (False, True),
    "cuda.matmul.allow_bf16_reduced_precision_reduction": (False, True),
    "cuda.matmul.allow_fp16_accumulation": (False, True),
}


def owner_of(path: str) -> tuple[object, str]:
    *parents, name = path.split(".")
    return functools.reduce(getattr, parents, torch.backends), name


def state() -> dict[str, object]:
    """Everything that `pinned` may change, and a little that it must not."""
    switches = {path: getattr(*owner_of(path)) for path in TORCH_SWITCHES}
    return switches | {
        "x64": jax.config.read("jax_enable_x64"),
        "jax matmul": jax.config.jax_default_matmul_precision,
        "jax device": jax.config.jax_default_device,
        "grad mode": torch.is_grad_enabled(),
        "torch dtype": torch.get_default_dtype(),
        "collector": gc.get_threshold(),
        PREALLOCATE: os.environ.get(PREALLOCATE),
    }


@contextlib.contextmanager
def torch_switches(values: dict[str, object]) -> Iterator[None]:
    before = {path: getattr(*owner_of(path)) for path in values}
    try:
        for path, value in values.items():
            setattr(*owner_of(path), value)
        yield
    finally:
        for path, value in before.items():
            setattr(*owner_of(path), value)


@pytest.fixture(params=["defaults", "other values"])
def before(request) -> Iterator[dict[str, object]]:
    """The state before the block: as PyTorch and JAX have it, or everything the other way."""
    with contextlib.ExitStack() as stack:
        if request.param == "other values":
            stack.enter_context(torch_switches({path: other for path, (_, other) in TORCH_SWITCHES.items()}))
            stack.enter_context(jax.enable_x64(True))
            stack.enter_context(jax.default_matmul_precision("bfloat16"))
            stack.enter_context(torch.no_grad())
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            patch.setenv(PREALLOCATE, "true")
        yield state()


def test_every_switch_is_set_and_put_back(before):
    with pinned():
        inside = state()
        array = jnp.ones(1)
    assert {path: inside[path] for path in TORCH_SWITCHES} == {path: v for path, (v, _) in TORCH_SWITCHES.items()}
    assert (inside["x64"], inside["jax matmul"], inside["grad mode"]) == (True, "highest", True)
    assert inside[PREALLOCATE] == before[PREALLOCATE] or before[PREALLOCATE] is None
    assert inside[PREALLOCATE] is not None
    assert array.dtype == jnp.float64
    assert array.device.platform == "cpu"
    assert state() == before
    assert inside != before


def test_every_switch_is_put_back_when_the_block_raises(before):
    with pytest.raises(ZeroDivisionError), pinned():
        raise ZeroDivisionError
    assert state() == before


def test_what_the_user_set_inside_the_environment_is_left_alone(monkeypatch):
    monkeypatch.setenv(PREALLOCATE, "true")
    with pinned():
        assert os.environ[PREALLOCATE] == "true"
    assert os.environ[PREALLOCATE] == "true"


@pytest.mark.parametrize("precision", ["high", "medium"])
def test_the_legacy_setting_of_matmul_precision(precision):
    torch.set_float32_matmul_precision(precision)
    try:
        before = state()
        assert before["cuda.matmul.fp32_precision"] == "tf32"
        with pinned():
            assert state()["cuda.matmul.fp32_precision"] == "ieee"
            assert state()["mkldnn.matmul.fp32_precision"] == "ieee"
        assert state() == before
        assert torch.get_float32_matmul_precision() == precision
    finally:
        torch.set_float32_matmul_precision("highest")


def test_the_second_half_of_a_16_bit_reduction_setting():
    """It is a pair: (reduced precision, split-K); the first alone is what is read back by its own name."""
    path = "cuda.matmul.allow_bf16_reduced_precision_reduction"
    owner, name = owner_of(path)
    try:
        setattr(owner, name, (False, False))
        with pinned():
            pass
        assert getattr(owner, f"{name}_split_k") is False
    finally:
        setattr(owner, name, (True, True))


@pytest.mark.parametrize("raises", [False, True])
def test_numpy_multiplies_in_one_thread(raises):
    """SciPy's library, which is another one than NumPy's, is there when the block is entered."""
    importlib.import_module("scipy.linalg")

    def threads() -> list[int]:
        return [library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"]

    with threadpoolctl.threadpool_limits(3, user_api="blas"):
        before = threads()
        with contextlib.suppress(ZeroDivisionError), pinned():
            assert set(threads()) == {1}
            if raises:
                raise ZeroDivisionError
        assert threads() == before
        assert 3 in before


def test_blocks_nest():
    before = state()
    with pinned():
        outer = state()
        with pinned():
            pass
        assert state() == outer
    assert state() == before


def test_hooks_of_saved_tensors_are_put_back_in_their_order():
    """Those of whoever calls stay entered, and what was entered inside, or forbidden, is no longer."""

    def saved() -> int:
        x = torch.ones(1, requires_grad=True)
        return int(x.sin().grad_fn._saved_self)

    hooks = torch.autograd.graph.saved_tensors_hooks
    with hooks(lambda x: x + 1, lambda x: x), hooks(lambda x: 10 * x, lambda x: x):
        with pinned():
            assert saved() == 10
            hooks(lambda x: x * 0, lambda x: x).__enter__()
            numerics._autograd._saved_tensors_hooks_disable("no", fail_if_non_empty=False)
        assert saved() == 10
        numerics._autograd._pop_saved_tensors_default_hooks()
        assert saved() == 2
        hooks(lambda x: x, lambda x: x).__enter__()
    assert saved() == 1


def test_the_record_names_every_switch_with_its_value():
    expected = {f"torch.backends.{path}": value for path, (value, _) in TORCH_SWITCHES.items()}
    others = {"jax_enable_x64": True, "jax_default_matmul_precision": "highest", "torch_num_threads": 1}
    assert settings() == others | expected


def test_one_torch_thread_inside_and_as_many_as_before_outside():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with pinned():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
        with pytest.raises(ZeroDivisionError), pinned():
            raise ZeroDivisionError
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_jax_is_missing_where_it_sees_no_gpu(monkeypatch):
    def devices(kind):
        assert os.environ[PREALLOCATE] == "false"
        raise RuntimeError("Unknown backend: 'gpu' requested\nand a second line")

    monkeypatch.setattr(numerics.jax, "devices", devices)
    monkeypatch.delenv(PREALLOCATE, raising=False)
    missing = jax_missing.__wrapped__  # without its cache
    assert missing("cuda") == f"JAX {jax.__version__} sees no GPU (Unknown backend: 'gpu' requested)"
    assert missing("mps") == f"JAX {jax.__version__} is not used on mps"
    assert PREALLOCATE not in os.environ
    monkeypatch.setattr(numerics.jax, "devices", lambda kind: ["a GPU"])
    assert missing("cuda") is None


def test_a_candidate_in_jax_is_refused_where_jax_does_not_run(monkeypatch):
    """The other candidates of a run on that device are judged."""
    monkeypatch.setattr(jax_candidate, "jax_missing", lambda kind: f"JAX sees no {kind}")
    spec = OpSpec("tanh", primal=jnp.tanh, signature="(n)->(n)")
    both = {"in_jax": JaxCandidate(jnp.tanh), "in_torch": torch.tanh}
    report = crosscheck(both, spec, checks=["forward", "vjp"], dtypes=["float64"])
    verdicts = {(row.candidate, row.check): (row.verdict, row.reason) for row in report.rows if row.candidate in both}
    for check in ("forward", "vjp"):
        assert verdicts["in_jax", check] == (Verdict.UNSUPPORTED, "JAX sees no cpu")
        assert verdicts["in_torch", check] == (Verdict.PASS, "")


# In a process of its own: which global settings does each statement change?
PROBE = """
import json, os, sys, warnings
import jax, torch

def settings():
    return {
        "x64": jax.config.read("jax_enable_x64"),
        "jax matmul": jax.config.jax_default_matmul_precision,
        "jax device": str(jax.config.jax_default_device),
        "dtype promotion": str(jax.config.jax_numpy_dtype_promotion),
        "debug nans": jax.config.jax_debug_nans,
        "default dtype": str(torch.get_default_dtype()),
        "grad mode": torch.is_grad_enabled(),
        "matmul precision": torch.get_float32_matmul_precision(),
        "cuda matmul": torch.backends.cuda.matmul.fp32_precision,
        "cudnn conv": torch.backends.cudnn.conv.fp32_precision,
        "16-bit sums": torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "threads": torch.get_num_threads(),
        "random state": bytes(torch.get_rng_state().untyped_storage()).hex(),
        "environment": dict(os.environ),
        "warning filters": len(warnings.filters),
    }

report = []
for statement in json.loads(sys.argv[1]):
    before = settings()
    exec(statement)
    after = settings()
    report.append(sorted(name for name in before if before[name] != after[name]))
print(json.dumps(report))
"""

# Statements that do what importing must not, each with the setting that must tell.
CHANGES = {
    "jax.config.update('jax_enable_x64', True)": "x64",
    "jax.config.update('jax_default_matmul_precision', 'highest')": "jax matmul",
    "jax.config.update('jax_default_device', jax.devices('cpu')[0])": "jax device",
    "jax.config.update('jax_numpy_dtype_promotion', 'strict')": "dtype promotion",
    "jax.config.update('jax_debug_nans', True)": "debug nans",
    "torch.set_default_dtype(torch.float64)": "default dtype",
    "torch.set_grad_enabled(False)": "grad mode",
    "torch.set_float32_matmul_precision('high')": "matmul precision",
    "torch.backends.cuda.matmul.fp32_precision = 'ieee'": "cuda matmul",
    "torch.backends.cudnn.conv.fp32_precision = 'ieee'": "cudnn conv",
    "torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False": "16-bit sums",
    "torch.use_deterministic_algorithms(True)": "deterministic",
    "torch.set_num_threads(torch.get_num_threads() + 1)": "threads",
    "torch.manual_seed(3)": "random state",
    "os.environ['XLA_PYTHON_CLIENT_PREALLOCATE'] = 'false'": "environment",
    "warnings.simplefilter('ignore')": "warning filters",
}
IMPORTS = ("import gradparity", "import parity_tests.cli.app")


@pytest.mark.slow
def test_importing_changes_nothing_and_the_probe_would_notice():
    statements = [*IMPORTS, *CHANGES]
    result = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps(statements)], capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == 0, result.stderr
    changed = dict(zip(statements, json.loads(result.stdout), strict=True))
    assert [changed[statement] for statement in IMPORTS] == [[], []]
    unnoticed = [statement for statement, setting in CHANGES.items() if setting not in changed[statement]]
    assert unnoticed == []
    fields = set(re.findall(r'^        "([^"]+)":', PROBE, re.MULTILINE))
    assert fields == set(CHANGES.values()), "a setting that no statement shows to be watched"
