"""The planted faults of the audits of models, in a small one."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from benchmarks.audits import FAULTS, verdict_on
from parity_tests.auditing.audit import audit


class Planted(nn.Module):
    """What a fault is planted in."""

    def __init__(self, fault: str | None) -> None:
        super().__init__()
        self.how = FAULTS[fault][0] if fault else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x, with the fault."""
        return self.how(x)


def model(fault: str | None) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), Planted(fault), nn.Linear(4, 2))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named(fault: str) -> None:
    x = torch.randn(3, 4)
    before, (_, operator, finding) = audit(model(None), x), FAULTS[fault]
    assert not before.faults
    assert verdict_on(audit(model(fault), x), before, operator, finding, "Sequential.1") == "named"
    assert verdict_on(before, before, operator, finding, "Sequential.1") != "named"
