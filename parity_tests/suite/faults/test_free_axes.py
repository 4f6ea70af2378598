"""An axis that only an output has is defined by a rule, or the oracle's outputs always have it so long."""

from __future__ import annotations

import jax.numpy as jnp
import pytest
import torch

from parity_tests import OpSpec, crosscheck
from parity_tests.harness.oracle.oracle import OracleError
from parity_tests.suite.faults._run import check


def twice(x):
    return jnp.concatenate([x, x])


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize(
    ("primal", "signature", "sizes", "message"),
    [
        (
            lambda x: jnp.sin(x),
            "(n)->(m)",
            None,
            "makes it 4 at n = 4 and .* at n = .; it is always as long as n: write n",
        ),
        (lambda x: jnp.sin(x), "(n,d)->(n,e)", None, "axis e .* it is always as long as d: write d for it"),
        (lambda x: jnp.sin(x), "(n)->(m)", "n >= 2", "it is always as long as n: write n for it"),
        (lambda x: (x, x), "(n)->(n),(m)", None, "axis m .* it is always as long as n: write n for it"),
        (twice, "(n)->(m)", None, 'makes it 8 at n = 4 and .*; define it by the others: sizes="m = 2\\*n"'),
        (lambda x: jnp.diff(x), "(n)->(m)", "n >= 1", 'define it by the others: sizes="n >= 1, m = n - 1"'),
        (lambda x: jnp.ravel(x), "(n,d)->(m)", None, 'define it by the others: sizes="m = n \\* d"'),
        (lambda x: jnp.zeros(2 ** x.shape[0]) * x.sum(), "(n)->(m)", "n <= 9", 'others, such as sizes="m = 2\\*n"'),
    ],
    ids=["a slip", "of two axes", "of another", "a second output", "twice", "one less", "a product", "a power"],
)
def test_an_axis_that_nothing_defines_is_refused(primal, signature, sizes, message, quick):
    spec = OpSpec("op", primal=primal, signature=signature, sizes=sizes)
    with pytest.raises(OracleError, match=message):
        crosscheck(torch.sin, spec, checks=["forward"], dtypes=["float64"], quick=quick)


@pytest.mark.parametrize(
    ("primal", "candidate", "signature", "sizes"),
    [
        (twice, lambda x: torch.cat([x, x]), "(n)->(m)", "m = 2*n"),
        (lambda x: x[:3] * 2, lambda x: x[:3] * 2, "(n)->(m)", "n >= 3"),
        (lambda x: x[None] * jnp.ones((3, 1)), lambda x: x[None] * x.new_ones(3, 1), "(n)->(k,n)", None),
        (lambda x: jnp.sin(x), torch.sin, "(4)->(m)", None),
        (lambda x: jnp.sin(x), torch.sin, "(n)->(m)", "n = 5"),
    ],
    ids=["by a rule", "cut off", "always 3", "fixed", "fixed by a rule"],
)
def test_an_axis_that_is_defined_or_always_as_long_is_accepted(primal, candidate, signature, sizes):
    spec = OpSpec("op", primal=primal, signature=signature, sizes=sizes)
    assert crosscheck(candidate, spec, checks=["forward", "vjp"], dtypes=["float64"]).passed


def test_on_the_command_line(tmp_path):
    ran = check(tmp_path, "spec = OpSpec('sine', jnp.sin, '(n)->(m)')\ncandidate = torch.sin\n")
    assert ran.code == 2
    assert "Could not judge: sine: no input has the axis m of the signature (n)->(m)" in ran.printed
    assert ran.verdicts == {}
