"""jvp: forward mode, with a tangent on every input, and on some of them only."""

import numpy as np

from parity_tests.harness.candidates.torch_candidate import Refused
from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under


def has_forward_mode(trial):
    """True if the candidate has forward mode outside of torch.func, which takes a missing rule for zero tangents."""
    try:
        trial.evaluate("jvp", trial.arguments("jvp"))
    except Refused:
        return False
    return True


def _run(trial):
    args, inputs = trial.arguments("jvp"), trial.oracle.inputs
    yield from trial.compare("jvp", args, trial.evaluate("jvp", args))
    if not trial.sample.generic or trial.candidate.framework != "torch":  # JAX makes zeros of what is absent
        return
    primals, tangents = args[: len(inputs)], args[len(inputs) :]
    everything = set(range(len(inputs)))
    subsets = [{i} for i in everything] + [everything - {i} for i in everything]
    for subset in [s for i, s in enumerate(subsets) if s and s != everything and s not in subsets[:i]]:
        some = [t if i in subset else np.zeros_like(t) for i, t in enumerate(tangents)]
        given = [t if i in subset else None for i, t in enumerate(trial.tensors(tangents))]
        names = ", ".join(inputs[i] for i in sorted(subset))
        where = f"only the tangent of {names} is defined"
        with under(where):
            results = trial.candidate.jvp(trial.tensors(primals), given)
        yield from trial.compare("jvp", [*primals, *some], results, where)


CHECK = Check(
    "jvp",
    "a wrong forward-mode formula: a missing term, a tangent of another input, or one dropped where another is absent",
    ("jvp",),
    _run,
    large=True,
)
