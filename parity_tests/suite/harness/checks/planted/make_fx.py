"""What only a traced call does."""

from __future__ import annotations

from torch._subclasses.fake_tensor import FakeTensor

from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, pair


def _another_path(x, y):
    return pair(x / 2, y) if isinstance(x, FakeTensor) else pair(x, y)


_PASSES = ("forward", "vjp", "purity", "jvp_of_jvp", "fake", "compile")
CASES = (Operator(PAIR, pair, {"another path if traced": Mistake(_another_path, "make_fx", passes=_PASSES)}),)
