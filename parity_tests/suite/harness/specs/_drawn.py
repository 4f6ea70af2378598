"""What a domain draws, at the sizes that the tests of domains share."""

from __future__ import annotations

import numpy as np

from parity_tests.harness.specs.domains import Domain

SIZES = {"n": 4, "v": 7}


def drawn(domain: Domain, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """An array that a domain draws."""
    return domain.draw(np.random.default_rng(seed), shape, SIZES)
