"""What PyTorch logs for its own developers does not follow a failing test."""

from __future__ import annotations

import logging

import jax.numpy as jnp
import pytest
import torch

from parity_tests import OpSpec, ParityError, assert_parity

SPEC = OpSpec("sine", primal=jnp.sin, signature="(n)->(n)")


class Records(logging.Handler):
    """As pytest adds one to each of PyTorch's loggers."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.found.append(record)


@pytest.mark.slow
def test_a_failing_assert_parity_is_not_followed_by_a_debug_log():
    trace, records = logging.getLogger("torch.__trace"), Records()
    trace.addHandler(records)
    try:
        torch.compile(torch.sin, backend="eager")(torch.ones(2))
        assert records.found  # so that there is something to keep away
        records.found.clear()
        with pytest.raises(ParityError):
            assert_parity(torch.cos, SPEC, checks=["forward", "compile"], dtypes=["float64"], quick=True)
        reference = OpSpec.from_torch(torch.sin, inputs="x: (n)")  # which is exported
        with pytest.raises(ParityError):
            assert_parity(torch.cos, reference, checks=["forward"], dtypes=["float64"], quick=True)
        assert records.found == []
        assert not trace.filters
    finally:
        trace.removeHandler(records)
