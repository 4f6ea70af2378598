"""third_order: reverse over reverse over reverse, as `torch.autograd.grad` nested three times."""

from parity_tests.harness.checks.check import Check


def _run(trial):
    args = trial.arguments("vjp_of_vjp_of_vjp")
    yield from trial.compare("vjp_of_vjp_of_vjp", args, trial.evaluate("vjp_of_vjp_of_vjp", args))


CHECK = Check(
    "third_order",
    "a double backward that autograd cannot see through: right to second order only",
    ("vjp_of_vjp_of_vjp",),
    _run,
    on_request=True,
)
