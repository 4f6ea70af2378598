"""The operators of the survey by name."""

from __future__ import annotations

from benchmarks.operators import elementwise, matrices, networks, reductions, shapes
from benchmarks.operators._case import Case

CASES: dict[str, Case] = {
    case.spec.name: case
    for case in sorted(
        (case for group in (elementwise, shapes, reductions, matrices, networks) for case in group.CASES),
        key=lambda case: case.spec.name,
    )
}
