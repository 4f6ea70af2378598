"""All axes empty, and all of equal size: values, gradients, double backward and jvp."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from parity_tests.suite.torch_impl._common import (
    COTANGENTS,
    PRIMALS,
    TANGENTS,
    Attn,
    assert_same,
    draw,
    explicit_formulas,
    pull,
    shape_of,
)

# One axis at a time is in the samples of every check; here all at once.
sizes = pytest.mark.parametrize(
    "sizes",
    [
        pytest.param((0, 0, 0, 0), id="all=0"),
        pytest.param((3, 3, 3, 3), id="all=3"),  # here no wrong transpose is an error of shapes
    ],
)


def formulas(q, k, v, output_bar, attn_bar, q_dot, k_dot, v_dot):
    """Values, gradients and jvp in NumPy, whose sum over an empty axis is zero."""
    A = np.tanh(np.einsum("nd,md->nm", q, k))
    D = (1 - A) * (1 + A)
    P = D * (attn_bar + np.einsum("ne,me->nm", output_bar, v))
    A_dot = D * (np.einsum("nd,md->nm", q_dot, k) + np.einsum("nd,md->nm", q, k_dot))
    return (
        (np.einsum("nm,me->ne", A, v), A),
        (np.einsum("nm,md->nd", P, k), np.einsum("nm,nd->md", P, q), np.einsum("nm,ne->me", A, output_bar)),
        (np.einsum("nm,me->ne", A_dot, v) + np.einsum("nm,me->ne", A, v_dot), A_dot),
    )


@explicit_formulas
@sizes
def test_first_order(attn: Attn, sizes):
    primals = draw(PRIMALS, sizes, requires_grad=PRIMALS)
    cotangents, tangents = draw(COTANGENTS, sizes, seed=1), draw(TANGENTS, sizes, seed=2)
    values = attn(*primals)
    grads = pull(values, primals, cotangents)
    _, derivatives = torch.func.jvp(attn, tuple(x.detach() for x in primals), tuple(tangents))

    expected = formulas(*(x.detach().numpy() for x in (*primals, *cotangents, *tangents)))
    for actual, arrays in zip((values, grads, derivatives), expected, strict=True):
        # An empty axis makes whole results zero: the sum of no terms.
        assert_same(actual, tuple(map(torch.from_numpy, arrays)), zeros=0 in sizes)


@explicit_formulas
@sizes
def test_double_backward(attn: Attn, sizes):
    """Against a central difference of the gradients; all of them have the right shape, empty ones included."""
    names = (*PRIMALS, *COTANGENTS)
    args, directions = draw(names, sizes, requires_grad=names), draw(PRIMALS, sizes, seed=2)

    def grads(*args, **options):
        primals, cotangents = args[:3], args[3:]
        return pull(attn(*primals), primals, cotangents, **options)

    seconds = pull(grads(*args, create_graph=True), args, directions)
    assert [tuple(x.shape) for x in seconds] == [shape_of(name, sizes) for name in names]

    # ⟨seconds, step⟩ is the derivative of ⟨grads, directions⟩ along step.
    steps = [1e-4 * x for x in draw(names, sizes, seed=3)]

    def along(sign):
        moved = [(x.detach() + sign * y).requires_grad_() for x, y in zip(args, steps, strict=True)]
        return sum((x * y).sum() for x, y in zip(grads(*moved), directions, strict=True))

    derivative = sum((x * y).sum() for x, y in zip(seconds, steps, strict=True))
    torch.testing.assert_close(derivative * 1e4, (along(1) - along(-1)) / 2e-4, rtol=1e-6, atol=1e-6)


@explicit_formulas
def test_meta_device(attn: Attn):
    """Shapes without data."""
    primals = [x.to("meta").requires_grad_() for x in draw(PRIMALS)]
    outputs = attn(*primals)
    assert [tuple(y.shape) for y in outputs] == [shape_of(name) for name in ("output", "attn")]
    grads = pull(outputs, primals, [torch.ones_like(y) for y in outputs])
    assert [tuple(x.shape) for x in grads] == [shape_of(name) for name in PRIMALS]
