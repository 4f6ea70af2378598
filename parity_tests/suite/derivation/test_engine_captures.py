"""What the engine's formulas capture is an input, an output, or a constant: so every order of them is right."""

from __future__ import annotations

import numpy as np
import pytest

from derivation import engine
from parity_tests.harness.captures.captures import Effect, captures

FORMULAS = {name: f.__wrapped__ for name, f in vars(engine).items() if hasattr(f, "__wrapped__")}


def _squashed(x):
    """tanh with an intermediate that is computed outside of the engine."""
    y = np.tanh(x.value)
    slope = 1 - y * y
    return y, lambda y_bar: engine.mul(y_bar, slope), lambda x_dot: engine.mul(slope, x_dot)


def test_there_are_formulas():
    assert {"mm", "mul", "sin", "tanh", "attn_formula"} <= set(FORMULAS)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_captures_nothing_that_is_wrong_at_second_order(name):
    assert {capture.effect for capture in captures(FORMULAS[name])} <= {Effect.FINE}


def test_an_intermediate_is_found():
    assert Effect.WRONG in {capture.effect for capture in captures(_squashed)}
