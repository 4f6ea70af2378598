"""autocast: nothing is asked where the reference raises under autocast itself."""

from __future__ import annotations

import pytest
import torch

from parity_tests import OpSpec, Verdict
from parity_tests.suite.harness._ops import judged

pytestmark = pytest.mark.slow

# Which float16 does not have: PyTorch raises "value cannot be converted to type c10::Half without overflow".
_MASK = -1e9


def masked(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.softmax((x @ y).tril().masked_fill((x @ y).detach().tril() == 0, _MASK), -1)


def raises_in_float16(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") is torch.float16:
        raise RuntimeError("no float16")
    return torch.softmax(x @ y, -1)


def test_where_the_reference_raises_nothing_is_asked() -> None:
    spec = OpSpec.from_torch(masked, inputs="x: (n,d), y: (d,n)")
    row = judged(masked, spec, "autocast")
    assert (row.verdict, row.reason) == (Verdict.PASS, "")


def test_where_the_candidate_alone_raises_it_fails() -> None:
    spec = OpSpec.from_torch(lambda x, y: torch.softmax(x @ y, -1), inputs="x: (n,d), y: (d,n)")
    assert judged(raises_in_float16, spec, "autocast").verdict is Verdict.MISMATCH
