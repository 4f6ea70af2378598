"""The same C++ on a GPU: every order and vmap there, against the plain composite on the CPU, both in float64."""

from __future__ import annotations

import pytest
import torch

from parity_tests.suite.torch_impl._common import (
    COTANGENTS,
    PRIMALS,
    TANGENTS,
    Attn,
    assert_same,
    draw,
    native_implementations,
    only,
    pull,
    subsets,
    zeros_for_none,
)
from torch_impl import attn_composite

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
    native_implementations,
]


def on(device: str, names, **options):
    requires_grad = options.pop("requires_grad", False)
    return [x.to(device).requires_grad_(requires_grad) for x in draw(names, **options)]


def orders(attn, device, defined):
    """Values, gradients, double backward, tangents."""
    primals, directions = on(device, PRIMALS, requires_grad=True), on(device, PRIMALS, seed=2)
    cotangents = only(defined, COTANGENTS, on(device, COTANGENTS, seed=1))
    outputs = attn(*primals)
    grads = zeros_for_none(pull(outputs, primals, cotangents, create_graph=True), primals)
    seconds = zeros_for_none(pull(grads, primals, directions), primals)
    jvp = torch.func.jvp(attn, tuple(on(device, PRIMALS)), tuple(on(device, TANGENTS, seed=3)))
    return [*outputs, *grads, *seconds, *jvp[1]]


@pytest.mark.parametrize("defined", subsets(COTANGENTS))
def test_every_order(attn: Attn, defined):
    actual = orders(attn, "cuda", defined)
    assert all(x.is_cuda for x in actual)
    assert_same([x.cpu() for x in actual], orders(attn_composite, "cpu", defined), zeros=True)


def test_vmap(attn: Attn):
    axes = (0, None, -1)
    q, k, v = on("cpu", ["q"], batch=(3,)) + on("cpu", ["k"]) + [x.movedim(0, -1) for x in on("cpu", ["v"], batch=(3,))]
    actual = torch.vmap(attn, axes)(q.cuda(), k.cuda(), v.cuda())
    assert_same([x.cpu() for x in actual], list(torch.vmap(attn_composite, axes)(q, k, v)))


def test_stream(attn: Attn):
    """Work goes to the current stream, and the backward's to that of its forward."""
    primals, stream = on("cuda", PRIMALS, requires_grad=True), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        outputs = attn(*primals)
        grads = pull(outputs, primals, on("cuda", COTANGENTS, seed=1))
    torch.cuda.current_stream().wait_stream(stream)
    cpu = on("cpu", PRIMALS, requires_grad=True)
    expected = pull(attn_composite(*cpu), cpu, on("cpu", COTANGENTS, seed=1))
    assert_same([x.cpu() for x in grads], list(expected))


def test_two_devices_are_refused(attn: Attn):
    q, k, v = on("cuda", PRIMALS)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        attn(q, k.cpu(), v)
