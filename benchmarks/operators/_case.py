"""What a case of the survey is: an operator of PyTorch, and what it should compute, said in JAX as a user would."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from parity_tests import OpSpec


@dataclass(frozen=True)
class Case:
    """An operator.

    Attributes:
        name: its name in PyTorch's list of operators, op_db.
        spec: the oracle, its signature, and the domains of its inputs.
        call: PyTorch's operator.
        defects: the rows that rightly fail, "vjp float64", each with the title of its section in docs/found.md.
    """

    name: str
    spec: OpSpec
    call: Callable[..., Any]
    defects: Mapping[str, str] = field(default_factory=dict)


def case(
    name: str,
    primal: Callable[..., Any],
    call: Callable[..., Any],
    signature: str,
    defects: Mapping[str, str] | None = None,
    **options: Any,
) -> Case:
    """A case whose spec has the operator's name; `options` are the other fields of `OpSpec`."""
    return Case(name, OpSpec(name, primal, signature, **options), call, defects or {})


COMPLEX = ("complex128", "complex64")
