"""Nothing is computed that nobody asked for: matrix products are counted and compared with what the formulas need."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch.autograd.forward_ad import dual_level, make_dual
from torch.utils._python_dispatch import TorchDispatchMode

import torch_impl
from parity_tests.suite.torch_impl._common import (
    COTANGENTS,
    PRIMALS,
    TANGENTS,
    Attn,
    draw,
    implementations,
    only,
    pull,
    subsets,
)

MATRIX_PRODUCTS = {torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.bmm, torch.ops.aten.baddbmm}


class CountProducts(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func.overloadpacket in MATRIX_PRODUCTS
        return func(*args, **(kwargs or {}))


class Product(NamedTuple):
    """A matrix product of the backward: one of `wanted` asks for it, and one of `given` makes it other than zero."""

    equation: str
    wanted: set[str]
    given: set[str]

    def is_needed(self, wanted, given) -> bool:
        return bool(self.wanted & set(wanted)) and bool(self.given & set(given))


BACKWARD = (
    Product("(8) output_bar vᵀ", wanted={"q", "k"}, given={"output_bar"}),
    Product("(10) P k", wanted={"q"}, given={"output_bar", "attn_bar"}),
    Product("(11) Pᵀ q", wanted={"k"}, given={"output_bar", "attn_bar"}),
    Product("(12) Aᵀ output_bar", wanted={"v"}, given={"output_bar"}),
)
FORWARD_MODE = (
    Product("(5) q_dot kᵀ", wanted={"attn"}, given={"q_dot"}),
    Product("(5) q k_dotᵀ", wanted={"attn"}, given={"k_dot"}),
    Product("(7) A_dot v", wanted={"output"}, given={"q_dot", "k_dot"}),
    Product("(7) A v_dot", wanted={"output"}, given={"v_dot"}),
)


def needed(products, wanted, given) -> list[str]:
    return [p.equation for p in products if p.is_needed(wanted, given)]


def count_in_backward(attn: Attn, requires_grad, wanted, defined) -> int:
    primals = draw(PRIMALS, requires_grad=requires_grad)
    outputs = attn(*primals)
    inputs = [x for x in only(wanted, PRIMALS, primals) if x is not None]
    with CountProducts() as products:
        pull(outputs, inputs, only(defined, COTANGENTS, draw(COTANGENTS)))
    return products.count


@implementations
@pytest.mark.parametrize("wanted", subsets(PRIMALS))
@pytest.mark.parametrize("defined", subsets(COTANGENTS))
def test_products_of_the_backward(attn: Attn, wanted, defined):
    expected = needed(BACKWARD, wanted, defined)
    assert count_in_backward(attn, wanted, wanted, defined) == len(expected), expected


@pytest.mark.parametrize("wanted", subsets(PRIMALS))
@pytest.mark.parametrize("defined", subsets(COTANGENTS))
def test_products_when_all_require_grad_but_some_are_asked_for(wanted, defined):
    """`torch.autograd.grad(inputs=...)`: autograd's own nodes know what is asked for, a Function is not told."""
    asked, required = needed(BACKWARD, wanted, defined), needed(BACKWARD, PRIMALS, defined)
    assert count_in_backward(torch_impl.attn_composite, PRIMALS, wanted, defined) == len(asked), asked
    # A limit, see test_limits: the values are right, the other products are wasted.
    assert count_in_backward(torch_impl.attn_function, PRIMALS, wanted, defined) == len(required), required


@pytest.mark.parametrize("wanted", subsets(PRIMALS))
@pytest.mark.parametrize("defined", subsets(COTANGENTS, empty=True))
def test_other_gradients_are_none(wanted, defined):
    """The backward by itself, also with both cotangents absent, where autograd may not even call it."""
    output, _ = torch_impl.attn_function(*draw(PRIMALS, requires_grad=wanted))
    with CountProducts() as products:
        grads = output.grad_fn.apply(*only(defined, COTANGENTS, draw(COTANGENTS)))
    reached = {"q": bool(defined), "k": bool(defined), "v": "output_bar" in defined}
    assert [x is not None for x in grads] == [name in wanted and reached[name] for name in PRIMALS]
    assert products.count == len(needed(BACKWARD, wanted, defined))


@pytest.mark.parametrize("defined", subsets(TANGENTS))
def test_products_of_the_jvp(defined):
    """The composite is left out: it takes twice as many, as PyTorch fills absent tangents with zeros."""
    primals, tangents = draw(PRIMALS), draw(TANGENTS, seed=1)
    with dual_level():
        duals = [
            make_dual(x, x_dot) if name in defined else x
            for name, x, x_dot in zip(TANGENTS, primals, tangents, strict=True)
        ]
        with CountProducts() as products:
            torch_impl.attn_function(*duals)
    primal = 2  # (1) and (3)
    expected = needed(FORWARD_MODE, {"output", "attn"}, defined)
    assert products.count - primal == len(expected), expected
