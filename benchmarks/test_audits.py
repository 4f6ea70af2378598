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
        self.how = FAULTS[fault].how if fault else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x, with the fault."""
        return self.how(x)


def model(fault: str | None) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), Planted(fault), nn.Linear(4, 2))


COMPILED = {name for name, fault in FAULTS.items() if fault.compiled}


@pytest.mark.parametrize("name", [pytest.param(x, marks=pytest.mark.slow) if x in COMPILED else x for x in FAULTS])
def test_a_fault_is_named(name: str) -> None:
    x, fault = torch.randn(3, 4), FAULTS[name]
    before = audit(model(None), x)
    assert not before.faults
    assert verdict_on(audit(model(name), x, compiled=fault.compiled), before, fault, "Sequential.1") == "named"
    assert verdict_on(before, before, fault, "Sequential.1") != "named"
