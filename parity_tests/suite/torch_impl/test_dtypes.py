"""Every dtype: the dtypes of all results, and their values at points where they are exact."""

from __future__ import annotations

import itertools

import pytest
import torch

from parity_tests.suite.torch_impl._common import COTANGENTS, Attn, explicit_formulas, only, pull, subsets_of
from parity_tests.suite.torch_impl._exact import (
    assert_exact,
    attn_gradients,
    attn_jvp,
    attn_matrix,
    point,
    tensors,
)

REAL = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
COMPLEX = (torch.complex128, torch.complex64)
dtypes = pytest.mark.parametrize("dtype", [*REAL, *COMPLEX], ids=lambda x: str(x).removeprefix("torch."))


@explicit_formulas
@dtypes
def test_values_and_jvp(attn: Attn, dtype):
    primals = point(is_complex=dtype.is_complex).primals
    q, k, v = primals
    A = attn_matrix(q, k)
    assert_exact(attn(*tensors(primals, dtype)), (A @ v, A), dtype)

    _, tangents, _ = point(is_complex=dtype.is_complex)
    _, results = torch.func.jvp(attn, tuple(tensors(primals, dtype)), tuple(tensors(tangents, dtype)))
    assert_exact(results, attn_jvp(primals, tangents), dtype)


@explicit_formulas
@dtypes
def test_gradients(attn: Attn, dtype, subtests):
    primals, _, cotangents = point(is_complex=dtype.is_complex)
    for defined, create_graph in itertools.product(subsets_of(COTANGENTS), (False, True)):
        inputs = [x.requires_grad_() for x in tensors(primals, dtype)]
        bars = only(defined, COTANGENTS, tensors(cotangents, dtype))
        grads = pull(attn(*inputs), inputs, bars, create_graph=create_graph)
        with subtests.test(defined=defined, create_graph=create_graph):
            assert_exact(grads, attn_gradients(primals, cotangents, defined), dtype)


@explicit_formulas
@dtypes
def test_double_backward_dtypes(attn: Attn, dtype):
    primals, tangents, cotangents = point(is_complex=dtype.is_complex)
    inputs = [x.requires_grad_() for x in tensors(primals, dtype)]
    bars = [x.requires_grad_() for x in tensors(cotangents, dtype)]
    grads = pull(attn(*inputs), inputs, bars, create_graph=True)
    seconds = pull(grads, [*inputs, *bars], tensors(tangents, dtype))
    assert [x.dtype for x in seconds] == [dtype] * 5
    assert all(x.isfinite().all() and x.any() for x in seconds)
