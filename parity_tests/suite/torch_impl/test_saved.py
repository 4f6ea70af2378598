"""What waits for the backward: inputs and outputs only. A saved intermediate makes second order silently wrong."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

import torch_impl
from parity_tests.suite.torch_impl._common import (
    COTANGENTS,
    OUTPUTS,
    PRIMALS,
    Attn,
    assert_same,
    draw,
    explicit_formulas,
    only,
    pull,
    subsets_of,
    zeros_for_none,
)


def owners(tensors, named):
    """For each tensor the name of the one whose memory it is, `None` for memory that is nobody's."""
    names = {x.untyped_storage().data_ptr(): name for name, x in named.items()}
    return [names.get(x.untyped_storage().data_ptr()) for x in tensors]


@explicit_formulas
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=["float64", "complex128"])
def test_only_inputs_and_outputs_are_saved(attn: Attn, dtype):
    primals = draw(PRIMALS, dtype=dtype, requires_grad=PRIMALS)
    packed = []
    with saved_tensors_hooks(lambda x: packed.append(x) or x, lambda x: x):
        outputs = attn(*primals)
    named = dict(zip((*PRIMALS, *OUTPUTS), (*primals, *outputs), strict=True))
    assert set(owners(packed, named)) == {"q", "k", "v", "attn"}


def test_function_saves_each_once_and_nothing_on_the_side():
    primals = draw(PRIMALS, requires_grad=PRIMALS)
    output, attn = torch_impl.attn_function(*primals)
    node = output.grad_fn
    named = dict(zip((*PRIMALS, *OUTPUTS), (*primals, output, attn), strict=True))
    assert owners(node.saved_tensors, named) == ["q", "k", "v", "attn"]
    assert vars(node) == {}  # an attribute of ctx escapes hooks, version counters and double backward


@explicit_formulas
def test_modified_before_backward_raises(attn: Attn):
    for modified in ("q", "k", "v", "attn"):
        primals = draw(PRIMALS, requires_grad=PRIMALS)
        outputs = attn(*primals)
        named = dict(zip((*PRIMALS, *OUTPUTS), (*primals, *outputs), strict=True))
        with torch.no_grad():
            named[modified].add_(1)
        with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
            pull(outputs, primals, draw(COTANGENTS))


@explicit_formulas
def test_output_may_be_modified(attn: Attn):
    """output is no part of any formula, so a caller may reuse its memory."""
    primals = draw(PRIMALS, requires_grad=PRIMALS)
    expected = pull(attn(*primals), primals, draw(COTANGENTS))
    outputs = attn(*primals)
    with torch.no_grad():
        outputs[0].add_(1)
    assert_same(pull(outputs, primals, draw(COTANGENTS)), expected, atol=0)


@pytest.mark.slow
@explicit_formulas
def test_nothing_outlives_the_outputs(attn: Attn):
    """No reference cycle: the memory is free when the outputs are dropped, not when the collector comes by."""
    gc.collect()
    gc.disable()
    try:
        outputs = attn(*draw(PRIMALS, requires_grad=PRIMALS))
        alive = [weakref.ref(x.untyped_storage()) for x in outputs]
        assert all(x() is not None for x in alive)
        del outputs
        assert [x() for x in alive] == [None, None]
    finally:
        gc.enable()


@explicit_formulas
@pytest.mark.parametrize("use_reentrant", [True, False], ids=["reentrant", "non_reentrant"])
def test_checkpoint(attn: Attn, use_reentrant, subtests):
    for defined in subsets_of(COTANGENTS):
        cotangents = only(defined, COTANGENTS, draw(COTANGENTS, seed=1))
        primals = draw(PRIMALS, requires_grad=PRIMALS)
        expected = pull(attn(*primals), primals, cotangents)
        outputs = checkpoint(attn, *primals, use_reentrant=use_reentrant)
        used = [(y, y_bar) for y, y_bar in zip(outputs, cotangents, strict=True) if y_bar is not None]
        torch.autograd.backward(*zip(*used, strict=True))  # reentrant checkpointing refuses torch.autograd.grad
        grads, expected = (zeros_for_none(xs, primals) for xs in ([x.grad for x in primals], expected))
        with subtests.test(defined=defined):
            assert_same(grads, expected, zeros="output_bar" not in defined)


@explicit_formulas
def test_checkpoint_twice_differentiated(attn: Attn):
    cotangents, directions = draw(COTANGENTS, seed=1), draw(PRIMALS, seed=2)
    primals = draw(PRIMALS, requires_grad=PRIMALS)

    def second_order(outputs):
        return pull(pull(outputs, primals, cotangents, create_graph=True), primals, directions)

    assert_same(second_order(checkpoint(attn, *primals, use_reentrant=False)), second_order(attn(*primals)))


@explicit_formulas
def test_saved_on_cpu(attn: Attn):
    cotangents, directions = draw(COTANGENTS, seed=1), draw(PRIMALS, seed=2)
    primals = draw(PRIMALS, requires_grad=PRIMALS)
    expected = pull(attn(*primals), primals, cotangents, create_graph=True)
    with save_on_cpu():
        outputs = attn(*primals)
        grads = pull(outputs, primals, cotangents, create_graph=True)
    assert_same(grads, expected)
    assert_same(pull(grads, primals, directions), pull(expected, primals, directions))
