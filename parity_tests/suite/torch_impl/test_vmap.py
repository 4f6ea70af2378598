"""torch.vmap where no check of the harness looks: without PyTorch's slow fallback, and with torch.autograd around it.

That values, gradients and tangents are right for every way of batching is for the check "vmap", nestings for
"functorch"; `test_parity` asks both. `out_dims` and `chunk_size` are PyTorch's own: no operator sees them.
"""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual

from parity_tests.suite.marks import fast
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

BATCH = 3
ALL = (0, 1, 2)  # argnums


@pytest.fixture(autouse=True)
def no_slow_fallback():
    """Of an operator without a batching rule vmap makes a loop, with a warning that only a terminal sees."""
    before = torch._C._functorch._is_vmap_fallback_enabled()
    torch._C._functorch._set_vmap_fallback_enabled(False)
    yield
    torch._C._functorch._set_vmap_fallback_enabled(before)


def batched(names, axes, *, batch=BATCH, **options):
    """Tensors of these names with their batch axis where `axes` says."""
    return [
        draw([name], seed=10 + i, **options)[0]
        if axis is None
        else draw([name], seed=10 + i, batch=(batch,), **options)[0].movedim(0, axis)
        for i, (name, axis) in enumerate(zip(names, axes, strict=True))
    ]


def loop(function, axes, args):
    """What vmap means: the function of each sample by itself, and its results stacked."""
    samples = [
        function(*(x if axis is None else x.select(axis, i) for x, axis in zip(args, axes, strict=True)))
        for i in range(BATCH)
    ]
    return tuple(torch.stack(results) for results in zip(*samples, strict=True))


def grad(attn: Attn):
    return torch.func.grad(loss(attn), argnums=ALL)


def vjp(attn: Attn):
    return lambda *args: torch.func.vjp(attn, *args[:3])[1](args[3:])


def jvp(attn: Attn):
    return lambda *args: torch.func.jvp(attn, args[:3], args[3:])[1]


def hessian(attn: Attn):
    blocks = torch.func.hessian(loss(attn), argnums=ALL)
    return lambda *primals: tuple(block for row in blocks(*primals) for block in row)


def test_fallback_is_off():
    with pytest.raises(RuntimeError, match="hit the vmap fallback which is currently disabled"):
        torch.vmap(torch.bincount)(torch.ones(2, 3, dtype=torch.int64))


@fast("values-*")
@explicit_formulas
@pytest.mark.parametrize("transform", [lambda attn: attn, grad, hessian], ids=["values", "gradients", "hessians"])
def test_no_fallback(attn: Attn, transform, subtests):
    for axes in itertools.product((0, 1, -1, None), repeat=3):
        if set(axes) == {None} or (transform is hessian and axes not in ((0, 0, 0), (0, None, -1), (None, None, 1))):
            continue
        with subtests.test(axes=axes):
            args = batched(PRIMALS, axes)
            assert_same(torch.vmap(transform(attn), axes)(*args), loop(transform(attn_composite), axes, args))


@fast("vjp-*")
@explicit_formulas
@pytest.mark.parametrize(("transform", "names"), [(vjp, COTANGENTS), (jvp, TANGENTS)], ids=["vjp", "jvp"])
def test_no_fallback_with_directions(attn: Attn, transform, names, subtests):
    """A direction is batched like its argument, or otherwise."""
    of_primals = [(None, None, None), (0, None, -1), (None, 0, None), (None, None, 0)]
    for primal_axes, axes in itertools.product(of_primals, itertools.product((0, -1, None), repeat=len(names))):
        if {*primal_axes, *axes} == {None}:
            continue
        with subtests.test(primals=primal_axes, directions=axes):
            args = batched((*PRIMALS, *names), (*primal_axes, *axes))
            actual = torch.vmap(transform(attn), (*primal_axes, *axes))(*args)
            assert_same(actual, loop(transform(attn_composite), (*primal_axes, *axes), args))


@explicit_formulas
def test_jvp_in_one_argument(attn: Attn, subtests):
    """The other two have no tangent; that of attn along v is zero in every sample."""
    given = dict(zip(PRIMALS, draw(PRIMALS), strict=True))

    def along(attn, name):
        def jvp(x, x_dot):
            return torch.func.jvp(lambda x: attn(*(given | {name: x}).values()), (x,), (x_dot,))[1]

        return jvp

    for name in PRIMALS:
        with subtests.test(name=name):
            args = batched((name, name), (None, 0))
            expected = loop(along(attn_composite, name), (None, 0), args)
            assert_same(torch.vmap(along(attn, name), (None, 0))(*args), expected, zeros=name == "v")


@explicit_formulas
def test_gradients_of_one_output(attn: Attn, subtests):
    """The other output has no cotangent in any sample."""

    def grad_of_used(attn, used):
        def scalar(*primals):
            return sum(y.sin().sum() for y in only(used, OUTPUTS, attn(*primals)) if y is not None)

        return torch.func.grad(scalar, argnums=ALL)

    axes = (0, None, None)
    args = batched(PRIMALS, axes)
    for used in subsets_of(OUTPUTS):
        with subtests.test(used=used):
            expected = loop(grad_of_used(attn_composite, used), axes, args)
            assert_same(torch.vmap(grad_of_used(attn, used), axes)(*args), expected, zeros=used == ("attn",))


@explicit_formulas
@pytest.mark.parametrize("transform", [lambda attn: attn, grad], ids=["values", "gradients"])
def test_nested(attn: Attn, transform):
    """Two batch axes: q has both, k the outer, v the inner one."""
    outer, inner = (0, 1, None), (0, None, -1)
    q = draw(["q"], batch=(BATCH, BATCH))[0]
    _, k, v = batched(PRIMALS, (None, 1, -1))
    actual = torch.vmap(torch.vmap(transform(attn), inner), outer)(q, k, v)
    expected = loop(lambda *args: loop(transform(attn_composite), inner, args), outer, (q, k, v))
    assert_same(actual, expected)


@explicit_formulas
def test_autograd_outside(attn: Attn, subtests):
    """First and second order of `torch.autograd` through a vmapped call; an input without batch axis sums over it."""
    for axes in [(0, -1, 0), (0, None, None), (None, 0, None), (None, None, 0)]:
        args = [x.detach().requires_grad_() for x in batched(PRIMALS, axes)]
        directions = [torch.cos(x.detach()) for x in args]

        def both_orders(outputs, args=args, directions=directions):
            cotangents = [torch.sin(3 * y.detach() + 1) for y in outputs]
            grads = pull(outputs, args, cotangents, create_graph=True)
            return grads, pull(grads, args, directions)

        with subtests.test(axes=axes):
            assert_same(both_orders(torch.vmap(attn, axes)(*args)), both_orders(loop(attn_composite, axes, args)))


@explicit_formulas
def test_autograd_outside_of_nested(attn: Attn):
    """q has the inner batch axis alone, v the outer one alone."""
    inner, outer = (0, None, None), (None, None, 0)
    args = [x.requires_grad_() for x in batched(PRIMALS, (0, None, 0))]

    def first_order(outputs):
        return pull(outputs, args, [torch.sin(3 * y.detach() + 1) for y in outputs])

    expected = loop(lambda *xs: loop(attn_composite, inner, xs), outer, args)
    assert_same(first_order(torch.vmap(torch.vmap(attn, inner), outer)(*args)), first_order(expected))


@explicit_formulas
def test_forward_mode_outside(attn: Attn):
    axes = (0, -1, None)
    args, tangents = batched(PRIMALS, axes), [torch.cos(x) for x in batched(PRIMALS, axes)]

    def compute(function):
        with dual_level():
            return [unpack_dual(y).tangent for y in function(*map(make_dual, args, tangents))]

    assert_same(compute(torch.vmap(attn, axes)), compute(lambda *xs: loop(attn_composite, axes, xs)))


@explicit_formulas
@pytest.mark.parametrize("create_graph", [False, True], ids=["first_order", "create_graph"])
def test_is_grads_batched(attn: Attn, create_graph, subtests):
    """PyTorch's older vmap, which no rule of an operator is for."""
    for defined in subsets_of(COTANGENTS):
        primals = draw(PRIMALS, requires_grad=PRIMALS)
        cotangents = only(defined, COTANGENTS, draw(COTANGENTS, batch=(BATCH,), seed=1))
        outputs = attn_composite(*primals)
        samples = [
            zeros_for_none(
                pull(outputs, primals, [x if x is None else x[i] for x in cotangents], retain_graph=True), primals
            )
            for i in range(BATCH)
        ]
        expected = [torch.stack(grads) for grads in zip(*samples, strict=True)]
        with subtests.test(defined=defined):
            actual = pull(attn(*primals), primals, cotangents, is_grads_batched=True, create_graph=create_graph)
            assert_same(zeros_for_none(actual, expected), expected, zeros="output_bar" not in defined)


@explicit_formulas
def test_vmap_over_cotangents_of_autograd(attn: Attn, subtests):
    """The backward sees a batched cotangent, and saved tensors that have no batch axis."""
    primals = draw(PRIMALS, requires_grad=PRIMALS)

    def vjp(attn):
        outputs = attn(*primals)
        return lambda *cotangents: torch.autograd.grad(outputs, primals, cotangents, retain_graph=True)

    for mapped in subsets_of(COTANGENTS):
        axes = tuple(0 if name in mapped else None for name in COTANGENTS)
        cotangents = batched(COTANGENTS, axes)
        with subtests.test(mapped=mapped):
            assert_same(torch.vmap(vjp(attn), axes)(*cotangents), loop(vjp(attn_composite), axes, cotangents))


@explicit_formulas
def test_empty_batch(attn: Attn):
    outputs = torch.vmap(attn)(*(x[:0] for x in batched(PRIMALS, (0, 0, 0))))
    assert [tuple(y.shape) for y in outputs] == [(0, 3, 5), (0, 3, 4)]
