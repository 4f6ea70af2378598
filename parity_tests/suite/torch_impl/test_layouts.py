"""Where the check "layouts" does not look: with a cotangent absent, to second order, and the bits of what is read."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from parity_tests.suite.torch_impl._common import (
    COTANGENTS,
    PRIMALS,
    Attn,
    assert_same,
    draw,
    explicit_formulas,
    only,
    pull,
    subsets_of,
)


def sliced(x: Tensor) -> Tensor:
    """Every second row and column of a larger tensor."""
    larger = x.new_full((2 * x.shape[0] + 1, 2 * x.shape[1] + 1), 7.0)
    larger[1::2, 1::2] = x
    return larger[1::2, 1::2]


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": torch.clone,
    "transposed": lambda x: x.mT.contiguous().mT,
    "sliced": sliced,
    "flipped": lambda x: x.flip(0).flip(0).mT.flip(0).contiguous().flip(0).mT,
    "expanded_rows": lambda x: x[:1].clone().expand_as(x),
    "expanded_columns": lambda x: x[:, :1].clone().expand_as(x),
    "expanded_scalar": lambda x: x[:1, :1].clone().expand_as(x),
    "conjugated": lambda x: x.conj().resolve_conj().conj(),
    "negated": lambda x: torch._C._VariableFunctions._neg_view(-x),
}

CASES = [
    (name, dtype)
    for name in LAYOUTS
    for dtype in (torch.float64, torch.complex128)
    if dtype.is_complex or name != "conjugated"
]


class Untouched:
    """Asserts on exit that the tensors have the bits and the version counters that they had on entry."""

    def __init__(self, *tensors: Tensor | None) -> None:
        self.tensors = [x for x in tensors if x is not None]

    def __enter__(self) -> None:
        # The whole storage: what lies between the entries of a slice, and the one entry behind an expanded tensor.
        self.before = [(x._version, bytes(x.untyped_storage())) for x in self.tensors]

    def __exit__(self, *exception) -> None:
        if exception == (None, None, None):
            assert [(x._version, bytes(x.untyped_storage())) for x in self.tensors] == self.before


def laid_out(names, layout, **options) -> list[Tensor]:
    return [LAYOUTS[layout](x) for x in draw(names, **options)]


def contiguous(x: Tensor) -> Tensor:
    return x.clone(memory_format=torch.contiguous_format)


def test_untouched_would_notice():
    x = sliced(torch.ones(2, 2))
    with pytest.raises(AssertionError), Untouched(x):
        x.mul_(2)
    with pytest.raises(AssertionError), Untouched(x):
        x.data.mul_(2)  # leaves the version counter alone
    with pytest.raises(AssertionError), Untouched(x):
        x.mul_(1)  # leaves the bits alone


@pytest.mark.slow
@explicit_formulas
@pytest.mark.parametrize("create_graph", [False, True], ids=["first_order", "create_graph"])
def test_backward(attn: Attn, create_graph, subtests):
    for (layout, dtype), defined in itertools.product(CASES, subsets_of(COTANGENTS)):
        primals = [x.requires_grad_() for x in laid_out(PRIMALS, layout, dtype=dtype)]
        cotangents = only(defined, COTANGENTS, laid_out(COTANGENTS, layout, dtype=dtype, seed=1))
        with subtests.test(layout=layout, dtype=dtype, defined=defined):
            with Untouched(*primals, *cotangents):
                outputs = attn(*primals)
                with Untouched(*outputs):
                    grads = pull(outputs, primals, cotangents, create_graph=create_graph)

            same_primals = [contiguous(x.detach()).requires_grad_() for x in primals]
            same_cotangents = [x if x is None else contiguous(x) for x in cotangents]
            same_outputs = attn(*same_primals)
            expected = pull(same_outputs, same_primals, same_cotangents, create_graph=create_graph)
            assert_same(outputs, same_outputs)
            assert_same(grads, expected, zeros=True)


@pytest.mark.slow
@explicit_formulas
def test_double_backward(attn: Attn, subtests):
    """Arguments, cotangents and the directions of the second order, all of one layout."""

    def both_orders(groups):
        primals, cotangents, directions = groups
        for x in (*primals, *cotangents):
            x.requires_grad_()
        with Untouched(*primals, *cotangents, *directions):
            grads = pull(attn(*primals), primals, cotangents, create_graph=True)
            return grads, pull(grads, [*primals, *cotangents], directions)

    for layout, dtype in CASES:
        groups = [
            laid_out(names, layout, dtype=dtype, seed=seed)
            for names, seed in ((PRIMALS, 0), (COTANGENTS, 1), (PRIMALS, 2))
        ]
        same = [[contiguous(x) for x in xs] for xs in groups]
        with subtests.test(layout=layout, dtype=dtype):
            assert_same(both_orders(groups), both_orders(same))


@explicit_formulas
def test_vmap_over_cotangents(attn: Attn, subtests):
    """Expanded along the batch axis: the same memory for every sample."""
    for defined in subsets_of(COTANGENTS):
        primals = draw(PRIMALS, requires_grad=PRIMALS)
        cotangents = only(defined, COTANGENTS, [x.expand(3, *x.shape) for x in draw(COTANGENTS, seed=1)])
        outputs = attn(*primals)
        with subtests.test(defined=defined), Untouched(*primals, *cotangents, *outputs):
            pull(outputs, primals, cotangents, is_grads_batched=True)


@explicit_formulas
def test_gradients_own_their_memory(attn: Attn, subtests):
    """A caller may write to a gradient, as `zero_grad` and optimizers do, without changing anything else."""
    for defined in subsets_of(COTANGENTS):
        primals = draw(PRIMALS, requires_grad=PRIMALS)
        cotangents = only(defined, COTANGENTS, draw(COTANGENTS, seed=1))
        outputs = attn(*primals)
        tensors = (*primals, *outputs, *cotangents, *pull(outputs, primals, cotangents))
        owners = [x.untyped_storage().data_ptr() for x in tensors if x is not None]
        with subtests.test(defined=defined):
            assert len(set(owners)) == len(owners)
