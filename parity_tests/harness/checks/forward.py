"""forward: the outputs."""

from parity_tests.harness.checks.check import Check
from parity_tests.harness.trial.integers import integer_outputs


def _run(trial):
    args = trial.arguments("forward")
    yield from trial.compare("forward", args, trial.evaluate("forward", args))
    yield from integer_outputs(trial)


CHECK = Check("forward", "a wrong value, shape, dtype or number of outputs", (), _run, large=True)
