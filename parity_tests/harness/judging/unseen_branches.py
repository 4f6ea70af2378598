"""A branch of a candidate that cannot have run where it was judged: one for a GPU."""

from __future__ import annotations

from collections.abc import Sequence

from parity_tests.harness.candidates.asked_device import OTHER_BRANCH, asks_for_gpu, text_asks_for_gpu
from parity_tests.harness.candidates.torch_log import TorchLog
from parity_tests.harness.checks import Check
from parity_tests.harness.judging.turn import Turn
from parity_tests.harness.solutions.proxy import Solution
from parity_tests.harness.specs.samples import Sample


def unseen_branches(turn: Turn, check: Check, samples: Sequence[Sample]) -> tuple[str, ...]:
    """Return a line if a branch of the candidate cannot have run on a CPU, by one more call after the check's own.

    So whatever crashes or hangs has done so in the row of the check.
    """
    name = "vjp" if "vjp" in check.maps else "forward"
    sample = next((s for s in check.chosen(samples) if not s.has_empty_axis), None)
    on_cpu = turn.plan.device == "cpu" and turn.candidate.framework == "torch"
    if sample is None or name in turn.history.watched or not on_cpu:
        return ()
    turn.history.watched.add(name)
    called = getattr(turn.candidate.source, "func", turn.candidate.source)
    if isinstance(called, Solution):  # nothing of its process is believed, and its text is data
        text = called.process.solved.path.read_text(encoding="utf-8", errors="replace")
        return (OTHER_BRANCH,) if text_asks_for_gpu(text) else ()
    trial = turn.trial_at(check.name, sample)
    with TorchLog():  # the row has the log of the check's own calls
        asked = asks_for_gpu(lambda: trial.evaluate(name, trial.arguments(name)))
    return (OTHER_BRANCH,) if asked else ()
