"""What is known of right code in 16 bits before any runs: whether it has constants to round."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from parity_tests import OpSpec
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.arithmetics import has_constants_to_round
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.specs.samples import samples


@pytest.mark.parametrize(
    ("primal", "forward", "vjp"),
    [
        pytest.param(lambda x: jnp.tanh(x) * x, False, False, id="one"),
        pytest.param(lambda x: -0.25 * x, False, False, id="a quarter"),
        pytest.param(lambda x: x / 3, True, True, id="a third"),
        pytest.param(lambda x: x * jnp.asarray(np.linspace(0, 1, 4)), True, True, id="an array"),
        pytest.param(jnp.exp2, False, True, id="log 2, of the derivative"),
    ],
)
def test_constants_other_than_powers_of_two(primal, forward, vjp):
    spec = OpSpec("op", primal, "(4)->(4)")
    sample = next(iter(samples(spec, 0)))
    with pinned():
        oracle = Oracle(spec, sample)
        x = sample.primals(oracle.inputs)
        assert has_constants_to_round(oracle, "forward", x) is forward
        assert has_constants_to_round(oracle, "vjp", [*x, np.ones(4)]) is vjp
