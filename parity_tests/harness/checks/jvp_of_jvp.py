"""jvp_of_jvp: forward over forward."""

from parity_tests.harness.checks.check import Check


def _run(trial):
    args = trial.arguments("jvp_of_jvp")
    yield from trial.compare("jvp_of_jvp", args, trial.evaluate("jvp_of_jvp", args))


CHECK = Check("jvp_of_jvp", "a jvp whose own forward derivative is wrong", ("jvp_of_jvp",), _run)
