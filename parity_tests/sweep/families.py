"""The family of an operator: that of its reference in `jax_ref.aten`."""

from __future__ import annotations

import functools
from collections.abc import Mapping

WITHOUT = "without a reference"


def family_of(operator: str) -> str:
    """Return the family of an operator, such as "reductions", of one for lists of tensors that of the operator for one.

    Args:
        operator: with its overload: "sum.dim_IntList".
    """
    packet, dot, overload = operator.partition(".")
    plain = packet.removeprefix("_foreach_")
    for name in (f"{packet}{dot}{overload}", packet, plain, plain.removesuffix("_")):
        if f"aten::{name}" in _families():
            return _families()[f"aten::{name}"]
    return WITHOUT


@functools.cache
def _families() -> Mapping[str, str]:
    from jax_ref import aten  # imports JAX, which takes a second

    return {name: aten.OPERATORS.family(name).replace("_", " ") for name in aten.OPERATORS}
