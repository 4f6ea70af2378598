"""jvp: forward mode, with a tangent on every input."""

from parity_tests.harness.candidate import Refused
from parity_tests.harness.checks.check import Check


def has_forward_mode(trial):
    """Does it, outside of torch.func, which takes the tangents of an operator without a rule for zeros?"""
    try:
        trial.evaluate("jvp", trial.arguments("jvp"))
    except Refused:
        return False
    return True


def _run(trial):
    args = trial.arguments("jvp")
    yield from trial.compare("jvp", args, trial.evaluate("jvp", args))


CHECK = Check(
    "jvp", "a wrong forward-mode formula: a missing term, a tangent of another input", ("jvp",), _run, large=True
)
