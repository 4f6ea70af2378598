"""Memory beside the arguments, in n*m matrices: attn itself and one more, P, is all that the formulas need at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from parity_tests.suite.torch_impl._common import COTANGENTS, PRIMALS, Attn, draw, only, pull, shape_of, subsets
from torch_impl import attn_composite, attn_function

SIZES = (1024, 16, 1024, 16)  # n and m so large that all other matrices together are 1/16 of an n*m one
ATTN_AND_P = 2.1


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of the storages that operations allocate, for as long as each is alive: exact, not sampled."""

    def __init__(self) -> None:
        super().__init__()
        self.storages: dict[int, tuple[StorageWeakRef, int]] = {}
        self.peak = 0

    @property
    def now(self) -> int:
        self.storages = {key: (ref, size) for key, (ref, size) in self.storages.items() if not ref.expired()}
        return sum(size for _, size in self.storages.values())

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        given = {x.untyped_storage()._cdata for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)}
        result = func(*args, **kwargs)
        for x in tree_leaves(result):
            if isinstance(x, Tensor) and (storage := x.untyped_storage())._cdata not in given:
                self.storages[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        self.peak = max(self.peak, self.now)
        return result


def matrices(size: int) -> float:
    n, m = shape_of("attn", SIZES)
    return size / (n * m * torch.float32.itemsize)


def peak_of_forward_and_backward(attn: Attn, defined) -> float:
    primals = draw(PRIMALS, SIZES, dtype=torch.float32, requires_grad=PRIMALS)
    cotangents = only(defined, COTANGENTS, draw(COTANGENTS, SIZES, dtype=torch.float32, seed=1))
    with LiveBytes() as live:
        pull(attn(*primals), primals, cotangents)
    return matrices(live.peak)


def peak_of_forward(attn: Attn) -> float:
    primals = draw(PRIMALS, SIZES, dtype=torch.float32, requires_grad=PRIMALS)
    with LiveBytes() as live:
        attn(*primals)
    return matrices(live.peak)


@pytest.mark.parametrize("defined", subsets(COTANGENTS))
def test_forward_and_backward(defined):
    assert peak_of_forward_and_backward(attn_function, defined) <= ATTN_AND_P


def test_forward():
    """S is overwritten by attn."""
    assert peak_of_forward(attn_function) <= 1.1


def test_kept_for_the_backward():
    """With the outputs dropped but one, no more than attn and that one is alive."""
    primals = draw(PRIMALS, SIZES, dtype=torch.float32, requires_grad=PRIMALS)
    with LiveBytes() as live:
        output = attn_function(*primals)[0]
        assert 1 <= matrices(live.now) <= 1.1
        del output
        assert live.now == 0


def test_meter_would_notice_the_composite():
    """It keeps S beside attn in the forward, and G beside P in the backward."""
    assert peak_of_forward(attn_composite) >= 2
    assert peak_of_forward_and_backward(attn_composite, COTANGENTS) >= 3
    assert peak_of_forward_and_backward(attn_composite, ["output_bar"]) >= 3


@pytest.mark.parametrize(
    ("compute", "peak"),
    [
        pytest.param(lambda x: x.add(1).mul_(2).t(), 1, id="in_place_and_views_are_free"),
        pytest.param(lambda x: x.add(1).mul(2), 2, id="temporary"),
        pytest.param(lambda x: [x.add(1) for _ in range(3)], 3, id="three_kept"),
        pytest.param(lambda x: x.add(1).mul(2).mul(3), 2, id="freed_before_the_next"),
    ],
)
def test_meter_counts(compute: Callable[[Tensor], object], peak: int):
    x = torch.ones(8, 4, dtype=torch.float64)
    with LiveBytes() as live:
        compute(x)
    assert live.peak == peak * 8 * 4 * torch.float64.itemsize
    assert live.now == 0
