"""Candidates and limits: none is lost because it has another's name; what is none is refused with the remedy."""

from __future__ import annotations

import functools
import os
import warnings
from pathlib import Path

import jax.numpy as jnp
import pytest
import torch

from parity_tests import OpSpec, crosscheck
from parity_tests.harness.report.results import ORACLE
from parity_tests.suite.faults._run import SINE, check
from parity_tests.suite.harness._ops import SQUARE, unary_function
from parity_tests.suite.marks import fast

SPEC = OpSpec("sine", primal=jnp.sin, signature="(n)->(n)")


class Scaled(torch.nn.Module):
    """k sin(x)."""

    def __init__(self, k: float) -> None:
        super().__init__()
        self.k = k

    def forward(self, x):
        """The operator."""
        return self.k * torch.sin(x)


def scaled(x, k):
    """The same."""
    return k * torch.sin(x)


def _lambdas(k):
    return [lambda x: k * torch.sin(x), lambda x: torch.sin(x)]


OF_ONE_NAME = [
    pytest.param("lambda", _lambdas(2.0), id="lambdas"),
    pytest.param("Scaled", [Scaled(2.0), Scaled(1.0)], id="modules"),
    pytest.param("partial", [functools.partial(scaled, k=2.0), functools.partial(scaled, k=1.0)], id="partials"),
]
IN_A_FILE = [
    ("lambda", "candidates = [lambda x: torch.cos(x), lambda x: torch.sin(x)]"),
    (
        "Scaled",
        "class Scaled(torch.nn.Module):\n"
        "    def __init__(self, k):\n        super().__init__()\n        self.k = k\n"
        "    def forward(self, x):\n        return self.k * torch.sin(x)\n"
        "candidates = (Scaled(2.0), Scaled(1.0))",
    ),
    (
        "partial",
        "def scaled(x, k):\n    return k * torch.sin(x)\n"
        "candidates = [functools.partial(scaled, k=2.0), functools.partial(scaled, k=1.0)]",
    ),
]


@pytest.mark.parametrize(("name", "candidates"), OF_ONE_NAME)
@pytest.mark.parametrize("kind", [list, tuple])
def test_candidates_of_one_name_are_numbered(name, candidates, kind):
    report = crosscheck(kind(candidates), SPEC, checks=["forward"], dtypes=["float64"])
    found = {row.candidate: str(row.verdict) for row in report.rows if row.candidate != ORACLE}
    assert found == {name: "MISMATCH", f"{name}#2": "PASS"}
    assert report.exit_code == 1


@pytest.mark.parametrize(("name", "text"), IN_A_FILE, ids=[name for name, _ in IN_A_FILE])
def test_in_a_case_file_too(tmp_path, name, text):
    ran = check(tmp_path, SINE + text, only="forward")
    assert ran.code == 1
    assert ran.verdicts == {(name, "forward"): "MISMATCH", (f"{name}#2", "forward"): "PASS"}


@pytest.mark.parametrize(
    ("candidate", "limits", "message"),
    [
        ({1: torch.sin}, None, 'the keys of candidates must be their names, such as {"mine": f}, got 1'),
        (torch.sin, ["jvp"], 'limits must be a dictionary of checks with the reasons, {"jvp": "why"}, got ["jvp"]'),
        (torch.sin, {"jvp": None}, 'limits["jvp"] must be the reason, as text, got None'),
    ],
)
def test_crosscheck_refuses_it_too(candidate, limits, message):
    with pytest.raises(TypeError) as refusal:
        crosscheck(candidate, SPEC, limits=limits)
    assert str(refusal.value).replace("'", '"') == message


def test_no_limit_is_said_to_be_listed_where_none_is(tmp_path):
    """What the author of a Function has not written is declared by that."""
    text = (
        "class Sine(torch.autograd.Function):\n"
        "    @staticmethod\n    def forward(x):\n        return torch.sin(x)\n"
        "    @staticmethod\n    def setup_context(ctx, inputs, output):\n        ctx.save_for_backward(*inputs)\n"
        "    @staticmethod\n    def backward(ctx, w):\n        return w * torch.cos(*ctx.saved_tensors)\n"
        "candidate = Sine.apply"
    )
    ran = check(tmp_path, SINE + text, only="forward,vjp,jvp")
    assert ran.code == 0
    assert ran.printed.splitlines()[-1].endswith("comparisons, 1 known limit")


# What a candidate changes for the whole process; the next one is right, and depends on it.
CHANGES = [
    "torch.set_grad_enabled(False)",
    "torch.set_default_dtype(torch.float16)",
    "torch.set_default_device('meta')",
    "torch.use_deterministic_algorithms(True)",
    "torch.autograd.set_detect_anomaly(True)",
    "torch.autograd.forward_ad.enter_dual_level()",
    "torch.set_flush_denormal(True)",
    "torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: 2 * x).__enter__()",
    "torch.autograd.graph.disable_saved_tensors_hooks('no').__enter__()",
    "torch.set_num_threads(2)",
    "np.seterr(all='raise')",
    "jax.config.update('jax_enable_x64', False)",
    "__import__('os').environ.clear()",
    "__import__('os').chdir('/')",
    "__import__('sys').setrecursionlimit(120)",
    "__import__('warnings').simplefilter('error')",
]


@fast(
    "torch.set_grad_enabled(False)",
    "torch.set_default_dtype(torch.float16)",
    "np.seterr(all='raise')",
    "__import__('os').chdir('/')",
)
@pytest.mark.parametrize("change", CHANGES)
def test_the_next_candidate_is_not_blamed(tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.environ", dict(os.environ))
    text = f"def changes(x):\n    {change}\n    return torch.sin(x)\n"
    text += (
        "def depends(x):\n    assert torch.ones(1).dtype is torch.float32\n    return torch.sin(x) * torch.ones(())\n"
    )
    with warnings.catch_warnings():
        ran = check(tmp_path, f"{SINE}{text}candidates = [changes, depends]\n", only="forward,vjp,jvp,saved_tensors")
    # Under a recursion limit of 120 it depends on how much of JAX was traced before whether `changes` itself is judged.
    assert ran.code in (0, 1) or "setrecursionlimit" in change, ran.printed
    depends = [verdict for (name, _), verdict in ran.verdicts.items() if name == "depends"]
    assert depends == 4 * ["PASS"], ran.printed


@pytest.mark.filterwarnings("ignore")  # JAX, and Python from 3.12 on, warn of a fork beside threads
def test_a_child_that_a_backward_forks_judges_nothing() -> None:
    """Each child would go on with all that follows, and fork again: processes without end."""
    children: list[int] = []

    def gradient(x: torch.Tensor, cotangent: torch.Tensor) -> torch.Tensor:
        child = os.fork()
        children.extend([child] if child else [])
        return 2 * x * cotangent

    report = crosscheck(unary_function(torch.square, gradient), SQUARE, checks=["vjp"], dtypes=["float64"])
    assert report.passed
    assert children
    assert {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children} == {1}
