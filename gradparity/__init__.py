"""Have the derivatives of an operator judged by an independent JAX implementation.

`crosscheck(candidate, spec)` compares a candidate with the JAX function of an `OpSpec` and returns a `Report`;
`assert_parity` does the same in a test. `to_jax(module, *example)` makes a function of JAX from a PyTorch module, and
`certify` compares the two; `audit(module, *inputs)` judges each operator of a training step. The work is done in
`parity_tests`, whose names these are; they load what they need when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import parity_tests

if TYPE_CHECKING:
    from parity_tests import *  # noqa: F403

__all__ = sorted(parity_tests._MODULES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(parity_tests, name)


def __dir__() -> list[str]:
    return __all__
