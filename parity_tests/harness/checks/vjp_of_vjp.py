"""vjp_of_vjp: reverse over reverse, the double backward."""

from parity_tests.harness.checks.check import Check


def _run(trial):
    args = trial.arguments("vjp_of_vjp")
    yield from trial.compare("vjp_of_vjp", args, trial.evaluate("vjp_of_vjp", args))


CHECK = Check(
    "vjp_of_vjp",
    "a saved intermediate, or a backward that autograd cannot see through, which is right at first order only",
    ("vjp_of_vjp",),
    _run,
)
