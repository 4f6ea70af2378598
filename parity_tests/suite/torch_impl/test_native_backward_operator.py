"""`gradparity::attn_backward` by itself: all cotangents, masks and derivatives, against autograd of a composition.

Here attn is an input like the others and not tanh(q kᵀ), so that each formula is seen without the one around it.
"""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual

from parity_tests.suite.marks import fast
from parity_tests.suite.rotation import rotating
from parity_tests.suite.torch_impl._common import (
    COTANGENTS,
    PRIMALS,
    assert_same,
    draw,
    only,
    pull,
    subsets,
    zeros_for_none,
)

pytestmark = [pytest.mark.usefixtures("attn"), pytest.mark.parametrize("attn", ["native"], indirect=True)]

ARGUMENTS = (*COTANGENTS, *PRIMALS, "attn")
ALL = [True, True, True]

dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=["float64", "complex128"])
cotangents = pytest.mark.parametrize("defined", subsets(COTANGENTS))
masks = pytest.mark.parametrize("mask", [list(m) for m in itertools.product([False, True], repeat=3)], ids=str)


def operator(*arguments: Tensor | None, mask=ALL) -> tuple[Tensor | None, ...]:
    return torch.ops.gradparity.attn_backward(*arguments, mask)


def composition(
    output_bar: Tensor | None, attn_bar: Tensor | None, q: Tensor, k: Tensor, v: Tensor, attn: Tensor, mask=ALL
) -> tuple[Tensor | None, ...]:
    """(8) to (12) in PyTorch's convention for complex, with zeros for what is absent."""
    output_bar = q.new_zeros(q.shape[0], v.shape[1]) if output_bar is None else output_bar
    attn_bar = torch.zeros_like(attn) if attn_bar is None else attn_bar
    P = (attn_bar + output_bar @ v.mH) * (1 - attn * attn).conj()
    grads = P @ k.conj(), P.mT @ q.conj(), attn.mH @ output_bar
    return tuple(x if m else None for x, m in zip(grads, mask, strict=True))


def draw_arguments(defined, *, seed: int = 0, **options) -> list[Tensor | None]:
    return only({*defined, *PRIMALS, "attn"}, ARGUMENTS, draw(ARGUMENTS, seed=seed, **options))


@rotating(3)
@fast("*-float64-*")
@dtypes
@masks
@pytest.mark.parametrize("defined", subsets(COTANGENTS, empty=True))
def test_values(defined, mask, dtype):
    """`None` exactly where the mask does not ask or nothing flows, and nowhere zeros in its place."""
    arguments = draw_arguments(defined, dtype=dtype)
    flows = [bool(defined), bool(defined), "output_bar" in defined]
    actual = operator(*arguments, mask=mask)
    assert [x is not None for x in actual] == [m and f for m, f in zip(mask, flows, strict=True)]
    if any(x is not None for x in actual):
        expected = composition(*arguments, mask=[x is not None for x in actual])
        assert_same(actual, expected)


@rotating(3)
@fast("*-float64-*")
@dtypes
@cotangents
@pytest.mark.parametrize("given", subsets(PRIMALS))
def test_every_gradient(given, defined, dtype):
    """For each subset of the results that has a cotangent, the gradients of each subset of the arguments."""
    names = [name for name in ARGUMENTS if name in defined or name not in COTANGENTS]
    directions = only(given, PRIMALS, draw(PRIMALS, dtype=dtype, seed=2))

    def gradients(function, wanted):
        arguments = draw_arguments(defined, dtype=dtype, requires_grad=wanted)
        pairs = [(y, y_bar) for y, y_bar in zip(function(*arguments), directions, strict=True) if y is not None]
        inputs = [x for name, x in zip(ARGUMENTS, arguments, strict=True) if name in wanted]
        return zeros_for_none(pull([y for y, _ in pairs], inputs, [y_bar for _, y_bar in pairs]), inputs)

    for r in range(1, len(names) + 1):
        for wanted in itertools.combinations(names, r):
            # v_bar depends on attn and output_bar only, the other two not on v where output_bar is absent, and so on.
            assert_same(gradients(operator, wanted), gradients(composition, wanted), zeros=True)


@rotating(3)
@fast("*-float64-*")
@dtypes
@cotangents
@masks
def test_every_tangent(mask, defined, dtype):
    """For each mask, the tangents of the results along each subset of the arguments."""
    names = [name for name in ARGUMENTS if name in defined or name not in COTANGENTS]
    arguments = draw_arguments(defined, dtype=dtype)
    directions = dict(zip(ARGUMENTS, draw(ARGUMENTS, dtype=dtype, seed=2), strict=True))

    def tangents(function, along):
        with dual_level():
            duals = [
                make_dual(x, directions[name]) if name in along else x
                for name, x in zip(ARGUMENTS, arguments, strict=True)
            ]
            return [x if x is None else unpack_dual(x).tangent for x in function(*duals, mask=mask)]

    for r in range(1, len(names) + 1):
        for along in itertools.combinations(names, r):
            actual, expected = tangents(operator, along), tangents(composition, along)
            shapes = draw(PRIMALS, dtype=dtype)
            assert_same(zeros_for_none(actual, shapes), zeros_for_none(expected, shapes), zeros=True)


@cotangents
def test_tangents_are_not_all_zero(defined):
    """What the tests above compare is evidence: along everything at once no tangent and no gradient vanishes."""
    arguments = draw_arguments(defined)
    with dual_level():
        duals = [x if x is None else make_dual(x, torch.cos(x)) for x in arguments]
        results = operator(*duals)
        assert all(bool(unpack_dual(x).tangent.any()) for x in results if x is not None)


@fast("*-float64-*")
@dtypes
@cotangents
def test_gradcheck(defined, dtype):
    """First and second derivative of the backward, that is second and third of attn, in every mode."""
    sizes = (2, 3, 4, 1)
    drawn = dict(zip(ARGUMENTS, draw(ARGUMENTS, sizes, dtype=dtype, requires_grad=ARGUMENTS), strict=True))
    names = [name for name in ARGUMENTS if name in defined or name not in COTANGENTS]

    def function(*given):
        arguments = dict.fromkeys(ARGUMENTS) | dict(zip(names, given, strict=True))
        return tuple(x for x in operator(*arguments.values()) if x is not None)

    inputs = [drawn[name] for name in names]
    with torch.random.fork_rng(devices=[]):  # gradcheck draws directions from torch's global generator
        torch.manual_seed(0)
        assert gradcheck(
            function,
            inputs,
            check_batched_grad=True,
            check_forward_ad=True,
            check_batched_forward_grad=True,
            fast_mode=True,
        )
        assert gradgradcheck(
            function, inputs, check_batched_grad=True, check_fwd_over_rev=True, check_rev_over_rev=True, fast_mode=True
        )


AXES = [(0, None), (None, 0), (1, -1), (0, 2), (None, None)]


@dtypes
@pytest.mark.parametrize("primal_axis", [0, None], ids=["batched_primals", "shared_primals"])
@pytest.mark.parametrize("axes", AXES, ids=str)
def test_vmap(axes, primal_axis, dtype):
    """Cotangents with and without a batch axis, and with different ones."""
    in_dims = (*axes, primal_axis, None, primal_axis, primal_axis)
    if set(in_dims) == {None}:
        in_dims = (*axes, None, 0, None, None)
    arguments = [
        draw([name], dtype=dtype, seed=i)[0]
        if axis is None
        else draw([name], dtype=dtype, batch=(2,), seed=i)[0].movedim(0, axis)
        for i, (name, axis) in enumerate(zip(ARGUMENTS, in_dims, strict=True))
    ]
    before = torch._C._functorch._is_vmap_fallback_enabled()
    torch._C._functorch._set_vmap_fallback_enabled(False)
    try:
        actual = torch.vmap(operator, in_dims)(*arguments)
    finally:
        torch._C._functorch._set_vmap_fallback_enabled(before)
    samples = [
        composition(*(x if a is None else x.select(a, i) for x, a in zip(arguments, in_dims, strict=True)))
        for i in range(2)
    ]
    assert_same(actual, tuple(map(torch.stack, zip(*samples, strict=True))))


@pytest.mark.parametrize("zero", subsets(COTANGENTS))
@pytest.mark.parametrize("mapped", [False, True], ids=["plain", "vmap"])
def test_efficient_zeros(mapped, zero):
    """Autograd's zeros without memory: as zeros, in value."""
    arguments = draw_arguments(COTANGENTS)
    zeros = [
        torch._C._VariableFunctions._efficientzerotensor(tuple(x.shape), dtype=x.dtype) if name in zero else x
        for name, x in zip(ARGUMENTS, arguments, strict=True)
    ]
    expected = composition(*(torch.zeros_like(x) if x._is_zerotensor() else x for x in zeros))
    if mapped:  # k alone has a batch axis
        actual = torch.vmap(
            lambda k: tuple(
                x if x is not None else torch.zeros_like(y)
                for x, y in zip(operator(*zeros[:3], k, *zeros[4:]), expected, strict=True)
            )
        )(torch.stack([zeros[3]]))
        actual = [x[0] for x in actual]
    else:
        actual = zeros_for_none(operator(*zeros), expected)
    assert_same(actual, list(expected), zeros="output_bar" in zero)


@masks
def test_node(mask):
    """The second order has a node of its own, and keeps the cotangents as they came."""
    arguments = draw_arguments(["output_bar"], requires_grad=["v"])
    results = operator(*arguments, mask=mask)
    if any(mask):
        (node,) = {x.grad_fn for x in results if x is not None}
        assert node.name() == type(node).__name__ == "AttnBackwardBackward0"
        assert torch.equal(node._saved_output_bar, arguments[0])
        assert node._saved_attn_bar is None
