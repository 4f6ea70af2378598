"""vjp: the gradients, with a dense signed random cotangent on every output at once.

`torch.autograd.gradcheck` has one-hot cotangents and one output at a time, so a backward that is nonlinear in its
cotangent, or wrong only when two cotangents meet, passes there.
"""

import numpy as np

from parity_tests.harness.checks.check import Check
from parity_tests.harness.findings import Convention
from parity_tests.harness.numbers import conversion


def _run(trial):
    args = trial.arguments("vjp")
    results = trial.evaluate("vjp", args)
    yield from trial.compare("vjp", args, results)
    if trial.sample.generic:
        yield from _off_the_domain(trial, args, results)


def _off_the_domain(trial, args, results):
    """A convention for what a gradient has outside of its input's domain, if the oracle differs there.

    No tangent of the domain can tell, so that nothing there is wrong: of a function of a lower triangle that is what it
    has above the diagonal, of a symmetric matrix the antisymmetric part.
    """
    for truth, result in zip(trial.truth("vjp", args), results, strict=True):
        if result is None or tuple(result.shape) != truth.value.shape:
            continue
        values = conversion.to_numpy(result)
        with np.errstate(invalid="ignore"):  # infinity less infinity: nothing is said of such an entry
            off, expected = (x - trial.oracle.compared("vjp", truth.like, x) for x in (values, truth.value))
            room = truth.bound + trial.oracle.compared_errors("vjp", truth.like, truth.bound, truth.value)
            visible = (np.abs(off) > room) & (np.abs(off - expected) > room)
        if visible.any():
            domain = trial.oracle.domains[truth.like].name
            text = (
                f"up to {np.abs(off[visible]).max():.2g} outside of the domain {domain}, where the oracle is up to "
                f"{np.abs(expected[visible]).max():.2g}; no tangent of the domain can tell"
            )
            yield Convention(truth.label, text, f"sample {trial.sample.name}")


CHECK = Check(
    "vjp",
    "a wrong backward; one that is wrong only with every cotangent there, or nonlinear in it",
    ("vjp",),
    _run,
    large=True,
)
