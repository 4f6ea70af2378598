"""What only a compiled call does."""

from __future__ import annotations

import torch

from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, pair


def _another_path(x, y):
    return pair(x / 2, y) if torch.compiler.is_compiling() else pair(x, y)


_PASSES = ("forward", "vjp", "purity", "jvp_of_jvp", "fake", "make_fx")
CASES = (Operator(PAIR, pair, {"another path if compiled": Mistake(_another_path, "compile", passes=_PASSES)}),)
