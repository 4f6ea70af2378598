"""vjp: the gradients, with a dense signed random cotangent on every output at once.

`torch.autograd.gradcheck` has one-hot cotangents and one output at a time, so a backward that is nonlinear in its
cotangent, or wrong only when two cotangents meet, passes there.
"""

from parity_tests.harness.checks.check import Check


def _run(trial):
    args = trial.arguments("vjp")
    yield from trial.compare("vjp", args, trial.evaluate("vjp", args))


CHECK = Check(
    "vjp",
    "a wrong backward; one that is wrong only with every cotangent there, or nonlinear in it",
    ("vjp",),
    _run,
    large=True,
)
