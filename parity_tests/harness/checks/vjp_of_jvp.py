"""vjp_of_jvp: reverse over forward."""

from parity_tests.harness.checks.check import Check


def _run(trial):
    args = trial.arguments("vjp_of_jvp")
    yield from trial.compare("vjp_of_jvp", args, trial.evaluate("vjp_of_jvp", args))


CHECK = Check("vjp_of_jvp", "a jvp that autograd cannot see through", ("vjp_of_jvp",), _run)
