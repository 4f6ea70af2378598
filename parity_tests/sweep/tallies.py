"""The verdict on a derivative over all calls so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from parity_tests.sweep.invariants import INVARIANTS
from parity_tests.sweep.lines import BATCHED, COMPILED, DECOMPOSITION, JITTED, THIRD_ORDER, Finding, Verdict
from parity_tests.sweep.recorded_calls import RecordedCall
from torch_impl.derivatives import Entry

Judged = Callable[[], tuple[Verdict, str, Callable[[], Finding]]]


@dataclass
class Tally:
    """The worst verdict on one derivative so far, and why calls could not be compared."""

    verdict: Verdict = Verdict.UNREACHED
    calls: int = 0
    moves: bool = False
    finding: Finding | None = None
    verdict_reason: str = ""
    refusals: Counter[str] = field(default_factory=Counter)  # why calls could not be compared
    zero: Judged | None = None  # what witnesses say where both sides are zero
    _last: RecordedCall | None = None

    @property
    def reason(self) -> str:
        """The reason of the verdict, and of the calls that could not be compared."""
        if self.verdict is Verdict.UNREACHED:
            return next(iter(self.refusals), "no call reaches it")
        if not self.refusals:
            return self.verdict_reason
        (why, _), *_ = self.refusals.most_common(1)
        left_out = f"{self.refusals.total()} not compared: {why}"
        return f"{self.verdict_reason}; {left_out}" if self.verdict_reason else left_out

    def compared(self, call: RecordedCall, moves: bool) -> None:
        """Note that the two were compared on a call; `moves`: a derivative is not zero there."""
        self.calls += call is not self._last
        self._last, self.moves = call, self.moves or moves
        if self.verdict is Verdict.UNREACHED:
            self.verdict = Verdict.AGREES

    def refused(self, reason: str) -> None:
        """Note why a call could not be compared."""
        self.refusals[reason] += 1

    def found(self, verdict: Verdict, reason: str, finding: Callable[[], Finding]) -> None:
        """Note the verdict on a number; the worst one counts."""
        if verdict.rank > self.verdict.rank:
            self.verdict, self.verdict_reason, self.finding = verdict, reason, finding()


def names_of(entry: Entry, mode: str, calls: Sequence[RecordedCall]) -> list[str]:
    """The derivatives of a mode by what they are of, as `Case.labels`, but those of a list of tensors together."""
    inputs = list(dict.fromkeys(name for formula in entry.vjps for name in formula.names))
    flags = zip(entry.result_names, entry.differentiable_outputs, strict=True)
    integers = {i for call in calls[:1] for i, y in enumerate(call.results) if np.asarray(y).dtype.kind not in "fc"}
    many = len(entry.result_names) > 1
    results = [name for i, (name, flag) in enumerate(flags) if flag and not (many and i in integers)]
    if f"aten::{entry.name}" in INVARIANTS:
        results = ["invariants"]
    bars, dots = [f"{y}_bar" for y in results], [f"{x}_dot" for x in inputs]
    names = {
        "vjp": inputs,
        "jvp": results,
        "vjp_of_vjp": [*inputs, *bars],
        "jvp_of_vjp": [f"{x}_bar" for x in inputs],
        "vjp_of_jvp": [*inputs, *dots],
        "jvp_of_jvp": [f"{y}_dot" for y in results],
        THIRD_ORDER: [*inputs, *bars, *(f"{x}_bar_bar" for x in inputs)],
        BATCHED: inputs,
        COMPILED: [*inputs, *results],
        JITTED: [*inputs, *results],
        DECOMPOSITION: [],  # the operators that are decomposed, which are known when the backward has run
    }
    return names[mode]


def plain(label: str) -> str:
    """Return a label without the place in a list: "tensors_dot" of "tensors[1]_dot"."""
    name, bracket, rest = label.partition("[")
    return name + rest.partition("]")[2] if bracket else name
