"""jvp: forward mode, with a tangent on every input."""

from parity_tests.harness.checks.check import Check


def _run(trial):
    args = trial.arguments("jvp")
    yield from trial.compare("jvp", args, trial.evaluate("jvp", args))


CHECK = Check(
    "jvp", "a wrong forward-mode formula: a missing term, a tangent of another input", ("jvp",), _run, large=True
)
