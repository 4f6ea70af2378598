"""Every nesting of reverse and forward mode that an implementation supports, against the plain composite."""

from __future__ import annotations

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
    all_but_the_composite,
    assert_same,
    draw,
    loss,
    only,
    pull,
    subsets,
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


@all_but_the_composite
@pytest.mark.parametrize("requires_grad", subsets(PRIMALS))
@pytest.mark.parametrize("defined", subsets(COTANGENTS))
def test_double_backward(attn: Attn, defined, requires_grad):
    """Differentiated a second time in the primals and in the cotangents."""

    def compute(attn):
        primals = draw(PRIMALS, requires_grad=requires_grad)
        cotangents = only(defined, COTANGENTS, draw(COTANGENTS, seed=1, requires_grad=COTANGENTS))
        inputs = [x for x in primals if x.requires_grad]
        grads = pull(attn(*primals), inputs, cotangents, create_graph=True)
        grads = zeros_for_none(grads, inputs)
        seconds = [*inputs, *(x for x in cotangents if x is not None)]
        directions = [x for x in only(requires_grad, PRIMALS, draw(PRIMALS, seed=2)) if x is not None]
        return grads, zeros_for_none(pull(grads, seconds, directions), seconds)

    same_by_both(compute, attn, zeros=True)  # v_bar does not depend on v, attn not on v


def duals(names, defined, **options):
    """Tensors of these names, dual where the tangent is defined."""
    tensors, directions = draw(names, seed=0, **options), draw(names, seed=3)
    return [
        make_dual(x, x_dot) if f"{name}_dot" in defined else x
        for name, x, x_dot in zip(names, tensors, directions, strict=True)
    ]


@all_but_the_composite
@pytest.mark.parametrize("defined", subsets(TANGENTS))
def test_forward_mode(attn: Attn, defined):
    def compute(attn):
        with dual_level():
            outputs = attn(*duals(PRIMALS, defined))
            return zeros_for_none([unpack_dual(y).tangent for y in outputs], outputs)

    same_by_both(compute, attn, zeros=defined == ("v_dot",))


DIRECTIONS = (*TANGENTS, "output_bar_dot", "attn_bar_dot")


@all_but_the_composite
@create_graph
@pytest.mark.parametrize("given", subsets(COTANGENTS))
@pytest.mark.parametrize("defined", [*((x,) for x in DIRECTIONS), DIRECTIONS], ids=[*DIRECTIONS, "all"])
def test_forward_over_reverse(attn: Attn, defined, given, create_graph):
    """The tangent of a gradient; also of one that is not itself recorded, where the backward may work in place."""

    def compute(attn):
        with dual_level():
            primals = duals(PRIMALS, defined, requires_grad=PRIMALS)
            cotangents = only(given, COTANGENTS, duals(COTANGENTS, defined))
            grads = zeros_for_none(pull(attn(*primals), primals, cotangents, create_graph=create_graph), primals)
            return zeros_for_none([unpack_dual(x).tangent for x in grads], primals)

    same_by_both(compute, attn, zeros=True)  # v_bar does not depend on v, nothing on a tangent of what is not given


@all_but_the_composite
@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_autograd_functional_hessian(attn: Attn, strategy):
    """`torch.autograd.functional` vectorises both orders."""

    def compute(attn):
        return torch.autograd.functional.hessian(
            loss(attn), tuple(draw(PRIMALS)), vectorize=True, outer_jacobian_strategy=strategy
        )

    same_by_both(compute, attn)


# torch.func


@all_but_the_composite
@pytest.mark.parametrize("names", subsets(PRIMALS))
def test_func_jvp(attn: Attn, names):
    chosen = only(names, PRIMALS, draw(PRIMALS)), only(names, PRIMALS, draw(PRIMALS, seed=3))
    primals, tangents = (tuple(x for x in xs if x is not None) for xs in chosen)

    def compute(attn):
        return torch.func.jvp(in_arguments(attn, names), primals, tangents)

    same_by_both(compute, attn, zeros=names == ("v",))


@all_but_the_composite
@pytest.mark.parametrize("names", subsets(PRIMALS))
@pytest.mark.parametrize("used", subsets(OUTPUTS))
def test_func_vjp(attn: Attn, used, names):
    """Of both results or of one alone, whose other has no cotangent."""
    primals = [x for x in only(names, PRIMALS, draw(PRIMALS)) if x is not None]
    cotangents = [x for x in only(used, OUTPUTS, draw(COTANGENTS, seed=1)) if x is not None]

    def compute(attn):
        def chosen(q, k, v):
            return tuple(y for y in only(used, OUTPUTS, attn(q, k, v)) if y is not None)

        return torch.func.vjp(in_arguments(chosen, names), *primals)[1](tuple(cotangents))

    same_by_both(compute, attn, zeros=used == ("attn",))


@all_but_the_composite
@pytest.mark.parametrize("names", subsets(PRIMALS))
@pytest.mark.parametrize("transform", [torch.func.jacrev, torch.func.jacfwd], ids=["jacrev", "jacfwd"])
def test_jacobians_of_both_outputs(attn: Attn, transform, names):
    primals = [x for x in only(names, PRIMALS, draw(PRIMALS)) if x is not None]

    def compute(attn):
        return transform(in_arguments(attn, names), argnums=tuple(range(len(names))))(*primals)

    same_by_both(compute, attn, zeros="v" in names)  # attn does not depend on v


@all_but_the_composite
def test_jacrev_in_chunks(attn: Attn):
    same_by_both(lambda attn: torch.func.jacrev(attn, argnums=ALL, chunk_size=2)(*draw(PRIMALS)), attn, zeros=True)


MODES = {"rev": torch.func.jacrev, "fwd": torch.func.jacfwd}
NESTINGS = [n for depth in (1, 2, 3) for n in itertools.product(MODES, repeat=depth)]


@pytest.mark.parametrize(
    ("nesting", "attn"),
    [
        pytest.param(nesting, attn, id=f"{'-of-'.join(nesting)}-{attn}")
        for nesting in NESTINGS
        for attn in ("function", "native_implicit", "native")
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


@all_but_the_composite
def test_hessian(attn: Attn):
    same_by_both(lambda attn: torch.func.hessian(loss(attn), argnums=ALL)(*draw(PRIMALS)), attn)


@all_but_the_composite
def test_grad_of_grad(attn: Attn):
    def compute(attn):
        directions = draw(PRIMALS, seed=3)

        def directional(*primals):
            grads = torch.func.grad(loss(attn), argnums=ALL)(*primals)
            return sum((x * y).sum() for x, y in zip(grads, directions, strict=True))

        return torch.func.grad(directional, argnums=ALL)(*draw(PRIMALS))

    same_by_both(compute, attn)


@all_but_the_composite
def test_vjp_of_jvp(attn: Attn):
    def compute(attn):
        def jvp(*args):
            return torch.func.jvp(attn, args[:3], args[3:])[1]

        return torch.func.vjp(jvp, *draw(PRIMALS), *draw(TANGENTS, seed=3))[1](tuple(draw(OUTPUTS, seed=4)))

    same_by_both(compute, attn)


@all_but_the_composite
def test_jvp_of_vjp(attn: Attn):
    def compute(attn):
        def vjp(*args):
            return torch.func.vjp(attn, *args[:3])[1](args[3:])

        names = (*PRIMALS, *COTANGENTS)
        return torch.func.jvp(vjp, tuple(draw(names)), tuple(draw(names, seed=3)))

    same_by_both(compute, attn)


@all_but_the_composite
def test_func_inside_autograd(attn: Attn):
    """torch.func differentiates inside, `torch.autograd` outside."""

    def compute(attn):
        primals = draw(PRIMALS, requires_grad=PRIMALS)
        grads = torch.func.grad(loss(attn), argnums=ALL)(*primals)
        return torch.autograd.grad(grads, primals, draw(PRIMALS, seed=3))

    same_by_both(compute, attn)


@all_but_the_composite
def test_func_of_autograd(attn: Attn):
    """`torch.autograd` differentiates inside; its cotangents are those of torch.func's forward mode."""

    def compute(attn):
        primals = draw(PRIMALS, requires_grad=PRIMALS)
        outputs = attn(*primals)

        def vjp(*cotangents):
            return torch.autograd.grad(outputs, primals, cotangents, retain_graph=True)

        return torch.func.jvp(vjp, tuple(draw(COTANGENTS, seed=1)), tuple(draw(COTANGENTS, seed=3)))

    same_by_both(compute, attn)
