"""vjp_of_vjp: reverse over reverse, the double backward."""

from parity_tests.harness.checks.check import Check
from parity_tests.harness.trial.residuals import residuals


def _run(trial):
    args = trial.arguments("vjp_of_vjp")
    findings = list(trial.compare("vjp_of_vjp", args, trial.evaluate("vjp_of_vjp", args)))
    yield from findings
    if not all(finding.holds for finding in findings):
        yield from residuals(trial)


CHECK = Check(
    "vjp_of_vjp",
    "a saved intermediate, or a backward that autograd cannot see through, which is right at first order only",
    ("vjp_of_vjp",),
    _run,
)
