"""given_size: values and gradients at the size that was given, where all other checks judge at a part of the inputs.

The oracle is not certified there: its certificate is of the same programs at the smaller size.
"""

import math

from parity_tests.harness.checks.check import Check
from parity_tests.harness.findings import NotApplicable
from parity_tests.harness.oracle.cost import entries_of

MOST = 2**27  # entries of all arrays of the oracle: about 5 s, 0.04 s per million, and some GiB; see `oracle.cost`


def _run(trial):
    args = trial.arguments("vjp")
    primals = args[: len(trial.oracle.inputs)]
    needed = sum(entries_of(trial.oracle.traced(*m, by_autodiff=False).closed.jaxpr) for m in _maps(primals, args))
    if needed > MOST:
        length = "a loop of unknown length" if math.isinf(needed) else f"arrays of {needed:,.0f} numbers"
        raise NotApplicable(
            f"not judged at the given size: of {trial.sample.entries:,} numbers the oracle makes {length}, more than "
            f"{MOST:,}; give the problem smaller sizes"
        )
    for name, arguments in _maps(primals, args):
        yield from trial.compare(name, arguments, trial.evaluate(name, arguments))


def _maps(primals, args):
    return ("forward", primals), ("vjp", args)


CHECK = Check(
    "given_size",
    "a grid that is too small, an index that overflows, a part that is left out of a large problem",
    ("vjp",),
    _run,
    whole=True,
    large=True,
    one_dtype=True,
    on_request=True,
)
