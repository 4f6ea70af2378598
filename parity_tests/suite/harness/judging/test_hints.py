"""What newcomers stumble over is told with its remedy, and nothing else is refused."""

from __future__ import annotations

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
import torch

from parity_tests import JaxCandidate, OpSpec, OracleError, crosscheck
from parity_tests.cli.case_file import CaseError, load_case
from parity_tests.harness.judging import hints
from parity_tests.suite.harness._ops import SQUARE, normal, pair_function, rows

FEW = {"checks": ["forward"], "dtypes": ["float64"]}


@jax.custom_vjp
def custom(x):
    """A function of JAX arrays with a rule."""
    return x * x


custom.defvjp(lambda x: (x * x, x), lambda x, g: (2 * x * g,))


def test_a_function_class_in_place_of_its_apply():
    with pytest.raises(TypeError, match=r"^candidate 'Pair' is the autograd.Function itself; give its apply: Pair.ap"):
        crosscheck(pair_function(), SQUARE)


def test_swapped_arguments():
    with pytest.raises(TypeError, match=r"the candidate comes first: crosscheck\(candidate, spec\)$"):
        crosscheck(SQUARE, lambda x: x * x)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "call",
    [
        jnp.square,
        jnp.add,
        jax.nn.softmax,
        jax.jit(lambda x: x * x),
        custom,
        functools.partial(jax.nn.softmax, axis=1),
    ],
    ids=["jnp", "ufunc", "jax.nn", "jit", "custom_vjp", "partial"],
)
def test_a_jax_function_without_jax_candidate(call):
    with pytest.raises(TypeError, match=r"is a function of JAX arrays; wrap it: JaxCandidate\("):
        crosscheck(call, SQUARE, name="mine")


@pytest.mark.parametrize(
    "call",
    [lambda x: jnp.square(x), jax.grad(lambda x: (x**3).sum() / 3), lambda x: jnp.multiply(x, x)],
    ids=["jnp", "grad", "ufunc"],
)
def test_a_jax_function_that_only_its_first_call_shows(call):
    """It is judged no further: all rows would say the same."""
    report = crosscheck(call, SQUARE, name="mine", dtypes=["float64"])
    assert report.error == "mine hands tensors to JAX; if it is a function of JAX arrays, give JaxCandidate(mine)"
    assert report.exit_code == 1  # it raises, whatever else could not be judged
    assert len(rows(report)) == 1


def test_only_the_first_row_shows_it():
    """A candidate that is right may still hand a tensor to JAX somewhere."""

    def forward_only(x):
        return x * x if x.dtype == torch.float64 else jnp.square(x)

    report = crosscheck(forward_only, SQUARE, checks=["forward"], dtypes=["float64", "float32"])
    assert report.error is None
    assert [row.verdict == "PASS" for row in rows(report)] == [True, False]


@pytest.mark.parametrize(
    "primal",
    [torch.square, torch.nn.functional.relu, torch.Tensor.tanh, torch.ops.aten.tanh, torch.nn.Tanh(), torch.linalg.inv],
    ids=["torch", "functional", "method", "operator", "module", "linalg"],
)
def test_a_torch_function_as_primal(primal):
    with pytest.raises(TypeError, match=r"OpSpec op: primal is a PyTorch callable; it must be written in JAX"):
        crosscheck(torch.square, OpSpec("op", primal=primal, signature="(n)->(n)"))


def test_a_primal_that_calls_torch():
    spec = OpSpec("op", primal=lambda x: torch.square(x), signature="(n)->(n)")
    with pytest.raises(OracleError, match=r"must be Tensor, not .*Tracer .*; the primal must be written in JAX"):
        crosscheck(torch.square, spec)


@pytest.mark.parametrize(
    "call",
    [torch.square, torch.Tensor.square, torch.ops.aten.square, lambda x: x * x, JaxCandidate(jnp.square)],
    ids=["torch", "method", "operator", "lambda", "JaxCandidate"],
)
def test_right_candidates_are_not_refused(call):
    assert crosscheck(call, SQUARE, **FEW).passed


@pytest.mark.parametrize("primal", [jnp.square, lambda x: x * x, functools.partial(jnp.multiply, 2.0)])
def test_right_primals_are_not_refused(primal):
    hints.check_primal(OpSpec("op", primal=primal, inputs=(normal(3),)))


def test_the_name_of_the_oracle_is_taken():
    """Its rows would be taken for certificates."""
    with pytest.raises(ValueError, match="candidate 'oracle': the rows of the oracle itself have this name"):
        crosscheck({"oracle": torch.sin}, SQUARE)


def test_hints_about_a_case_file(tmp_path: Path):
    path = tmp_path / "case.py"
    spec = "import jax.numpy as jnp, torch\nfrom parity_tests import OpSpec\nspec = OpSpec('op', {}, '(n)->(n)')\n"
    path.write_text(spec.format("torch.sin") + "candidate = torch.sin")
    with pytest.raises(CaseError, match=r"case.py: OpSpec op: primal is a PyTorch callable"):
        load_case(path)
    path.write_text(spec.format("jnp.sin") + "candidate = jnp.sin")
    with pytest.raises(CaseError, match=r"case.py: candidate 'sin' is a function of JAX arrays; wrap it: JaxCandidate"):
        load_case(path)
