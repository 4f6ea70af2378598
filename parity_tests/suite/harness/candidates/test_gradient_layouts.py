"""A gradient of another layout than its input has: wrong by name in each check, and nobody else is blamed."""

from __future__ import annotations

import pytest
import torch

from parity_tests import OpSpec, Verdict
from parity_tests.harness.candidates.torch_leaves import laid_out
from parity_tests.harness.candidates.torch_refusals import BadOutput
from parity_tests.suite.harness._ops import SQUARE, judged, normal, unary_function

SPARSE = unary_function(lambda x: x * x, lambda x, g: (2 * x * g).to_sparse())
DENSE = unary_function(lambda x: x * x, lambda x, g: (2 * x * g).to_sparse().to_dense())
WEIGHT = torch.ones(3, 2, dtype=torch.float64, requires_grad=True)
TABLE = OpSpec("table", primal=lambda x: x * x, inputs=(normal(2, 2),))


def looked_up(x):
    return x * x * torch.nn.functional.embedding(torch.tensor([0, 2]), WEIGHT, sparse=True)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
@pytest.mark.parametrize("check", ["vjp", "accumulation", "purity", "retain_graph"])
def test_a_sparse_gradient_is_a_mismatch_by_name(check: str, dtype: str):
    row = judged(SPARSE, SQUARE, check, dtype)
    assert row.verdict is Verdict.MISMATCH, row
    assert row.failure is not None
    text = " ".join(wrong.pattern for wrong in row.failure.wrong)
    assert "returned a gradient for input 1 that is torch.sparse_coo, where the input is torch.strided" in text
    assert judged(DENSE, SQUARE, check, dtype).verdict is Verdict.PASS


def test_a_sparse_gradient_of_a_captured_tensor():
    row = judged(looked_up, TABLE, "captured")
    assert row.verdict is Verdict.MISMATCH, row
    assert row.failure is not None
    assert "torch.sparse_coo" in row.failure.wrong[0].pattern


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_layouts_are_compared_with_those_of_the_inputs():
    dense = torch.eye(2)
    assert laid_out((dense, None), (dense, dense)) == (dense, None)
    (same,) = laid_out((dense.to_sparse(),), (dense.to_sparse(),))
    assert same is not None
    assert same.layout is torch.sparse_coo
    with pytest.raises(BadOutput, match="for input 2 that is nested"):
        laid_out((None, torch.nested.nested_tensor([dense])), (dense, dense))
