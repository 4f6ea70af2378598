"""The examples of derivation/choosing.md on PyTorch's side: each agrees with JAX, and can what the page says it can."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import torch
from jax.scipy.special import erfc

from parity_tests import OpSpec, Verdict, crosscheck
from parity_tests.harness.captures.captures import captures
from parity_tests.harness.checks import CHECKS
from parity_tests.suite.rotation import rotating
from torch_impl.examples import scipy_function
from torch_impl.native.build import ToolchainMissing

X = np.random.default_rng(0).standard_normal((4, 3))
SPEC = OpSpec("gelu", lambda x: x * erfc(-x / 2**0.5) / 2, inputs=(X,))
DTYPES = ["float64", "float32"]
FORWARD_MODE = {"jvp", "adjoint", "jvp_of_vjp", "vjp_of_jvp", "jvp_of_jvp"}
WITH_IT_SAMPLES = {"points", "layouts", "vmap", "functorch"}  # they look at tangents, too

# What it cannot do, and PyTorch says so.
EXAMPLES = {
    "composite": set(),
    "scipy_function": {"jvp_of_jvp", "fake", "make_fx"},
    "raw_pointers": set(),
}


def example(name: str):
    return importlib.import_module(f"torch_impl.examples.{name}").gelu


@pytest.mark.slow
@rotating(4, turn=1)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name == "raw_pointers" else ()) for name in EXAMPLES]
)
def test_agrees(name):
    gelu = example(name)
    try:
        gelu(torch.zeros(1))
    except ToolchainMissing as reason:
        pytest.skip(str(reason))
    report = crosscheck(gelu, SPEC, dtypes=DTYPES)
    assert report.passed, str(report)
    assert {row.check for row in report.rows if row.verdict is Verdict.UNSUPPORTED} == EXAMPLES[name], str(report)


@pytest.mark.slow
def test_an_operator_of_a_library():
    checks = {name for name, check in CHECKS.items() if not check.on_request} - FORWARD_MODE - WITH_IT_SAMPLES
    report = crosscheck(example("custom_op"), SPEC, checks=sorted(checks), dtypes=DTYPES)
    assert report.passed, str(report)
    passed = {row.check for row in report.rows if row.verdict is Verdict.PASS}
    assert passed >= {"forward", "vjp", "vjp_of_vjp", "fake", "make_fx", "compile"}, str(report)


def test_forward_mode_through_an_operator_of_a_library_is_silently_wrong():
    """As the page warns; if PyTorch comes to refuse it, the page has to be changed."""
    report = crosscheck(example("custom_op"), SPEC, checks=["jvp"], dtypes=["float64"])
    assert [row.verdict for row in report.rows if row.candidate != "oracle"] == [Verdict.MISMATCH], str(report)


def test_a_wrong_formula_is_noticed(monkeypatch):
    monkeypatch.setattr(scipy_function, "_phi", lambda x: torch.exp(-x * x))
    report = crosscheck(scipy_function.gelu, SPEC, checks=["forward", "vjp"], dtypes=["float64"])
    verdicts = {row.check: row.verdict for row in report.rows if row.candidate != "oracle"}
    assert verdicts == {"forward": Verdict.PASS, "vjp": Verdict.MISMATCH}


def test_it_captures_an_input_only():
    assert {(c.name, c.reason) for c in captures(scipy_function.Phi)} == {("x", "an input")}
