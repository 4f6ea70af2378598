"""No state between calls: the same backward twice, calls in between, and calls in any order."""

from __future__ import annotations

import pytest

from parity_tests.suite.torch_impl._common import (
    COTANGENTS,
    PRIMALS,
    Attn,
    assert_same,
    draw,
    explicit_formulas,
    only,
    pull,
    subsets,
)
from torch_impl import attn_composite


@explicit_formulas
@pytest.mark.parametrize("defined", subsets(COTANGENTS))
def test_backward_repeats_to_the_bit(attn: Attn, defined):
    primals = draw(PRIMALS, requires_grad=PRIMALS)
    cotangents = only(defined, COTANGENTS, draw(COTANGENTS, seed=1))
    outputs = attn(*primals)
    first = pull(outputs, primals, cotangents, retain_graph=True)
    kept = [x if x is None else x.clone() for x in first]
    second = pull(outputs, primals, cotangents, retain_graph=True)
    pull(outputs, primals, draw(COTANGENTS, seed=2), create_graph=True)
    third = pull(outputs, primals, cotangents)
    assert_same(second, kept, atol=0)
    assert_same(third, kept, atol=0)
    assert_same(first, kept, atol=0)


@explicit_formulas
@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["first_in_first_out", "last_in_first_out"])
def test_interleaved_calls(attn: Attn, order):
    """Two calls of different sizes are open at once; each backward belongs to its own call."""
    calls = [
        (draw(PRIMALS, sizes, requires_grad=PRIMALS, seed=i), draw(COTANGENTS, sizes, seed=5 + i))
        for i, sizes in enumerate([(3, 2, 4, 5), (2, 5, 3, 4)])
    ]
    alone = [pull(attn(*primals), primals, cotangents) for primals, cotangents in calls]
    outputs = [attn(*primals) for primals, _ in calls]
    for i in order:
        primals, cotangents = calls[i]
        assert_same(pull(outputs[i], primals, cotangents), alone[i], atol=0)


@explicit_formulas
def test_one_tensor_as_several_arguments(attn: Attn):
    """q, k and v may be one tensor, as in self-attention; its gradient is the sum of the three."""
    (x,) = draw(["q"], requires_grad=["q"])
    cotangents = draw(COTANGENTS, (3, 2, 3, 2), seed=1)
    parts = [x.detach().clone().requires_grad_() for _ in PRIMALS]
    expected = sum(pull(attn_composite(*parts), parts, cotangents))
    assert_same(pull(attn(x, x, x), [x], cotangents), (expected,))
