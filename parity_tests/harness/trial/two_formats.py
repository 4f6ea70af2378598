"""Results of a call in which two formats take part, an input's own or autocast's: each may be rounded to either."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from parity_tests.harness.findings import Fact, Finding
from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.oracle.kinks import accept_one_sided_derivatives
from parity_tests.harness.oracle.oracle import Arrays, Oracle
from parity_tests.harness.oracle.shifts import judged_with_shifts
from parity_tests.harness.trial.trial import Trial


def compared(
    exact: Trial, wide: Precision, name: str, args: Arrays, results: Sequence[torch.Tensor | None], circumstance: str
) -> Iterator[Finding]:
    """Compare a map's results with the oracle's, by the bounds of the narrower format.

    Args:
        exact: the trial in the narrower of the two formats, in which every argument is exact: to cast one to either
            format rounds nothing, and whoever rounds a result to the narrower format, or less, is within the bound.
        wide: the other format.
        name: the map.
        args: its arguments.
        results: the candidate's, in either format; an absent one is a zero.
        circumstance: what the findings say.

    Raises:
        BadOutput: a wrong number of results.
    """
    dtype = getattr(torch, wide.name)
    widened = [None if y is None else y.to(dtype) for y in results]

    def judge(oracle: Oracle) -> list[Finding]:
        point = replace(exact, oracle=oracle)
        found = replace(point, precision=wide).compare_with(point.truth(name, args), name, widened, circumstance)
        return list(accept_one_sided_derivatives(point, name, args, list(found), circumstance))

    yield from judged_with_shifts(exact, name, args, judge)


def in_either(
    exact: Trial, wide: Precision, outputs: Sequence[torch.Tensor], circumstance: str, whose: str
) -> Iterator[Fact]:
    """Whether each output is in one of the two formats; `whose`: the narrower one's words, "that of autocast"."""
    narrow = exact.precision
    allowed = (getattr(torch, narrow.name), getattr(torch, wide.name))
    for name, y in zip(exact.oracle.outputs, outputs, strict=True):
        text = f"is {y.dtype}, neither the inputs' {wide.name} nor the {narrow.name} {whose}"
        yield Fact(name, y.dtype in allowed, text, circumstance, evidence=0)
