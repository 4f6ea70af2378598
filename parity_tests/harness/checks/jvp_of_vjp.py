"""jvp_of_vjp: forward over reverse, the cheap Hessian-vector product."""

from parity_tests.harness.checks.check import Check


def _run(trial):
    args = trial.arguments("jvp_of_vjp")
    yield from trial.compare("jvp_of_vjp", args, trial.evaluate("jvp_of_vjp", args))


CHECK = Check("jvp_of_vjp", "a backward whose forward derivative is wrong or missing", ("jvp_of_vjp",), _run)
