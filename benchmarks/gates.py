"""The bars that native is held to. A figure is compared as it is printed: with two decimals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.cases import Case
from benchmarks.figures import Results, Row, speedup

Figure = tuple[str, float | None]  # where, and how much


@dataclass(frozen=True)
class Outcome:
    """A bar, and the worst of the figures that it is there for; `met` is None if none was measured."""

    bar: str
    value: float | None
    where: str
    met: bool | None


def judged(results: Results) -> list[Outcome]:
    """Every bar, all of one thread; see benchmarks/README.md."""
    rows = [row for row in results.rows if row.case.threads == 1]

    def times_faster(than: str, of: Callable[[Case], bool]) -> list[Figure]:
        return [(str(row.case), speedup(row.times, "native", than)) for row in rows if of(row.case)]

    def usual(what: str, least: int, most: int | None = None) -> Callable[[Case], bool]:
        return lambda case: (
            case == Case(case.n, case.n, what=case.what) and (case.what == what and least <= case.n <= (most or case.n))
        )

    outcomes = [
        _at_least(1.7, "forward, n >= 256: times faster than eager", times_faster("eager", usual("forward", 256)))
    ]
    for n, bar in ((256, 1.3), (1024, 1.5), (4096, 1.9)):
        figures = times_faster("eager", usual("both", n, n))
        outcomes.append(_at_least(bar, f"forward + backward, n = {n}: times faster than eager", figures))
    for what, name, bar in (("forward", "forward", 0.95), ("both", "forward + backward", 1.3)):
        figures = times_faster("jax_jit", usual(what, 1024))
        outcomes.append(_at_least(bar, f"{name}, n >= 1024: times faster than jax.jit", figures))
    for what, name in (("forward", "forward"), ("both", "forward + backward")):
        fractions = [_fraction(results, row) for row in rows if usual(what, 1024, 1024)(row.case)]
        outcomes.append(_at_least(0.75, f"{name}, n = 1024: fraction of the bound", fractions))
    for what, name in (("both", "both cotangents"), ("output", "attn's undefined")):
        extra = [(str(peak.case), peak.matrices.get("native")) for peak in results.peaks if peak.case.what == what]
        outcomes.append(_at_most(1.1, f"forward + backward, {name}: peak extra memory in n m", extra))
    for what, name in (("forward", "forward"), ("both", "forward + backward")):
        figures = times_faster("eager", usual(what, 8, 8))
        outcomes.append(_at_least(1.0, f"{name}, n = 8: times faster than eager", figures))
    outcomes.append(_at_least(0.95, "every case, float64 too: times faster than eager", times_faster("eager", _any)))
    return outcomes


def _any(case: Case) -> bool:
    return True


def _fraction(results: Results, row: Row) -> Figure:
    return str(row.case), results.fraction(row, "native")


def _measured(figures: list[Figure]) -> Iterator[tuple[float, str]]:
    return ((round(value, 2), where) for where, value in figures if value is not None)


def _at_least(bar: float, name: str, figures: list[Figure]) -> Outcome:
    value, where = min(_measured(figures), default=(None, ""))
    return Outcome(f"{name} >= {bar}", value, where, None if value is None else value >= bar)


def _at_most(bar: float, name: str, figures: list[Figure]) -> Outcome:
    value, where = max(_measured(figures), default=(None, ""))
    return Outcome(f"{name} <= {bar}", value, where, None if value is None else value <= bar)
