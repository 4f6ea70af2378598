"""Nestings of reverse and forward mode where no check looks: of some inputs, with cotangents absent, to third order.

Both orders of everything at once are for the checks of first and second order and for "functorch".
"""

from __future__ import annotations

import functools
import itertools

import pytest
import torch
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual

from parity_tests.suite.torch_impl._common import (
    COTANGENTS,
    OUTPUTS,
    PRIMALS,
    TANGENTS,
    Attn,
    assert_same,
    draw,
    explicit_formulas,
    loss,
    only,
    pull,
    subsets_of,
    zeros_for_none,
)
from torch_impl import attn_composite

ALL = (0, 1, 2)  # argnums
create_graph = pytest.mark.parametrize("create_graph", [False, True], ids=["first_order", "create_graph"])


def same_by_both(compute, attn, **options) -> None:
    """compute(attn) gives the same as for the composite."""
    assert_same(compute(attn), compute(attn_composite), **options)


def in_arguments(function, names):
    """The function of the named primals alone; the others are constants and not merely undifferentiated arguments."""

    def partial(*chosen):
        primals = dict(zip(PRIMALS, draw(PRIMALS), strict=True))
        primals.update(zip(names, chosen, strict=True))
        return function(*primals.values())

    return partial


# torch.autograd


@explicit_formulas
def test_double_backward(attn: Attn, subtests):
    """Differentiated a second time in the primals and in the cotangents."""

    def compute(attn, requires_grad, defined):
        primals = draw(PRIMALS, requires_grad=requires_grad)
        cotangents = only(defined, COTANGENTS, draw(COTANGENTS, seed=1, requires_grad=COTANGENTS))
        inputs = [x for x in primals if x.requires_grad]
        grads = pull(attn(*primals), inputs, cotangents, create_graph=True)
        grads = zeros_for_none(grads, inputs)
        seconds = [*inputs, *(x for x in cotangents if x is not None)]
        directions = [x for x in only(requires_grad, PRIMALS, draw(PRIMALS, seed=2)) if x is not None]
        return grads, zeros_for_none(pull(grads, seconds, directions), seconds)

    for requires_grad, defined in itertools.product(subsets_of(PRIMALS), subsets_of(COTANGENTS)):
        with subtests.test(requires_grad=requires_grad, defined=defined):  # v_bar does not depend on v, attn not on v
            same_by_both(functools.partial(compute, requires_grad=requires_grad, defined=defined), attn, zeros=True)


def duals(names, defined, **options):
    """Tensors of these names, dual where the tangent is defined."""
    tensors, directions = draw(names, seed=0, **options), draw(names, seed=3)
    return [
        make_dual(x, x_dot) if f"{name}_dot" in defined else x
        for name, x, x_dot in zip(names, tensors, directions, strict=True)
    ]


DIRECTIONS = (*TANGENTS, "output_bar_dot", "attn_bar_dot")


@explicit_formulas
@create_graph
def test_forward_over_reverse(attn: Attn, create_graph, subtests):
    """The tangent of a gradient; also of one that is not itself recorded, where the backward may work in place."""

    def compute(attn, defined, given):
        with dual_level():
            primals = duals(PRIMALS, defined, requires_grad=PRIMALS)
            cotangents = only(given, COTANGENTS, duals(COTANGENTS, defined))
            grads = zeros_for_none(pull(attn(*primals), primals, cotangents, create_graph=create_graph), primals)
            return zeros_for_none([unpack_dual(x).tangent for x in grads], primals)

    for defined, given in itertools.product([*((x,) for x in DIRECTIONS), DIRECTIONS], subsets_of(COTANGENTS)):
        with subtests.test(defined=defined, given=given):  # zero: v_bar along v, and along what is not given
            same_by_both(functools.partial(compute, defined=defined, given=given), attn, zeros=True)


@explicit_formulas
@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_autograd_functional_hessian(attn: Attn, strategy):
    """`torch.autograd.functional` vectorises both orders."""

    def compute(attn):
        return torch.autograd.functional.hessian(
            loss(attn), tuple(draw(PRIMALS)), vectorize=True, outer_jacobian_strategy=strategy
        )

    same_by_both(compute, attn)


# torch.func


@explicit_formulas
def test_func_jvp(attn: Attn, subtests):
    for names in subsets_of(PRIMALS):
        chosen = only(names, PRIMALS, draw(PRIMALS)), only(names, PRIMALS, draw(PRIMALS, seed=3))
        primals, tangents = (tuple(x for x in xs if x is not None) for xs in chosen)

        def compute(attn, names=names, primals=primals, tangents=tangents):
            return torch.func.jvp(in_arguments(attn, names), primals, tangents)

        with subtests.test(names=names):
            same_by_both(compute, attn, zeros=names == ("v",))


@explicit_formulas
def test_func_vjp(attn: Attn, subtests):
    """Of both results or of one alone, whose other has no cotangent."""

    def compute(attn, used, names):
        primals = [x for x in only(names, PRIMALS, draw(PRIMALS)) if x is not None]
        cotangents = [x for x in only(used, OUTPUTS, draw(COTANGENTS, seed=1)) if x is not None]

        def chosen(q, k, v):
            return tuple(y for y in only(used, OUTPUTS, attn(q, k, v)) if y is not None)

        return torch.func.vjp(in_arguments(chosen, names), *primals)[1](tuple(cotangents))

    for used, names in itertools.product(subsets_of(OUTPUTS), subsets_of(PRIMALS)):
        with subtests.test(used=used, names=names):
            same_by_both(functools.partial(compute, used=used, names=names), attn, zeros=used == ("attn",))


MODES = {"rev": torch.func.jacrev, "fwd": torch.func.jacfwd}
NESTINGS = [n for depth in (1, 2, 3) for n in itertools.product(MODES, repeat=depth)]


@pytest.mark.parametrize(
    ("nesting", "attn"),
    [
        pytest.param(nesting, attn, id=f"{'-of-'.join(nesting)}-{attn}")
        for nesting in NESTINGS
        for attn in ("function", "native")
        # Two forward modes give wrong results through any Function, in whatever order: see test_limits.
        if attn != "function" or nesting.count("fwd") <= 1
    ],
    indirect=["attn"],
)
def test_nested_jacobians(attn: Attn, nesting):
    sizes = (2, 1, 3, 2)  # the third derivative has (2·1 + 3·1 + 3·2)³ entries

    def compute(attn):
        function = loss(attn, sizes)
        for mode in reversed(nesting):
            function = MODES[mode](function, argnums=ALL)
        return function(*draw(PRIMALS, sizes))

    same_by_both(compute, attn)


@explicit_formulas
def test_func_inside_autograd(attn: Attn):
    """torch.func differentiates inside, `torch.autograd` outside."""

    def compute(attn):
        primals = draw(PRIMALS, requires_grad=PRIMALS)
        grads = torch.func.grad(loss(attn), argnums=ALL)(*primals)
        return torch.autograd.grad(grads, primals, draw(PRIMALS, seed=3))

    same_by_both(compute, attn)


@explicit_formulas
def test_func_of_autograd(attn: Attn):
    """`torch.autograd` differentiates inside; its cotangents are those of torch.func's forward mode."""

    def compute(attn):
        primals = draw(PRIMALS, requires_grad=PRIMALS)
        outputs = attn(*primals)

        def vjp(*cotangents):
            return torch.autograd.grad(outputs, primals, cotangents, retain_graph=True)

        return torch.func.jvp(vjp, tuple(draw(COTANGENTS, seed=1)), tuple(draw(COTANGENTS, seed=3)))

    same_by_both(compute, attn)
