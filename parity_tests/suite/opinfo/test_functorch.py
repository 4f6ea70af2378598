"""What functorch's test_ops.py asks: torch.func's vjp, jvp and vmap, and what they are nested in one another.

The derivatives are judged by torch.autograd's reverse mode, vmap by a loop. The slow fallback of vmap is off.
"""

# ruff: noqa: PT009 (assertEqual is PyTorch's, and compares tensors)

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import pytest
import torch
from torch import Tensor
from torch.func import grad, jvp, vjp, vmap

from parity_tests.suite.opinfo._machinery import (
    OpInfo,
    TestCase,
    directions,
    instantiate,
    ops,
    parametrize,
    pull,
    samples,
)
from parity_tests.suite.opinfo._op_db import OPS

pytestmark = pytest.mark.usefixtures("native")

DOUBLE = (torch.float64, torch.complex128)
BATCH = 3

Tensors: TypeAlias = tuple[Tensor, ...]
Function: TypeAlias = Callable[..., Tensors]


def vjp_of(f: Function, arity: int) -> Function:
    """Of the arguments of f and its cotangents."""
    return lambda *xs: vjp(f, *xs[:arity])[1](xs[arity:])


def jvp_of(f: Function, arity: int) -> Function:
    """Of the arguments of f and their tangents: values and tangents."""

    def function(*xs: Tensor) -> Tensors:
        values, tangents = jvp(f, xs[:arity], xs[arity:])
        return (*values, *tangents)

    return function


def expected_vjp_of(f: Function, arity: int) -> Function:
    def function(*xs: Tensor) -> Tensors:
        with torch.enable_grad():
            # Views, so that an argument's other uses further out stay out of it.
            args = [x.view_as(x) if x.requires_grad else x.detach().requires_grad_() for x in xs[:arity]]
            return pull(f(*args), args, xs[arity:], create_graph=True)

    return function


def expected_jvp_of(f: Function, arity: int) -> Function:
    """The vjp is linear in the cotangents; its own vjp in them is the jvp."""

    def function(*xs: Tensor) -> Tensors:
        values = f(*xs[:arity])
        zeros = [torch.zeros_like(y, requires_grad=True) for y in values]
        with torch.enable_grad():
            grads = expected_vjp_of(f, arity)(*xs[:arity], *zeros)
            return (*values, *pull(grads, zeros, xs[arity:], create_graph=True))

    return function


TRANSFORMS = {"vjp": (vjp_of, expected_vjp_of), "jvp": (jvp_of, expected_jvp_of)}
# "jvpvjp" is the jvp of the vjp.
NESTINGS = {"".join(nesting): nesting for depth in (1, 2) for nesting in itertools.product(TRANSFORMS, repeat=depth)}
nestings = parametrize("nesting", list(NESTINGS))


def nest(
    nesting: str, f: Function, args: Tensors, expected_f: Function | None = None
) -> tuple[Function, Function, Tensors]:
    """f transformed, by torch.func and as it should be, and the arguments of that: those of f and random directions."""
    actual, expected = f, expected_f or f
    for name in reversed(NESTINGS[nesting]):
        transform, expected_transform = TRANSFORMS[name]
        further = directions(expected(*args) if name == "vjp" else args)
        actual, expected = transform(actual, len(args)), expected_transform(expected, len(args))
        args = (*args, *further)
    return actual, expected, args


def axis_choices(count: int, axes: Sequence[int] = (0, -1)) -> Iterator[tuple[int | None, ...]]:
    """All choices of a batch axis or none for up to 3 arguments; for more: for one, for all but one, and for all."""
    if count <= 3:
        yield from (x for x in itertools.product((*axes, None), repeat=count) if x != (None,) * count)
        return
    axis = itertools.cycle(axes)
    for i in range(count):
        yield tuple(next(axis) if i == j else None for j in range(count))
        yield tuple(next(axis) if i != j else None for j in range(count))
    yield tuple(next(axis) for _ in range(count))


def batched(args: Tensors, in_dims: Sequence[int | None], batch: int = BATCH) -> Tensors:
    """Arguments of the same shape with a batch axis where it is asked for, otherwise as they are."""
    return tuple(
        x if axis is None else directions([x.new_empty(batch, *x.shape)])[0].div(2).movedim(0, axis)
        for x, axis in zip(args, in_dims, strict=True)
    )


def loop(f: Function, in_dims: Sequence[int | None]) -> Function:
    """What vmap means: f of each sample by itself, and its results stacked."""

    def function(*args: Tensor) -> Tensors:
        (batch,) = {x.shape[axis] for x, axis in zip(args, in_dims, strict=True) if axis is not None}
        results = [
            f(*(x if axis is None else x.select(axis, i) for x, axis in zip(args, in_dims, strict=True)))
            for i in range(batch)
        ]
        return tuple(map(torch.stack, zip(*results, strict=True)))

    return function


class TestFunctorch(TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(torch._C._functorch._set_vmap_fallback_enabled, torch._C._functorch._is_vmap_fallback_enabled())
        torch._C._functorch._set_vmap_fallback_enabled(False)

    @ops(OPS, allowed_dtypes=DOUBLE)
    def test_grad(self, device, dtype, op):
        """Of a real scalar of both results, in each subset of the arguments."""

        def scalar(*args: Tensor) -> Tensor:
            return sum(y.abs().square().sum() for y in op(*args))

        for args in samples(op, device, dtype):
            leaves = [x.detach().requires_grad_() for x in args]
            expected = torch.autograd.grad(scalar(*leaves), leaves)
            for argnums in itertools.chain.from_iterable(itertools.combinations(range(3), r) for r in (1, 2, 3)):
                self.assertEqual(grad(scalar, argnums)(*args), tuple(expected[i] for i in argnums))

    @nestings
    @ops(OPS, allowed_dtypes=DOUBLE)
    def test_derivatives(self, device, dtype, op, nesting):
        for args in samples(op, device, dtype):
            actual, expected, args = nest(nesting, op, args)
            self.assertEqual(actual(*args), expected(*args))
            strided = [x.mT.contiguous().mT for x in args]
            self.assertEqual(actual(*strided), expected(*args))

    @nestings
    @ops(OPS, allowed_dtypes=DOUBLE)
    def test_derivatives_of_expanded(self, device, dtype, op, nesting):
        """The operator's arguments have elements, and tangents, that share memory."""

        def f(*args: Tensor) -> Tensors:
            return op(*(x.expand(shape) for x, shape in zip(args, ((3, 2), (4, 2), (4, 5)), strict=True)))

        like = torch.empty((), device=device, dtype=dtype)
        args = directions([like.new_empty(shape) for shape in ((1, 2), (4, 1), (1, 1))])
        actual, expected, args = nest(nesting, f, args)
        self.assertEqual(actual(*args), expected(*args))

    @ops(OPS, allowed_dtypes=(torch.float64,))
    def test_vmap(self, device, dtype, op):
        for args in samples(op, device, dtype):
            for in_dims, batch in itertools.product(axis_choices(3), (1, BATCH)):
                self._check_vmap(op, args, in_dims, batch)

    @nestings
    @ops(OPS, allowed_dtypes=DOUBLE)
    def test_vmap_of_derivatives(self, device, dtype, op, nesting):
        for args in itertools.islice(samples(op, device, dtype), 2):
            actual, _, args = nest(nesting, op, args)
            for in_dims in axis_choices(len(args)):
                self._check_vmap(actual, args, in_dims)

    def _check_vmap(
        self, f: OpInfo | Function, args: Tensors, in_dims: Sequence[int | None], batch: int = BATCH
    ) -> None:
        args = batched(args, in_dims, batch)
        self.assertEqual(vmap(f, in_dims)(*args), loop(f, in_dims)(*args), msg=f"{in_dims=}")

    @nestings
    @ops(OPS, allowed_dtypes=DOUBLE)
    def test_derivatives_of_vmap(self, device, dtype, op, nesting):
        args = next(samples(op, device, dtype))
        for in_dims in axis_choices(len(args)):
            f, expected_f = vmap(op, in_dims), loop(op, in_dims)
            actual, expected, all_args = nest(nesting, f, batched(args, in_dims), expected_f)
            self.assertEqual(actual(*all_args), expected(*all_args), msg=f"{in_dims=}")

    @ops(OPS, allowed_dtypes=DOUBLE)
    def test_vmap_of_vmap(self, device, dtype, op):
        """Each argument has the outer batch axis, the inner, both or none."""
        args = next(samples(op, device, dtype))
        for inner, outer in itertools.product(axis_choices(3, axes=(0,)), repeat=2):
            both = batched(batched(args, inner), outer)
            expected = loop(loop(op, inner), outer)(*both)
            self.assertEqual(vmap(vmap(op, inner), outer)(*both), expected, msg=f"{inner=}, {outer=}")


instantiate(TestFunctorch, globals())
