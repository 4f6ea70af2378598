"""The check `proof` of kernels in Triton, in a process of its own: Triton's interpreter is chosen as it is imported."""

from __future__ import annotations

import sys

import pytest

from parity_tests.harness.candidates.triton_launches import launches_as_operators
from parity_tests.suite.torch_impl.test_triton import needs_triton, run_pytest


@needs_triton
@pytest.mark.slow
def test_kernels_in_the_interpreter() -> None:
    run_pytest(["harness/proof/with_triton.py"], "not soak", {"TRITON_INTERPRET": "1"}, 900)


def test_without_triton_nothing_is_looked_for() -> None:
    before = {name for name in sys.modules if name.partition(".")[0] == "triton"}
    with launches_as_operators() as launches:
        pass
    assert launches == []
    assert before == {name for name in sys.modules if name.partition(".")[0] == "triton"}
