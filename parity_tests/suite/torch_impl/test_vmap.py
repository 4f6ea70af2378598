"""torch.vmap in every combination of batch axes, against a loop over the samples of the plain composite."""

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
    assert_same,
    draw,
    implementations,
    loss,
    only,
    pull,
    subsets,
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


def axis_combinations(names, places=(0, -1, None)):
    """Each of these batch axes for each name, at least one of them there."""
    return [
        pytest.param(axes, id="_".join(map(str, axes)))
        for axes in itertools.product(places, repeat=len(names))
        if set(axes) != {None}
    ]


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


def test_fallback_is_off():
    with pytest.raises(RuntimeError, match="hit the vmap fallback which is currently disabled"):
        torch.vmap(torch.bincount)(torch.ones(2, 3, dtype=torch.int64))


@implementations
@pytest.mark.parametrize("axes", axis_combinations(PRIMALS, (0, 1, -1, None)))
def test_values(attn: Attn, axes):
    args = batched(PRIMALS, axes)
    assert_same(torch.vmap(attn, axes)(*args), loop(attn_composite, axes, args))


@implementations
@pytest.mark.parametrize("axes", axis_combinations(PRIMALS))
def test_gradients_per_sample(attn: Attn, axes):
    args = batched(PRIMALS, axes)
    assert_same(torch.vmap(grad(attn), axes)(*args), loop(grad(attn_composite), axes, args))


@implementations
@pytest.mark.parametrize("axes", axis_combinations(COTANGENTS))
@pytest.mark.parametrize("primal_axes", [(None, None, None), (0, None, -1), (None, 0, None), (None, None, 0)], ids=str)
def test_vjp(attn: Attn, primal_axes, axes):
    axes, names = (*primal_axes, *axes), (*PRIMALS, *COTANGENTS)
    args = batched(names, axes)
    assert_same(torch.vmap(vjp(attn), axes)(*args), loop(vjp(attn_composite), axes, args))


@implementations
@pytest.mark.parametrize("axes", axis_combinations(PRIMALS))
@pytest.mark.parametrize("tangents", ["batched_alike", "batched_otherwise"])
def test_jvp(attn: Attn, tangents, axes):
    """A tangent has the batch axis of its primal, or exactly where its primal has none."""
    tangent_axes = axes if tangents == "batched_alike" else tuple(0 if axis is None else None for axis in axes)
    axes, names = (*axes, *tangent_axes), (*PRIMALS, *TANGENTS)
    args = batched(names, axes)
    assert_same(torch.vmap(jvp(attn), axes)(*args), loop(jvp(attn_composite), axes, args))


@implementations
@pytest.mark.parametrize("name", PRIMALS)
def test_jvp_in_one_argument(attn: Attn, name):
    """The other two have no tangent; that of attn along v is zero in every sample."""
    q, k, v = draw(PRIMALS)

    def along(attn):
        def jvp(x, x_dot):
            return torch.func.jvp(lambda x: attn(*({"q": q, "k": k, "v": v} | {name: x}).values()), (x,), (x_dot,))[1]

        return jvp

    axes = (None, 0)
    args = batched((name, name), axes)
    assert_same(torch.vmap(along(attn), axes)(*args), loop(along(attn_composite), axes, args), zeros=name == "v")


@implementations
@pytest.mark.parametrize("used", subsets(OUTPUTS))
def test_gradients_of_one_output(attn: Attn, used):
    """The other output has no cotangent in any sample."""

    def grad_of_used(attn):
        def scalar(*primals):
            return sum(y.sin().sum() for y in only(used, OUTPUTS, attn(*primals)) if y is not None)

        return torch.func.grad(scalar, argnums=ALL)

    axes = (0, None, None)
    args = batched(PRIMALS, axes)
    actual = torch.vmap(grad_of_used(attn), axes)(*args)
    assert_same(actual, loop(grad_of_used(attn_composite), axes, args), zeros=used == ("attn",))


@implementations
@pytest.mark.parametrize("axes", [(0, 0, 0), (0, None, -1), (None, None, 0)], ids=str)
def test_hessians_per_sample(attn: Attn, axes):
    def hessian(attn):
        blocks = torch.func.hessian(loss(attn), argnums=ALL)
        return lambda *primals: tuple(block for row in blocks(*primals) for block in row)

    args = batched(PRIMALS, axes)
    assert_same(torch.vmap(hessian(attn), axes)(*args), loop(hessian(attn_composite), axes, args))


@implementations
@pytest.mark.parametrize("transform", [lambda attn: attn, grad], ids=["values", "gradients"])
def test_nested(attn: Attn, transform):
    """Two batch axes: q has both, k the outer, v the inner one."""
    outer, inner = (0, 1, None), (0, None, -1)
    q = draw(["q"], batch=(BATCH, BATCH))[0]
    _, k, v = batched(PRIMALS, (None, 1, -1))
    actual = torch.vmap(torch.vmap(transform(attn), inner), outer)(q, k, v)
    expected = loop(lambda *args: loop(transform(attn_composite), inner, args), outer, (q, k, v))
    assert_same(actual, expected)


@implementations
@pytest.mark.parametrize("axes", [(0, -1, 0), (0, None, None), (None, 0, None), (None, None, 0)], ids=str)
def test_autograd_outside(attn: Attn, axes):
    """First and second order of `torch.autograd` through a vmapped call; an input without batch axis sums over it."""
    args = [x.detach().requires_grad_() for x in batched(PRIMALS, axes)]
    directions = [torch.cos(x.detach()) for x in args]

    def both_orders(outputs):
        cotangents = [torch.sin(3 * y.detach() + 1) for y in outputs]
        grads = pull(outputs, args, cotangents, create_graph=True)
        return grads, pull(grads, args, directions)

    assert_same(both_orders(torch.vmap(attn, axes)(*args)), both_orders(loop(attn_composite, axes, args)))


@implementations
def test_autograd_outside_of_nested(attn: Attn):
    """q has the inner batch axis alone, v the outer one alone."""
    inner, outer = (0, None, None), (None, None, 0)
    args = [x.requires_grad_() for x in batched(PRIMALS, (0, None, 0))]

    def first_order(outputs):
        return pull(outputs, args, [torch.sin(3 * y.detach() + 1) for y in outputs])

    expected = loop(lambda *xs: loop(attn_composite, inner, xs), outer, args)
    assert_same(first_order(torch.vmap(torch.vmap(attn, inner), outer)(*args)), first_order(expected))


@implementations
@pytest.mark.parametrize("axes", [(0, -1, 0), (None, None, 0)], ids=str)
def test_forward_mode_outside(attn: Attn, axes):
    args, tangents = batched(PRIMALS, axes), [torch.cos(x) for x in batched(PRIMALS, axes)]

    def compute(function):
        with dual_level():
            return [unpack_dual(y).tangent for y in function(*map(make_dual, args, tangents))]

    actual, expected = compute(torch.vmap(attn, axes)), compute(lambda *xs: loop(attn_composite, axes, xs))
    assert_same(actual, expected)


@implementations
@pytest.mark.parametrize("create_graph", [False, True], ids=["first_order", "create_graph"])
@pytest.mark.parametrize("defined", subsets(COTANGENTS))
def test_is_grads_batched(attn: Attn, defined, create_graph):
    primals = draw(PRIMALS, requires_grad=PRIMALS)
    cotangents = only(defined, COTANGENTS, draw(COTANGENTS, batch=(BATCH,), seed=1))
    actual = pull(attn(*primals), primals, cotangents, is_grads_batched=True, create_graph=create_graph)

    outputs = attn_composite(*primals)
    samples = [
        zeros_for_none(
            pull(outputs, primals, [x if x is None else x[i] for x in cotangents], retain_graph=True), primals
        )
        for i in range(BATCH)
    ]
    expected = [torch.stack(grads) for grads in zip(*samples, strict=True)]
    assert_same(zeros_for_none(actual, expected), expected, zeros="output_bar" not in defined)


@implementations
@pytest.mark.parametrize("mapped", subsets(COTANGENTS))
def test_vmap_over_cotangents_of_autograd(attn: Attn, mapped):
    """The backward sees a batched cotangent, and saved tensors that have no batch axis."""
    primals = draw(PRIMALS, requires_grad=PRIMALS)
    axes = tuple(0 if name in mapped else None for name in COTANGENTS)
    cotangents = batched(COTANGENTS, axes)

    def vjp(attn):
        outputs = attn(*primals)
        return lambda *cotangents: torch.autograd.grad(outputs, primals, cotangents, retain_graph=True)

    assert_same(torch.vmap(vjp(attn), axes)(*cotangents), loop(vjp(attn_composite), axes, cotangents))


def mapped_loss(function):
    return lambda *args: sum((y.sin() * torch.linspace(0.5, 1.5, y.numel()).view_as(y)).sum() for y in function(*args))


@implementations
@pytest.mark.parametrize("axes", [(0, -1, 0), (None, 1, None), (None, None, 0)], ids=str)
def test_func_outside(attn: Attn, axes):
    """torch.func's grad, jvp and hessian of a vmapped call."""
    args = batched(PRIMALS, axes)
    tangents = tuple(torch.cos(x) for x in args)

    def compute(function):
        return (
            torch.func.grad(mapped_loss(function), argnums=ALL)(*args),
            torch.func.jvp(function, tuple(args), tangents),
            torch.func.hessian(mapped_loss(function), argnums=ALL)(*args),
        )

    assert_same(compute(torch.vmap(attn, axes)), compute(lambda *xs: loop(attn_composite, axes, xs)))


@implementations
@pytest.mark.parametrize("out_dims", [0, 1, -1, (2, 0)], ids=str)
def test_out_dims(attn: Attn, out_dims):
    axes = (0, None, -1)
    args = batched(PRIMALS, axes)
    places = out_dims if isinstance(out_dims, tuple) else (out_dims, out_dims)
    expected = tuple(y.movedim(0, at) for y, at in zip(loop(attn_composite, axes, args), places, strict=True))
    assert_same(torch.vmap(attn, axes, out_dims)(*args), expected)


@implementations
def test_chunks(attn: Attn):
    args = batched(PRIMALS, (0, 0, 0))
    assert_same(torch.vmap(attn, chunk_size=2)(*args), loop(attn_composite, (0, 0, 0), args))


@implementations
def test_empty_batch(attn: Attn):
    outputs = torch.vmap(attn)(*(x[:0] for x in batched(PRIMALS, (0, 0, 0))))
    assert [tuple(y.shape) for y in outputs] == [(0, 3, 5), (0, 3, 4)]
