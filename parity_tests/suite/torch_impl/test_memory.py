"""Memory beside the arguments, in n*m matrices: attn itself and one more, P, is all that the formulas need at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.autograd.profiler import profile

from parity_tests.suite.torch_impl._common import (
    COTANGENTS,
    PRIMALS,
    Attn,
    draw,
    explicit_formulas,
    only,
    pull,
    shape_of,
    subsets,
)
from torch_impl import attn_composite

SIZES = (1024, 16, 1024, 16)  # n and m so large that all other matrices together are 1/16 of an n*m one
ATTN_AND_P = 2.1


class Memory:
    """The bytes that PyTorch's allocator gave and took back inside: exact, not sampled, and native kernels included."""

    def __enter__(self) -> Memory:
        self._profiled = profile(profile_memory=True)
        self._profiled.__enter__()
        return self

    def __exit__(self, *exception) -> None:
        self._profiled.__exit__(*exception)
        events = [e for e in self._profiled.kineto_results.events() if e.name() == "[memory]"]
        self.peak = self.left = 0
        for event in sorted(events, key=lambda e: e.start_ns()):
            self.left += event.nbytes()
            self.peak = max(self.peak, self.left)


def matrices(size: int) -> float:
    n, m = shape_of("attn", SIZES)
    return size / (n * m * torch.float32.itemsize)


def peak_of_forward_and_backward(attn: Attn, defined) -> float:
    primals = draw(PRIMALS, SIZES, dtype=torch.float32, requires_grad=PRIMALS)
    cotangents = only(defined, COTANGENTS, draw(COTANGENTS, SIZES, dtype=torch.float32, seed=1))
    with Memory() as memory:
        pull(attn(*primals), primals, cotangents)
    return matrices(memory.peak)


def peak_of_forward(attn: Attn) -> float:
    primals = draw(PRIMALS, SIZES, dtype=torch.float32, requires_grad=PRIMALS)
    with Memory() as memory:
        attn(*primals)
    return matrices(memory.peak)


@explicit_formulas
@pytest.mark.parametrize("defined", subsets(COTANGENTS))
def test_forward_and_backward(attn: Attn, defined):
    assert peak_of_forward_and_backward(attn, defined) <= ATTN_AND_P


@explicit_formulas
def test_forward(attn: Attn):
    """S is overwritten by attn."""
    assert peak_of_forward(attn) <= 1.1


@explicit_formulas
def test_kept_for_the_backward(attn: Attn):
    """With the outputs dropped but one, no more than attn and that one is alive."""
    primals = draw(PRIMALS, SIZES, dtype=torch.float32, requires_grad=PRIMALS)
    with Memory() as memory:
        output = attn(*primals)[0]
    assert 1 <= matrices(memory.left) <= 1.1
    with Memory() as memory:
        del output
    assert -1.1 <= matrices(memory.left) <= -1


@pytest.mark.slow
def test_meter_would_notice_the_composite():
    """It keeps S beside attn in the forward, and G beside P in the backward."""
    assert peak_of_forward(attn_composite) >= 2
    assert peak_of_forward_and_backward(attn_composite, COTANGENTS) >= 3
    assert peak_of_forward_and_backward(attn_composite, ["output_bar"]) >= 3


@pytest.mark.parametrize("attn", ["native_implicit"], indirect=True)
def test_meter_would_notice_the_implicit_operator(attn: Attn):
    """It is a composite, out of Python's sight."""
    assert peak_of_forward(attn) >= 2
    assert peak_of_forward_and_backward(attn, COTANGENTS) >= 3


@pytest.mark.parametrize(
    ("compute", "peak"),
    [
        pytest.param(lambda x: x.add(1).mul_(2).t(), 1, id="in_place_and_views_are_free"),
        pytest.param(lambda x: x.add(1).mul(2), 2, id="temporary"),
        pytest.param(lambda x: [x.add(1) for _ in range(3)], 3, id="three_kept"),
        pytest.param(lambda x: x.add(1).mul(2).mul(3), 2, id="freed_before_the_next"),
    ],
)
def test_meter_counts(compute: Callable[[torch.Tensor], object], peak: int):
    x = torch.ones(4096, dtype=torch.float64)  # a number that is a double would be 1/4096 of it
    with Memory() as memory:
        compute(x)
    assert round(memory.peak / x.nbytes, 2) == peak
    assert memory.left == 0
