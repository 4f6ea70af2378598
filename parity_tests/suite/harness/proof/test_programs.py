"""What a program is made of, besides its arithmetic: primitives of others, dead code, writes, symmetric matrices."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
import torch
from jax.extend import core
from jax.interpreters import ad, mlir
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from parity_tests import JaxCandidate, OpSpec
from parity_tests.harness.findings import Verdict
from parity_tests.suite.harness._ops import SQUARE, judged

LOG_DETERMINANT = OpSpec(
    "log_determinant", lambda a: jnp.linalg.slogdet(a)[1], "(n,n)->()", domains={"a": "definite"}, input_names=["a"]
)

theirs = core.Primitive("theirs")


def _of_theirs(x: jax.Array, *, power: int) -> jax.Array:
    return x**power


theirs.def_impl(_of_theirs)
theirs.def_abstract_eval(lambda x, power: x)
ad.defjvp(theirs, lambda x_dot, x, power: x_dot * power * theirs.bind(x, power=power - 1))
mlir.register_lowering(theirs, mlir.lower_fun(_of_theirs, multiple_results=False))


@pytest.mark.slow
@pytest.mark.parametrize("jit", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_a_primitive_of_another_package_is_its_function(jit) -> None:
    square = jit(lambda x: theirs.bind(x, power=2))
    row = judged(JaxCandidate(square, name="square"), SQUARE, "proof")
    assert row.verdict is Verdict.PROVED, row.reason


@pytest.mark.slow
def test_code_whose_results_nobody_reads_is_none() -> None:
    def square(x: jax.Array) -> jax.Array:
        jax.random.normal(jax.random.key(0), x.shape, jnp.float32)
        return x * x

    row = judged(JaxCandidate(square), SQUARE, "proof")
    assert row.verdict is Verdict.PROVED, row.reason


class _Shifting(torch.autograd.Function):
    """Writes to its input, as by `input -= input.max()`."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        kept = x.clone()
        ctx.save_for_backward(kept)
        x.sub_(x.max())
        return kept**2

    @staticmethod
    @once_differentiable
    def backward(ctx, y_bar: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * y_bar


def test_what_runs_under_backward_only_is_traced_by_it() -> None:
    row = judged(lambda x: checkpoint(lambda x: x * x, x, use_reentrant=True), SQUARE, "proof")
    assert row.verdict is Verdict.PROVED, row.reason
    assert row.proofs[0].startswith("forward, vjp proved")


def test_a_write_to_an_input_is_no_part_of_the_results() -> None:
    """Other checks say that it does so."""
    row = judged(lambda x: _Shifting.apply(x), SQUARE, "proof")
    assert row.verdict is Verdict.PROVED, row.reason


@pytest.mark.slow
def test_of_symmetric_matrices_the_formulas_need_to_agree_on_these_alone() -> None:
    def log_determinant(a: jax.Array) -> jax.Array:
        return 2 * jnp.log(jnp.diagonal(jnp.linalg.cholesky(a))).sum()

    row = judged(JaxCandidate(log_determinant), LOG_DETERMINANT, "proof")
    assert row.verdict is Verdict.PROVED, row.reason
