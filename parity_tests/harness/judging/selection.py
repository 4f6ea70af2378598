"""The selection of a run's checks, formats and samples, and a line on those that a quick run leaves out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from parity_tests.harness.checks import CHECKS, Check
from parity_tests.harness.names import QUICK, selected
from parity_tests.harness.names import one_of as one_of
from parity_tests.harness.numbers.formats import FORMATS, PRECISIONS, Precision
from parity_tests.harness.specs.samples import Sample, few_samples, samples
from parity_tests.harness.specs.spec import OpSpec

QUICK_DTYPES = ("float64", "bfloat16")


def select_checks(names: Iterable[str] | None, quick: bool = False) -> list[Check]:
    """The checks of these names, in the harness's order.

    If None, all but those that are run on request only; of a quick run, not the costly ones either.

    Raises:
        ValueError: an unknown name, or none at all.
    """
    if names is not None:
        return [CHECKS[name] for name in selected("check", names, tuple(CHECKS))]
    return [check for check in CHECKS.values() if not check.on_request and not (quick and check.costly)]


def select_precisions(names: Iterable[str] | None, spec: OpSpec | None = None, quick: bool = False) -> list[Precision]:
    """The formats of these names, in the harness's order; if None those of the spec, without one all real ones.

    If None, a quick run has those of `QUICK_DTYPES`, and the first of the spec's: where a PyTorch reference computes in
    float32, its results are no truth in float64, and what it computes in is judged first.

    Raises:
        ValueError: an unknown name, or none at all; real formats where the spec's inputs are given as complex numbers.
    """
    if names is None:
        names = PRECISIONS if spec is None else spec.formats
        if quick:
            names = list(names)
            names = [name for name in names if name in QUICK_DTYPES or name == names[0]]
    chosen = selected("dtype", names, tuple(FORMATS))
    if spec is not None:
        for name in chosen:
            spec.check_dtype(name)
    return [FORMATS[name] for name in chosen]


def select_samples(quick: bool) -> Callable[[OpSpec, int], Iterable[Sample]]:
    """The samples of a run: all, or a few."""
    return few_samples if quick else samples


def left_out(checks: Sequence[Check], precisions: Sequence[Precision]) -> str:
    """Return a line for a report's `skipped`: how little a quick run with these checks and formats has judged."""
    named = list(checks) != select_checks(None, quick=True)  # what was asked for leaves nothing out by being quick
    others = "" if named else ", ".join(c.name for c in CHECKS.values() if c.costly and c not in checks)
    formats = " and ".join(precision.name for precision in precisions)
    return f"{QUICK}{formats} only, few samples{f'; not run: {others}' if others else ''}"
