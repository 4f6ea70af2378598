"""Right entries of PyTorch's derivatives.yaml agree with their references, whatever kind of operator they are of."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from parity_tests.harness.crosscheck import crosscheck
from parity_tests.harness.findings import Verdict
from parity_tests.suite.rotation import rotating
from parity_tests.sweep.formula_cases import CALLED_BY, NoCase, cases, checks_of
from parity_tests.sweep.recorded_calls import recorded_calls
from torch_impl.derivatives import Entry, lookup

pytestmark = pytest.mark.slow

RIGHT = {
    "_linalg_eigh": "vectors up to their signs, of one triangle",
    "_linalg_svd": "vectors up to their signs",
    "_to_copy": "a dtype that is given",
    "cholesky_inverse": "a factor whose other entries are not read",
    "conv_tbc": "no forward mode",
    "index.Tensor": "masks, on which the shapes of results depend",
    "kthvalue": "an output of integers",
    "linalg_matrix_exp": "linear up to rounding: the cotangent's norm decides between formulas",
    "masked_select": "a mask",
    "native_batch_norm": "outputs without derivatives",
    "permute": "a view",
    "polar": "cotangents that are undefined",
    "renorm": "no vectors",
    "rrelu_with_noise_backward": "constants in float64",
    "silu": "complex numbers that PyTorch itself refuses",
    "split.Tensor": "a list of outputs",
}


def _verdicts(entry: Entry, real_only: bool = True) -> list[Verdict]:
    chosen = [case for case in cases(entry) if case.spec.formats[0] != "complex128" or not real_only]
    reports = [crosscheck({entry.name: c.call}, c.spec, checks=checks_of(entry), progress=False) for c in chosen]
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
    ],
)
def test_a_wrong_entry_is_convicted(name, right, wrong):
    entry = lookup(name)
    changed = tuple(_replaced(formula, right, wrong) for formula in entry.vjps)
    assert changed != entry.vjps, entry.vjps
    assert Verdict.MISMATCH in _verdicts(dataclasses.replace(entry, vjps=changed))


def _replaced(formula, right, wrong):
    return dataclasses.replace(formula, text=formula.text.replace(right, wrong))


@pytest.mark.parametrize("name", ["linear", "_conv_depthwise2d"])
def test_what_has_no_kernel_on_the_cpu_is_not_judged(name):
    with pytest.raises(NoCase, match="Could not run 'aten::"):
        cases(lookup(name))


def test_forward_mode_is_judged_where_there_is_a_formula():
    assert "jvp" in checks_of(lookup("sin"))
    assert "jvp" not in checks_of(lookup("conv_tbc"))


@pytest.mark.slow
@rotating(4)
@pytest.mark.parametrize("name", sorted(CALLED_BY))
def test_the_opinfo_of_another_name_calls_the_operator(name):
    calls = recorded_calls({f"aten::{name}"}, {CALLED_BY[name]}, [torch.float64], orders=2)
    assert next(calls, None) is not None
