"""The cases of the survey: an operator of PyTorch, and in JAX, as a user would write it, what it should compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gradparity import JaxCandidate, OpSpec
from parity_tests.harness.report.results import Row, WrongResult
from parity_tests.operators.operator import Operator

REAL = ("float64", "float32", "bfloat16", "float16")
COMPLEX = ("complex128", "complex64")


@dataclass(frozen=True)
class Defect:
    """A defect of PyTorch: the failures that it explains, and no others.

    Attributes:
        title: of its section in docs/found/, with its number in docs/found.md, where it may be a withdrawn one: what
            the survey lists is then rounding, or documented.
        results: the results that are wrong because of it, such as "y_bar".
        checks: the checks that fail because of it.
        dtypes: the formats in which they do.
        at: if it shows at special points only, what the failure says of them, such as "has squares that overflow"; one
            of these.
    """

    title: str
    results: tuple[str, ...]
    checks: tuple[str, ...]
    dtypes: tuple[str, ...] = REAL
    at: tuple[str, ...] = ()

    def explains(self, row: Row) -> bool:
        """True if a row has this check and format, and only these results are wrong in its first failing sample."""
        if row.check not in self.checks or row.dtype not in self.dtypes or row.failure is None:
            return False
        return all(self._is_of_it(wrong) for wrong in row.failure.wrong)

    def _is_of_it(self, wrong: WrongResult) -> bool:
        there = not self.at or any(point in wrong.circumstance for point in self.at)
        return wrong.label in self.results and there


@dataclass(frozen=True, eq=False)
class Case(Operator):
    """An operator whose right version is PyTorch's own, or a candidate in JAX; and what is known to be wrong with it.

    It stands in no family of the catalogue: a rule has chosen it, and no mistake is planted in it.
    """

    defects: tuple[Defect, ...] = ()


def case(
    name: str,
    primal: Callable[..., Any],
    call: Callable[..., Any] | JaxCandidate,
    signature: str,
    *defects: Defect,
    **options: Any,
) -> Case:
    """A case by its name in PyTorch's list of operators, op_db; `options` are the other fields of `OpSpec`."""
    return Case(OpSpec(name, primal, signature, **options), call, defects=defects)


FIRST_ORDER = ("vjp", "vjp_partial", "jvp", "points", "layouts", "linearity", "vmap")
SECOND_ORDER = ("vjp_of_vjp", "jvp_of_vjp", "vjp_of_jvp", "jvp_of_jvp", "points_second_order")
# One order and one format are enough for these; they differ in how the derivative is asked for.
WAYS = ("input_subsets", "in_place", "retain_graph", "interleaved", "modes", "saved_tensors", "checkpoint")
TRANSFORMS = ("functorch", "make_fx", "compile")
