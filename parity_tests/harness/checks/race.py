"""race: no two accesses of a Pallas kernel to the same memory, one of which is a write, come in any order.

The values may be right all the same: on this run, on this machine.
"""

import contextlib

from parity_tests.harness.candidates.pallas_races import detected_races, is_for_gpus
from parity_tests.harness.candidates.reasons import Reason
from parity_tests.harness.candidates.torch_candidate import Refused
from parity_tests.harness.checks.check import Check
from parity_tests.harness.findings import Fact, NotApplicable
from parity_tests.harness.numbers.formats import FORMATS


def _run(trial):
    if trial.candidate.framework != "jax":
        raise NotApplicable("only Pallas kernels have a race detector that needs no GPU")
    trial = trial.in_format(FORMATS["float32"])  # the simulated cores are threads, which have JAX's default precision
    args, count = trial.arguments("vjp"), len(trial.primals)
    tensors = trial.tensors(args)
    for_gpus = is_for_gpus(trial.candidate.program(tensors[:count]))
    with detected_races(for_gpus) as races, _refused_by_the_interpreter(for_gpus):
        trial.candidate.forward(tensors[:count])
    if races.ran:
        yield Fact("forward", not races.found, _told(races.found))
    with contextlib.suppress(Refused):  # the check "vjp" reports it
        for_gpus = is_for_gpus(trial.candidate.program(tensors[:count], tensors[count:]))
    with detected_races(for_gpus) as backward, contextlib.suppress(Refused):
        trial.candidate.vjp(tensors[:count], tensors[count:])
    if not races.ran and not backward.ran:
        raise NotApplicable("the candidate goes through no Pallas kernel")
    if backward.ran:
        yield Fact("backward", not backward.found, _told(backward.found))


@contextlib.contextmanager
def _refused_by_the_interpreter(for_gpus):
    try:
        yield
    except Refused as refusal:
        if not for_gpus:
            raise
        reason = str(refusal.__cause__ or refusal).strip() or "it asserts otherwise"
        raise Refused(
            f"JAX's interpreter of Mosaic GPU kernels does not run this one: {reason}", Reason.NOT_INTERPRETED
        ) from refusal


def _told(found):
    return f"has a race: {'; '.join(found)}"


CHECK = Check(
    "race",
    "a copy that is read before it has ended, two steps of a grid or two threads that write to one place at once",
    (),
    _run,
    generic=True,
    one_dtype=True,
    on_request=True,
)
