"""vjp_partial: the gradients with some of the cotangents undefined, for every subset, the empty one included.

And of each input where no other one needs a gradient.
"""

import itertools

import numpy as np

from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under
from parity_tests.harness.findings import Fact
from parity_tests.harness.numbers import conversion

_ALL_SUBSETS_UP_TO = 4  # outputs; beyond, the subsets of one, of all but one, and of none


def _proper_subsets(count):
    sizes = range(1, count) if count <= _ALL_SUBSETS_UP_TO else sorted({1, count - 1})
    return [set(subset) for size in sizes for subset in itertools.combinations(range(count), size)]


def _run(trial):
    args = trial.arguments("vjp")
    inputs, outputs = trial.oracle.inputs, trial.oracle.outputs
    primals, cotangents = args[: len(inputs)], args[len(inputs) :]
    labels = [slot.label for slot in trial.oracle.map("vjp").results]
    for subset in _proper_subsets(len(outputs)):
        some = [w if i in subset else None for i, w in enumerate(cotangents)]
        tensors = tuple(t if i in subset else None for i, t in enumerate(trial.tensors(cotangents)))
        where = f"only the cotangent of {', '.join(outputs[i] for i in sorted(subset))} is defined"
        with under(where):
            results = trial.candidate.vjp(trial.tensors(primals), tensors)
        yield from trial.compare("vjp", [*primals, *some], results, where)
        for i, name in enumerate(inputs if trial.sample.generic and len(inputs) > 1 else ()):
            of_one = f"{where}, and {name} alone needs a gradient"
            flags = [j == i for j in range(len(inputs))]
            with under(of_one):
                results = trial.candidate.vjp(trial.tensors(primals), tensors, requires_grad=flags)
            yield from trial.compare("vjp", [*primals, *some], results, of_one, only={labels[i]})

    with under("no cotangent is defined"):
        gradients = trial.candidate.vjp_undefined(trial.tensors(primals))
    if gradients is None:
        return
    zeros = trial.truth("vjp", [*primals, *(np.zeros_like(w) for w in cotangents)])
    for gradient, zero in zip(gradients, zeros, strict=True):
        # Where the operator's own value may overflow the format, 0 times it may be NaN.
        is_zero = gradient is None or not np.any((conversion.to_numpy(gradient) != 0) & np.isfinite(zero.bound))
        yield Fact(zero.label, is_zero, "is not zero, nor None", "no cotangent is defined")


CHECK = Check(
    "vjp_partial",
    "a cotangent that is dropped, or dereferenced although undefined; `or` for `and` on undefined",
    ("vjp",),
    _run,
)
