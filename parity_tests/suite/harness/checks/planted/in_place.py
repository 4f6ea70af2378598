"""Saved tensors whose edits autograd does not notice."""

from __future__ import annotations

from parity_tests.suite.harness._ops import PAIR, Pair, pair
from parity_tests.suite.mistakes import Case, Mistake


class DataSaved(Pair):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*(x.data for x in inputs))


_PASSES = ("forward", "vjp", "purity", "saved_tensors")
CASES = (Case(PAIR, pair, {"saves x.data": Mistake(DataSaved.apply, "in_place", passes=_PASSES)}),)
