"""What a case of the survey is: an operator of PyTorch, and what it should compute, said in JAX as a user would."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
REAL = ("float64", "float32", "bfloat16", "float16")
FIRST_ORDER = ("vjp", "vjp_partial", "jvp", "points", "layouts", "linearity", "vmap")
SECOND_ORDER = ("vjp_of_vjp", "jvp_of_vjp", "vjp_of_jvp", "jvp_of_jvp")
# One order and one format are enough for these; they differ in how the derivative is asked for.
WAYS = ("input_subsets", "in_place", "retain_graph", "interleaved", "saved_tensors", "checkpoint")
TRANSFORMS = ("functorch", "make_fx", "compile")


def rows(title: str, checks: Sequence[str], dtypes: Sequence[str] = REAL) -> dict[str, str]:
    """Rows that rightly fail, by the title of their section in docs/found.md."""
    return {f"{check} {dtype}": title for check in checks for dtype in dtypes}
