"""The fixture `attn`, and what keeps torch's own import-time warning out of the tests, where a warning is an error."""

from __future__ import annotations

import warnings

import pytest

import torch_impl
from parity_tests.suite.torch_impl._common import Attn
from torch_impl.native.build import ToolchainMissing

with warnings.catch_warnings():
    # The first use of forward mode compiles decompositions with torch.jit, which torch itself deprecates.
    warnings.simplefilter("ignore")
    import torch._decomp.decompositions_for_jvp  # noqa: F401 (imported for its effect)


@pytest.fixture
def attn(request: pytest.FixtureRequest) -> Attn:
    """The implementation that a test's parameter names; a native one is compiled when the first test asks for it."""
    try:
        return getattr(torch_impl, f"attn_{request.param}")
    except ToolchainMissing as reason:
        pytest.skip(str(reason))
