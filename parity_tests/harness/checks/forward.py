"""forward: the outputs."""

from parity_tests.harness.checks.check import Check


def _run(trial):
    args = trial.arguments("forward")
    yield from trial.compare("forward", args, trial.evaluate("forward", args))


CHECK = Check("forward", "a wrong value, shape, dtype or number of outputs", (), _run, large=True)
