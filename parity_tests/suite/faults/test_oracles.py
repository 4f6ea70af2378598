"""Oracles and samplers that raise: one line with the line of the user's code and the remedy; none has a traceback."""

from __future__ import annotations

import pytest

from parity_tests.harness.report.lines_of_failures import failure_text
from parity_tests.harness.report.results import Failure, Smallest, WrongResult
from parity_tests.suite.faults._run import check


@pytest.mark.parametrize(("primal", "remedy"), [("np.sin", "write jnp.sin"), ("np.cumsum", "write jnp.cumsum")])
def test_a_function_of_numpys(tmp_path, primal, remedy):
    ran = check(tmp_path, f"spec = OpSpec('op', {primal}, '(n)->(n)')\ncandidate = torch.sin\n")
    assert ran.code == 2
    name = primal.removeprefix("np.")
    told = f"OpSpec op: primal is NumPy's {name}, which JAX cannot differentiate; {remedy}\n"
    assert ran.printed == f"gradparity: {tmp_path}/case.py: {told}"


def test_a_formula_in_numpy_is_told_once(tmp_path):
    text = "spec = OpSpec('op', jnp.sin, '(n)->(n)', vjp=lambda x, w: np.cos(x) * w)\ncandidate = torch.sin\n"
    ran = check(tmp_path, text)
    assert ran.code == 2
    assert ran.below.count("it gives an array of JAX's to NumPy (at case.py:8)") == 1
    assert "write jnp where it says np" in ran.printed
    assert "op, vjp" not in ran.printed
    assert "sin, vjp, f64: UNRESOLVED: the oracle's vjp has no certificate\n" in ran.printed


def test_a_sampler_of_constants_that_does_not_draw(tmp_path):
    text = (
        "spec = OpSpec('op', lambda x, k: x * k, '(n),(n)->(n)', constants=['k'], "
        "domains={'k': lambda rng, s: np.zeros(3)})\ncandidate = torch.mul\n"
    )
    ran = check(tmp_path, text)
    assert ran.code == 2
    assert "Could not judge: op: its inputs cannot be drawn: the domain 'constant <lambda>' drew" in ran.printed


def test_one_exception_is_told_in_one_line(tmp_path):
    """Where an axis is empty it is the same."""
    text = "spec = OpSpec('op', jnp.sin, '(n)->(n)')\ndef candidate(x):\n    raise RuntimeError('out of luck')\n"
    ran = check(tmp_path, text, only="forward")
    assert ran.code == 1
    assert ran.below.count("out of luck") == 1


@pytest.mark.slow
def test_what_xla_fails_to_compile_is_said_to_be_its_defect(tmp_path):
    """docs/found.md, 33: index vectors without a component, to an array without an axis."""
    primal = (
        "numbers = jax.lax.ScatterDimensionNumbers((), (), ())\n"
        "def total(x):\n"
        "    return jax.lax.scatter_add(jnp.zeros(()), jnp.zeros((x.shape[0], 0), int), x, numbers)\n"
    )
    ran = check(tmp_path, f"{primal}spec = OpSpec('op', total, '(n)->()')\ncandidate = torch.sum\n", only="forward")
    assert ran.code == 2
    assert "forward, f64: ERROR: JaxRuntimeError: INTERNAL: " in ran.printed
    assert "XLA fails to compile the oracle's program, which is a defect of XLA: write it in another way" in ran.printed
    assert "raceback" not in ran.printed


def test_what_refuses_an_empty_axis_only_is_told(tmp_path):
    candidate = "def candidate(x):\n    if not x.numel():\n        raise ValueError('empty')\n    return torch.cos(x)\n"
    ran = check(tmp_path, f"spec = OpSpec('op', jnp.sin, '(n)->(n)')\n{candidate}", only="forward")
    assert "skipped: op, sample zero_n: candidate refuses an empty axis: empty\n" in ran.printed


def test_at_the_smallest_input_the_same_exception_is_not_told_again():
    wrong = WrongResult("forward", "raises RuntimeError: out of luck (at case.py:9, in candidate)")
    failure = Failure(
        *("op", "mine", "forward", "float64", "cpu", "all_axes_differ", "why", {"n": 4}, 0),
        (wrong,),
        smallest=Smallest({"n": 1}, {}, wrong),
    )
    assert str(failure_text(failure)).count("out of luck") == 1
    assert "  smallest  n=1\n" in str(failure_text(failure))
