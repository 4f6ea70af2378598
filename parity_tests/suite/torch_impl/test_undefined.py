"""A cotangent that is not there: `None` in the backward, and the same as zeros in value."""

from __future__ import annotations

import itertools

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
    explicit_formulas,
    implementations,
    only,
    pull,
    shape_of,
    subsets_of,
    zeros_for_none,
)


class GivesNone(torch.autograd.Function):
    """The identity, with a backward that returns `None`: autograd passes an undefined cotangent on."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx, x_bar: Tensor) -> None:
        return None


def pull_undefined(outputs, inputs, cotangents, **options):
    """As `pull`, but every output is used: an absent cotangent comes from the node after attn."""
    outputs = [y if y_bar is not None else GivesNone.apply(y) for y, y_bar in zip(outputs, cotangents, strict=True)]
    anything = [torch.ones_like(y) if y_bar is None else y_bar for y, y_bar in zip(outputs, cotangents, strict=True)]
    return pull(outputs, inputs, anything, **options)


ROUTES = {"unused": pull, "given_none": pull_undefined}


@implementations
def test_undefined_equals_zeros(attn: Attn, subtests):
    for route, create_graph, defined in itertools.product(ROUTES, (False, True), subsets_of(COTANGENTS)):
        primals = draw(PRIMALS, requires_grad=PRIMALS)
        cotangents = only(defined, COTANGENTS, draw(COTANGENTS, seed=1))
        grads = ROUTES[route](attn(*primals), primals, cotangents, create_graph=create_graph)
        zeros = zeros_for_none(cotangents, [torch.empty(shape_of(name), dtype=torch.float64) for name in COTANGENTS])
        expected = pull(attn(*primals), primals, zeros, create_graph=create_graph)

        v_is_reached = "output_bar" in defined
        with subtests.test(route=route, create_graph=create_graph, defined=defined):
            assert [x is None for x in grads] == [False, False, not v_is_reached]
            assert all(x.requires_grad == create_graph for x in grads if x is not None)
            assert_same(zeros_for_none(grads, primals), expected, zeros=not v_is_reached)


@implementations
@pytest.mark.parametrize("create_graph", [False, True], ids=["first_order", "create_graph"])
def test_both_undefined_gives_none(attn: Attn, create_graph: bool):
    primals = draw(PRIMALS, requires_grad=PRIMALS)
    assert pull_undefined(attn(*primals), primals, (None, None), create_graph=create_graph) == (None, None, None)


@explicit_formulas
def test_gradients_pass_through_create_graph(attn: Attn, subtests):
    """Second order with a cotangent missing at first order, against zeros in its place in the plain composite."""
    directions = draw(PRIMALS, seed=2)

    def second_order(attn, pull_back, cotangents):
        primals = draw(PRIMALS, requires_grad=PRIMALS)
        grads = pull_back(attn(*primals), primals, cotangents, create_graph=True)
        defined_cotangents = [x for x in cotangents if x is not None and x.requires_grad]
        inputs = [*primals, *defined_cotangents]
        return zeros_for_none(pull(zeros_for_none(grads, primals), inputs, directions), inputs)

    for route, defined in itertools.product(ROUTES, subsets_of(COTANGENTS)):
        cotangents = only(defined, COTANGENTS, draw(COTANGENTS, seed=1, requires_grad=defined))
        zeros = zeros_for_none(cotangents, draw(COTANGENTS))
        with subtests.test(route=route, defined=defined):
            actual = second_order(attn, ROUTES[route], cotangents)
            expected = second_order(torch_impl.attn_composite, pull, zeros)
            assert_same(actual, expected, zeros="output_bar" not in defined)  # attn does not depend on v


@explicit_formulas
def test_attn_has_no_gradient_for_v(attn: Attn):
    """One node's outputs all require grad if one input does; the gradient that does not exist is still `None`."""
    primals = draw(PRIMALS, requires_grad=["v"])
    _, attn_matrix = attn(*primals)
    assert attn_matrix.requires_grad
    assert torch.autograd.grad(attn_matrix.sum(), primals[2], allow_unused=True) == (None,)
