"""The axes of outputs, found by the shapes that a primal makes."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import pytest

from parity_tests import OpSpec
from parity_tests.harness.specs.output_axes import with_outputs


@pytest.mark.parametrize(
    ("inputs", "primal", "outputs", "sizes"),
    [
        ("(n,d),(d)", lambda x, w: (x @ w, x * w), "(n),(n,d)", None),
        ("(n,d)", lambda x: x.T @ x, "(d,d)", None),
        ("(n)", lambda x: (x.sum(), x[:, None] * jnp.arange(3.0)), "(),(n,3)", None),
        ("(...,d),(d)", lambda x, w: x * w, "(...,d)", None),
        ("(n,d)", lambda x: jnp.concatenate((x, x), 1), "(n,out0)", "out0 = 2*d"),
        ("(n)", lambda x: x[1:], "(out0)", "n >= 1, out0 = n - 1"),
        ("(n)", lambda x: x[::2], "(out0)", "out0 = (n + 1) // 2"),
        ("(n,d)", lambda x: x.reshape(-1), "(out0)", "out0 = n * d"),
        ("(n),(m)", lambda x, y: jnp.concatenate((x, y)), "(out0)", "out0 = n + m"),
        ("(n,d)", lambda x: (jnp.repeat(x, 2, 0), jnp.repeat(x, 2, 0)), "(out0,d),(out0,d)", "out0 = 2*n"),
        ("(n)", lambda x: x[jnp.triu_indices(len(x), 1)[0]], "(out0)", "out0 = n*(n - 1) // 2"),
        ("(n,d)", lambda x: x[1:, ::3].reshape(-1), "(out0)", "n >= 1, out0 = (n - 1) * ((d + 2) // 3)"),
        ("(n,d)", lambda x: jnp.repeat(x.reshape(-1), 3), "(out0)", "out0 = 3 * n * d"),
        ("(n,d)", lambda x: jnp.diagonal(x), "(out0)", "out0 = min(n, d)"),
        ("(n)", lambda x: x[:4], "(out0)", "out0 = min(n, 4)"),
        ("(n,d)", lambda x: jnp.concatenate((x[::2, 0], x[0, 3:])), "(out0)", "d >= 3, out0 = (n + 1) // 2 + d - 3"),
        ("(n)", lambda x: x[16:].reshape(-1)[::16] + x[:1], "(out0)", "n >= 17, out0 = (n - 1) // 16"),
        ("(n)", lambda x: jnp.pad(x, 40), "(out0)", "out0 = n + 80"),
    ],
)
def test_each_kind(inputs: str, primal: Callable, outputs: str, sizes: str | None) -> None:
    given = sizes.partition(",")[0] if sizes and ">=" in sizes else None
    found = with_outputs(OpSpec("op", primal, f"{inputs}->()", sizes=given))
    assert found.signature == f"{inputs}->{outputs}"
    assert found.sizes == sizes


def test_rules_of_the_inputs_are_kept_to() -> None:
    def halves(x):
        assert x.shape[0] % 2 == 0
        return x.reshape(2, -1).sum(0)

    found = with_outputs(OpSpec("op", halves, "(n)->()", sizes="n % 2 == 0"))
    assert (found.signature, found.sizes) == ("(n)->(out0)", "n % 2 == 0, out0 = n // 2")


def test_a_size_that_no_rule_gives() -> None:
    with pytest.raises(ValueError, match=r"axis 0 of output 0 is 8 at n = 2; .*; say how long it is by the whole"):
        with_outputs(OpSpec("op", lambda x: jnp.zeros(x.shape[0] ** 3) * x.sum(), "(n)->()"))
    with pytest.raises(ValueError, match=r"the number of axes of its outputs depends on the sizes"):
        with_outputs(OpSpec("op", lambda x: x if x.shape[0] > 4 else x[None], "(n)->()"))
