"""race: no two accesses of a Pallas kernel to the same memory, one of which is a write, come in any order.

The values may be right all the same: on this run, on this machine.
"""

import contextlib

from parity_tests.harness.candidates.pallas_races import detected_races
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
    with detected_races() as races:
        trial.candidate.forward(tensors[:count])
    if races.ran:
        yield Fact("forward", not races.found, _violation(races.found))
    with detected_races() as backward, contextlib.suppress(Refused):  # the check "vjp" reports it
        trial.candidate.vjp(tensors[:count], tensors[count:])
    if not races.ran and not backward.ran:
        raise NotApplicable("the candidate goes through no Pallas kernel")
    if backward.ran:
        yield Fact("backward", not backward.found, _violation(backward.found))


def _violation(found):
    return f"has a race: {'; '.join(found)}"


CHECK = Check(
    "race",
    "a copy that is read before it has ended, two steps of a grid that write to the same block at once",
    (),
    _run,
    generic=True,
    one_dtype=True,
    on_request=True,
)
