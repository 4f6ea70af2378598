"""Right entries of PyTorch's derivatives.yaml agree with their references, whatever kind of operator they are of."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from parity_tests.harness.crosscheck import crosscheck
from parity_tests.harness.findings import Verdict
from parity_tests.suite.rotation import rotating
from parity_tests.sweep.formula_cases import NoCase, cases, checks_of
from parity_tests.sweep.formula_samples import CALLED_BY, _is_of_numbers
from parity_tests.sweep.invariants import OF_SAVED_STATISTICS
from parity_tests.sweep.recorded_calls import RecordedCall, recorded_calls
from parity_tests.sweep.saved_statistics import recomputed
from torch_impl.derivatives import Entry, lookup

pytestmark = pytest.mark.slow

RIGHT = {
    "_cdist_forward": "samples at which nothing moves",
    "_linalg_eigh": "vectors up to their signs, of one triangle",
    "_linalg_svd": "vectors up to their signs",
    "_to_copy": "a dtype that is given",
    "cholesky_inverse": "a factor whose other entries are not read",
    "conv_tbc": "no forward mode",
    "index.Tensor": "masks, on which the shapes of results depend",
    "kthvalue": "an output of integers",
    "linalg_cholesky_ex": "a matrix of which one triangle is read",
    "linalg_matrix_exp": "linear up to rounding: the cotangent's norm decides between formulas",
    "masked_select": "a mask",
    "max_unpool2d": "places that may be taken twice",
    "mse_loss_backward": "a cotangent that broadcasts",
    "native_batch_norm": "outputs without derivatives",
    "permute": "a view",
    "polar": "cotangents that are undefined",
    "renorm": "no vectors",
    "rrelu_with_noise_backward": "constants in float64",
    "silu": "complex numbers that PyTorch itself refuses",
    "slice_inverse": "an argument that is not used",
    "split.Tensor": "a list of outputs",
}


# Of polar the second derivative by the radius is rounding where it is 0, on some processors: docs/found.md, 28.
INEXACT = {"polar": "vjp_of_vjp"}


def _verdicts(entry: Entry, real_only: bool = True) -> list[Verdict]:
    chosen = [case for case in cases(entry) if case.spec.formats[0] != "complex128" or not real_only]
    checks = [check for check in checks_of(entry) if check != INEXACT.get(entry.name)]
    reports = [crosscheck({entry.name: c.call}, c.spec, checks=checks, progress=False) for c in chosen]
    return [row.verdict for report in reports for row in report.rows]


@rotating(4)
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_entry_is_not_accused(name):
    found = _verdicts(lookup(name), real_only=name != "silu")
    assert Verdict.PASS in found
    assert set(found) <= {Verdict.PASS, Verdict.SKIPPED, Verdict.UNSUPPORTED}


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("_linalg_svd", "grad_S,", "-grad_S,"),
        ("_linalg_eigh", "linalg_eig_backward(grads[0],", "linalg_eig_backward(-grads[0],"),
        ("cholesky_inverse", "cholesky_inverse_backward(grad,", "cholesky_inverse_backward(2 * grad,"),
        ("kthvalue", "reduction_backward_symint(grad,", "reduction_backward_symint(-grad,"),
        ("split.Tensor", "split_backward(grads,", "2 * split_backward(grads,"),
        ("linalg_cholesky_ex", "cholesky_backward(grad,", "cholesky_backward(2 * grad,"),
        ("max_unpool2d", "max_pool_double_backward(grad,", "max_pool_double_backward(-grad,"),
        ("mse_loss_backward", "mse_loss_backward(grad,", "mse_loss_backward(-grad,"),
        ("tanh", "tanh_backward(grad, result)", "self.dim() == 0 ? grad : tanh_backward(grad, result)"),
        ("tanh", "tanh_backward(grad, result)", "self.dim() == 4 ? grad : tanh_backward(grad, result)"),
        ("sub.Tensor", "maybe_multiply(-grad, alpha.conj())", "-grad"),
    ],
)
def test_a_wrong_entry_is_convicted(name, right, wrong):
    entry = lookup(name)
    changed = tuple(_replaced(formula, right, wrong) for formula in entry.vjps)
    assert changed != entry.vjps, entry.vjps
    assert Verdict.MISMATCH in _verdicts(dataclasses.replace(entry, vjps=changed))


def _replaced(formula, right, wrong):
    return dataclasses.replace(formula, text=formula.text.replace(right, wrong))


@pytest.mark.parametrize("name", ["linear", "_conv_depthwise2d", "_fused_rms_norm"])
def test_what_has_no_kernel_on_the_cpu_is_not_judged(name):
    with pytest.raises(NoCase, match="Could not run 'aten::"):
        cases(lookup(name))


@rotating(3)
@pytest.mark.parametrize("name", sorted(OF_SAVED_STATISTICS))
def test_saved_statistics_are_those_of_the_input(name):
    """The second derivative of a norm is right, the third one is not: docs/found.md, 121."""
    entry = lookup(name.removeprefix("aten::"))
    wrong = [dataclasses.replace(f, text=f.text.replace("grads[0]", "-grads[0]", 1)) for f in entry.vjps]
    verdicts = {}
    for each in (entry, dataclasses.replace(entry, vjps=tuple(wrong))):
        case = cases(each)[0]
        report = crosscheck({"formulas": case.call}, case.spec, checks=["forward", "vjp", "vjp_of_vjp"], progress=False)
        verdicts[each is entry] = [row.verdict for row in report.rows if row.candidate == "formulas"]
        if each is entry:
            assert "candidate 1.00 -> the oracle is right" in str(report)
    assert verdicts[True] == [Verdict.PASS, Verdict.PASS, Verdict.MISMATCH]
    assert verdicts[False] == [Verdict.PASS, Verdict.MISMATCH, Verdict.MISMATCH]


@pytest.mark.parametrize(("name", "flag"), [("native_batch_norm_backward", "train"), ("batch_norm_backward", "update")])
def test_saved_statistics_are_constants_in_evaluation(name, flag):
    given = {"input": np.ones((2, 3)), "save_mean": np.ones(3), "save_invstd": np.ones(3), "save_var": np.ones(3)}
    in_training = RecordedCall(f"aten::{name}", given | {flag: True}, (), "by hand")
    in_evaluation = RecordedCall(f"aten::{name}", given | {flag: False}, (), "by hand")
    assert recomputed(in_training) is not None
    assert recomputed(in_evaluation) is None


def test_what_has_no_derivative_is_not_judged():
    with pytest.raises(NoCase, match="it has no derivative by definition"):
        cases(lookup("nextafter"))


def test_forward_mode_is_judged_where_there_is_a_formula():
    assert "jvp" in checks_of(lookup("sin"))
    assert "jvp" not in checks_of(lookup("conv_tbc"))


@pytest.mark.slow
@rotating(4)
@pytest.mark.parametrize("name", sorted(CALLED_BY))
def test_the_opinfo_of_another_name_calls_the_operator(name):
    calls = recorded_calls({f"aten::{name}"}, {CALLED_BY[name]}, [torch.float64], orders=2)
    assert any(map(_is_of_numbers, calls))
