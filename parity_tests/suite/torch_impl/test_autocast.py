"""Under autocast: products in the lower dtype, gradients in the caller's, as the plain operations do."""

from __future__ import annotations

import itertools

import pytest
import torch

from parity_tests.suite.marks import fast
from parity_tests.suite.torch_impl._common import (
    COTANGENTS,
    PRIMALS,
    Attn,
    draw,
    implementations,
    only,
    pull,
    subsets_of,
)
from parity_tests.suite.torch_impl._exact import assert_exact, attn_gradients, attn_jvp, attn_matrix, point, tensors

LOWER = torch.bfloat16

dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["float32", "float16"])


@fast("float16-native", "float32-function")
@implementations
@dtypes
def test_values_and_gradients(attn: Attn, dtype, subtests):
    """The backward inside of autocast and outside of it."""
    primals, _, cotangents = point(is_complex=False)
    q, k, v = primals
    A = attn_matrix(q, k)
    for defined, create_graph, inside in itertools.product(subsets_of(COTANGENTS), (False, True), (False, True)):
        inputs = [x.requires_grad_() for x in tensors(primals, dtype)]
        with torch.autocast("cpu", dtype=LOWER):
            outputs = attn(*inputs)
        with torch.autocast("cpu", dtype=LOWER, enabled=inside):
            bars = only(defined, COTANGENTS, tensors(cotangents, LOWER))
            grads = pull(outputs, inputs, bars, create_graph=create_graph)
        with subtests.test(defined=defined, create_graph=create_graph, inside=inside):
            assert_exact(outputs, (A @ v, A), LOWER)
            assert_exact(grads, attn_gradients(primals, cotangents, defined), dtype)


@implementations
@dtypes
def test_jvp(attn: Attn, dtype):
    primals, tangents, _ = point(is_complex=False)
    with torch.autocast("cpu", dtype=LOWER):
        _, results = torch.func.jvp(attn, tuple(tensors(primals, dtype)), tuple(tensors(tangents, dtype)))
    assert_exact(results, attn_jvp(primals, tangents), LOWER)


@implementations
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64], ids=["float64", "complex64"])
def test_left_alone(attn: Attn, dtype):
    """Autocast does not lower float64, and has no lower complex."""
    primals = draw(PRIMALS, dtype=dtype, requires_grad=PRIMALS)
    with torch.autocast("cpu", dtype=LOWER):
        outputs = attn(*primals)
    torch.testing.assert_close(outputs, attn(*primals), rtol=0, atol=0)
    assert all(x.dtype == dtype for x in pull(outputs, primals, draw(COTANGENTS, dtype=dtype, seed=1)))


@implementations
def test_mixed_dtypes(attn: Attn):
    """Autocast casts each product's factors by itself, so that they need not agree before."""
    primals = draw(PRIMALS, dtype=torch.float32, requires_grad=PRIMALS)
    mixed = [primals[0].to(LOWER), primals[1], primals[2].to(torch.float16)]
    with torch.autocast("cpu", dtype=LOWER):
        outputs, expected = attn(*mixed), attn(*(x.to(LOWER) for x in mixed))
    torch.testing.assert_close(outputs, expected, rtol=0, atol=0)
    assert all(x.dtype == torch.float32 for x in pull(outputs, primals, draw(COTANGENTS, dtype=LOWER, seed=1)))


@implementations
def test_mixed_dtypes_that_autocast_leaves_alone(attn: Attn):
    q, k, v = draw(PRIMALS)
    with (
        torch.autocast("cpu", dtype=LOWER),
        pytest.raises(TypeError, match=r"q, k and v must share one dtype, got float64, \w+ and float64"),
    ):
        attn(q, k.float(), v)
