"""Keeps torch's own import-time warning out of the tests, where a warning is an error."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    # The first use of forward mode compiles decompositions with torch.jit, which torch itself deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    import torch._decomp.decompositions_for_jvp  # noqa: F401 (imported for its effect)
