"""PyTorch's batching rules, judged by the harness: its checks of vmap and of the transforms that are made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from parity_tests.harness.findings import AGREE
from parity_tests.harness.report.results import WrongResult
from parity_tests.sweep.cases import Case
from parity_tests.sweep.compared_case import REFUSALS, shortened
from parity_tests.sweep.harness_rows import input_name, rows_of
from parity_tests.sweep.lines import Finding, Verdict
from parity_tests.sweep.point_text import in_short
from parity_tests.sweep.tallies import Tally, plain

_CHECKS = ("vmap", "functorch")
_WITNESS = "the harness: one example after the other, by an oracle that differences certify"


def judge_batched(
    case: Case,
    dtype: str,
    tallies: Mapping[str, Tally],
    operator: Callable[..., tuple[torch.Tensor, ...]] | None = None,
) -> None:
    """Judge derivatives of batches, and note what came of them.

    Args:
        case: whose inputs one example has.
        dtype: of these.
        tallies: by the inputs' names. What is wrong of no single gradient is noted for all of them.
        operator: a function of the inputs; by default PyTorch's own.

    Raises:
        NoReference: there is none.
    """
    function = case.jax_function()
    try:
        rows = rows_of(case, function, _CHECKS, dtype, operator)
    except REFUSALS as error:
        for tally in tallies.values():
            tally.refused(shortened(error))
        return
    for row in rows:
        wrong = () if row.failure is None else row.failure.wrong
        for tally in tallies.values():
            if row.verdict in AGREE or wrong:
                tally.compared(case.call, row.comparisons > 0)
            else:
                tally.refused(row.reason)
        for each in wrong:
            _note(case, each, tallies)


def _note(case: Case, wrong: WrongResult, tallies: Mapping[str, Tally]) -> None:
    if wrong.index is None and wrong.candidate is None and "raises " in wrong.pattern:
        for tally in tallies.values():
            tally.refused(wrong.pattern)
        return
    finding = Finding(
        point=in_short(case, "forward", [*case.inputs.values()]),
        place=wrong.index or (),
        pytorch=repr(wrong.candidate),
        jax=repr(wrong.oracle),
        right=f"{wrong.oracle!r}, within {wrong.allowed or 0:.2g}",
        witness=_WITNESS,
    )
    of_one = [tallies[plain(name)] for name in case.inputs if wrong.label == f"{input_name(name)}_bar"]
    for tally in of_one or tallies.values():
        tally.found(Verdict.WRONG_IN_PYTORCH, f"{wrong.circumstance}: {wrong.pattern}", lambda: finding)
