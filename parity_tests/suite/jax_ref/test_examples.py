"""The examples of derivation/choosing.md on JAX's side: each agrees with the plain one in what it offers."""

from __future__ import annotations

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import ndtr

from jax_ref.examples import callback
from parity_tests import JaxCandidate, OpSpec, Verdict, crosscheck

X = np.random.default_rng(0).standard_normal(5)
SPEC = OpSpec("gelu", lambda x: x * ndtr(x), inputs=(X,))  # by another function of JAX
CHECKS = ["forward", "vjp", "jvp", "vjp_of_vjp", "vmap"]
NO_FORWARD_MODE = {"jvp"}

EXAMPLES = {
    "plain": set(),
    "custom_jvp": set(),
    "callback": NO_FORWARD_MODE,
    "pallas_kernel": NO_FORWARD_MODE,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_agrees(name):
    gelu = importlib.import_module(f"jax_ref.examples.{name}").gelu
    report = crosscheck(JaxCandidate(jax.jit(gelu)), SPEC, checks=CHECKS, dtypes=["float64", "float32"])
    assert report.passed, str(report)
    assert {row.check for row in report.rows if row.verdict is Verdict.UNSUPPORTED} == EXAMPLES[name], str(report)


def test_no_entries():
    gelu = importlib.import_module("jax_ref.examples.pallas_kernel").gelu
    assert gelu(jnp.zeros((0, 3))).shape == (0, 3)


@pytest.mark.slow
def test_a_wrong_formula_is_noticed(monkeypatch):
    monkeypatch.setattr(callback.math, "sqrt", lambda x: x)
    report = crosscheck(JaxCandidate(callback.gelu), SPEC, checks=["forward", "vjp"], dtypes=["float64"])
    verdicts = {row.check: row.verdict for row in report.rows if row.candidate != "oracle"}
    assert verdicts == {"forward": Verdict.PASS, "vjp": Verdict.MISMATCH}
