"""Autocast as for PyTorch's own matrix products: arguments of several dtypes, every order, and on another device."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import torch_impl
from parity_tests.suite.torch_impl._common import (
    COTANGENTS,
    PRIMALS,
    Attn,
    assert_same,
    draw,
    native_implementations,
    pull,
)
from parity_tests.suite.torch_impl._exact import assert_exact, attn_gradients, attn_jvp, attn_matrix, point, tensors
from torch_impl import attn_composite

LOWER = torch.bfloat16
MIXED = [
    (torch.float32, torch.bfloat16, torch.float16),
    (torch.bfloat16, torch.float32, torch.float32),
    (torch.float16, torch.float16, torch.float32),
]
mixed = pytest.mark.parametrize("dtypes", MIXED, ids=lambda xs: "-".join(str(x).removeprefix("torch.") for x in xs))


def of_dtypes(arrays, dtypes) -> list[Tensor]:
    return [tensors([x], dtype)[0] for x, dtype in zip(arrays, dtypes, strict=True)]


@native_implementations
@mixed
def test_mixed_dtypes(attn: Attn, dtypes):
    """They are all lowered, and each gradient has the dtype of its argument."""
    primals, tangents, cotangents = point(is_complex=False)
    inputs = [x.requires_grad_() for x in of_dtypes(primals, dtypes)]
    with torch.autocast("cpu", dtype=LOWER):
        outputs = attn(*inputs)
        _, derivatives = torch.func.jvp(attn, tuple(x.detach() for x in inputs), tuple(of_dtypes(tangents, dtypes)))
    grads = pull(outputs, inputs, tensors(cotangents, LOWER))
    A = attn_matrix(*primals[:2])
    assert_exact(outputs, (A @ primals[2], A), LOWER)
    assert_exact(derivatives, attn_jvp(primals, tangents), LOWER)
    for x_bar, expected, dtype in zip(grads, attn_gradients(primals, cotangents, COTANGENTS), dtypes, strict=True):
        assert_exact([x_bar], [expected], dtype)


@native_implementations
def test_mixed_with_what_is_not_lowered(attn: Attn):
    """float64 stays as it is, and so there are two dtypes: refused, by PyTorch's own products, too."""
    q, k, v = of_dtypes(point(is_complex=False).primals, (torch.float64, torch.float32, torch.float32))
    with torch.autocast("cpu", dtype=LOWER):
        with pytest.raises(RuntimeError, match="to have the same dtype"):
            torch.mm(q, k.mT)
        # The explicit operator's check is after the cast, the implicit one's before it.
        others = "bfloat16 and bfloat16" if attn is torch_impl.attn_native else "float32 and float32"
        with pytest.raises(TypeError, match=f"^attn: q, k and v must share one dtype, got float64, {others}; "):
            attn(q, k, v)


@native_implementations
def test_mixed_dtypes_without_autocast(attn: Attn):
    """Disabled inside of an enabled one, autocast does not make up for them."""
    with (
        torch.autocast("cpu", dtype=LOWER),
        torch.autocast("cpu", enabled=False),
        pytest.raises(TypeError, match="must share one dtype, got float32, bfloat16 and float16"),
    ):
        attn(*of_dtypes(point(is_complex=False).primals, MIXED[0]))


@native_implementations
@pytest.mark.parametrize("lower", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
def test_dtype_of_autocast(attn: Attn, lower):
    primals = tensors(point(is_complex=False).primals, torch.float32)
    with torch.autocast("cpu", dtype=lower):
        assert {x.dtype for x in attn(*primals)} == {lower}


@native_implementations
@pytest.mark.parametrize("orders_inside", [0, 1, 2], ids=["forward", "backward", "double_backward"])
def test_double_backward(attn: Attn, orders_inside):
    """However many of the orders run under autocast: results in the dtype of their argument, as near as bfloat16 is."""
    sizes = (3, 2, 4, 5)
    primals = draw(PRIMALS, sizes, dtype=torch.float32, requires_grad=PRIMALS)
    cotangents = draw(COTANGENTS, sizes, dtype=LOWER, seed=1)
    directions = draw(PRIMALS, sizes, dtype=torch.float32, seed=2)

    def second_order(attn, primals, cotangents, directions, inside):
        with torch.autocast("cpu", dtype=LOWER, enabled=inside >= 0):
            outputs = attn(*primals)
        with torch.autocast("cpu", dtype=LOWER, enabled=inside >= 1):
            grads = pull(outputs, primals, cotangents, create_graph=True)
        with torch.autocast("cpu", dtype=LOWER, enabled=inside >= 2):
            return grads, pull(grads, primals, directions)

    grads, seconds = second_order(attn, primals, cotangents, directions, orders_inside)
    assert {x.dtype for x in (*grads, *seconds)} == {torch.float32}
    exact = [x.detach().double().requires_grad_() for x in primals]
    expected = second_order(
        attn_composite, exact, [x.double() for x in cotangents], [x.double() for x in directions], -1
    )
    # A result is a sum of at most 8 products of 6 factors below 2, each rounded at most 6 times, by half an ulp.
    for actual, reference in zip((*grads, *seconds), (*expected[0], *expected[1]), strict=True):
        error = (torch.as_tensor(actual) - torch.as_tensor(reference)).abs().max()
        assert error <= 8 * 6 * torch.finfo(LOWER).eps / 2 * max(1, torch.as_tensor(reference).abs().max())
        assert error > 0  # it did run in the lower precision


@native_implementations
def test_backward_under_autocast_alone(attn: Attn):
    """A forward without it: attn is of float32, so a backward of the explicit operator is, too, to the bit."""
    primals = draw(PRIMALS, dtype=torch.float32, requires_grad=PRIMALS)
    cotangents = draw(COTANGENTS, dtype=torch.float32, seed=1)
    outputs = attn(*primals)
    plain = pull(outputs, primals, cotangents, retain_graph=True)
    with torch.autocast("cpu", dtype=LOWER):
        inside = pull(outputs, primals, cotangents, retain_graph=True)
    assert {x.dtype for x in inside} == {torch.float32}
    if attn is torch_impl.attn_native:
        assert_same(inside, plain, atol=0)
    else:  # what autocast does to any composition: the backward's products are lowered
        assert any(not torch.equal(x, y) for x, y in zip(inside, plain, strict=True))


@native_implementations
def test_vmap(attn: Attn):
    """Inside and around: lowered, too."""
    q, k, v = draw(PRIMALS, dtype=torch.float32, batch=(3,))
    with torch.autocast("cpu", dtype=LOWER):
        outputs = torch.vmap(attn)(q, k, v)
        samples = [attn(*xs) for xs in zip(q, k, v, strict=True)]
    assert {x.dtype for x in outputs} == {LOWER}
    stacked = [torch.stack(ys) for ys in zip(*samples, strict=True)]
    # A batched product may sum in another order; one ulp of values below 4 at most.
    torch.testing.assert_close(list(outputs), stacked, rtol=0, atol=4 * torch.finfo(LOWER).eps)


@native_implementations
def test_forward_over_reverse(attn: Attn):
    """The tangents of the gradients, at points where lowering is exact: against the same in float64."""
    primals, tangents, cotangents = point(is_complex=False)

    def derivatives(attn, dtype, lower, enabled):
        def grads(*primals):
            with torch.autocast("cpu", dtype=LOWER, enabled=enabled):
                return torch.func.vjp(attn, *primals)[1](tuple(tensors(cotangents, lower)))

        return torch.func.jvp(grads, tuple(tensors(primals, dtype)), tuple(tensors(tangents, dtype)))[1]

    actual = derivatives(attn, torch.float32, LOWER, True)
    expected = derivatives(attn_composite, torch.float64, torch.float64, False)
    assert {x.dtype for x in actual} == {torch.float32}
    # Integers, which bfloat16 has up to 256: what is larger was rounded once or twice, to half an ulp each.
    torch.testing.assert_close([x.double() for x in actual], list(expected), rtol=torch.finfo(LOWER).eps, atol=0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@native_implementations
@mixed
def test_cuda(attn: Attn, dtypes):
    primals, _, cotangents = point(is_complex=False)
    inputs = [x.cuda().requires_grad_() for x in of_dtypes(primals, dtypes)]
    with torch.autocast("cuda", dtype=LOWER):
        outputs = attn(*inputs)
        grads = pull(outputs, inputs, [x.cuda() for x in tensors(cotangents, LOWER)])
    A = attn_matrix(*primals[:2])
    assert_exact([x.cpu() for x in outputs], (A @ primals[2], A), LOWER)
    for x_bar, expected, dtype in zip(grads, attn_gradients(primals, cotangents, COTANGENTS), dtypes, strict=True):
        assert_exact([x_bar.cpu()], [expected], dtype)
