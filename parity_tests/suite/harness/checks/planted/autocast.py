"""What only a call under autocast does."""

from __future__ import annotations

import torch

from parity_tests.suite.harness._ops import PAIR, pair
from parity_tests.suite.mistakes import Case, Mistake


def _always_float16(x, y):
    if torch.is_autocast_enabled(x.device.type):
        x, y = x.half(), y.half()
    return pair(x, y)


def _another_path(x, y):
    return pair(x / 2, y) if torch.is_autocast_enabled(x.device.type) else pair(x, y)


_PASSES = ("forward", "vjp", "purity", "jvp_of_jvp", "make_fx", "compile")
CASES = (
    Case(
        PAIR,
        pair,
        {
            "float16, whatever autocast has": Mistake(_always_float16, "autocast", passes=_PASSES),
            "another path under autocast": Mistake(_another_path, "autocast", passes=_PASSES),
        },
    ),
)
