"""exact: at small integers, results that no computation can round, bit for bit in every dtype.

No tolerance takes part. For tanh attention such are the points with q = 0 or k = 0; for what is made of sums and
products every small integer.
"""

from dataclasses import replace

import numpy as np

from parity_tests.harness.candidates.torch_candidate import Refused
from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under
from parity_tests.harness.findings import Comparison, NotApplicable
from parity_tests.harness.oracle.defined import has_one_value
from parity_tests.harness.oracle.kinks import accept_one_sided_derivatives
from parity_tests.harness.specs.domains import EXTENDED

_MAPS = ("forward", "vjp", "jvp", "vjp_of_vjp")
_INTEGERS = {
    "real": lambda rng, shape: rng.integers(-2, 3, shape),
    "positive": lambda rng, shape: rng.integers(1, 4, shape),
    "nonzero": lambda rng, shape: rng.choice([-2, -1, 1, 2], shape),
    "sorted": lambda rng, shape: np.sort(rng.integers(-2, 3, shape), axis=-1),
    "distinct": lambda rng, shape: (rng.permutation(int(np.prod(shape))) - np.prod(shape) // 2).reshape(shape),
    "symmetric": lambda rng, shape: _symmetric(rng.integers(-2, 3, shape)),
    "lower": lambda rng, shape: np.tril(rng.integers(-2, 3, shape), -1) + np.eye(shape[-1]),
}


def _symmetric(x):
    return np.tril(x) + np.swapaxes(np.tril(x, -1), -1, -2)


def _run(trial):
    names = trial.oracle.inputs
    domains = ["real" if domain is EXTENDED else domain.name for domain in trial.sample.domains]
    strange = [name for name, domain in zip(names, domains, strict=True) if domain not in _INTEGERS]
    if trial.sample.fixed is not None or strange:
        raise NotApplicable(f"{', '.join(strange) or 'an input that is given'} cannot be set to small integers")
    rng = np.random.default_rng(trial.sample.seed)
    integers = [_INTEGERS[d](rng, shape) * 1.0 for d, shape in zip(domains, trial.sample.shapes, strict=True)]
    points = {"small integers": integers}
    for i, (name, domain) in enumerate(zip(names, domains, strict=True)):
        if domain in ("real", "symmetric"):
            points[f"small integers, {name} = 0"] = [0 * x if i == j else x for j, x in enumerate(integers)]
    findings = [
        f
        for where, x in points.items()
        for name in (_MAPS if has_one_value(trial.oracle, x) else ("forward",))
        for f in _exactly(trial, name, x, rng, where)
    ]
    if all(f.holds and not f.evidence for f in findings):
        raise NotApplicable("at small integers every result is zero, or has to be rounded")
    yield from findings


def _exactly(trial, name, primals, rng, where):
    slots, shapes, dtypes = trial.oracle.map(name), trial.oracle.shapes(trial.sample.shapes), trial.oracle.dtypes
    directions = [
        # Even, so that a half is exact.
        trial.oracle.directed(slot.like, (2.0 * rng.integers(-2, 3, shapes[slot.like])).astype(dtypes[slot.like]))
        for slot in slots.arguments[len(primals) :]
    ]
    args = [*primals, *directions]
    truths = trial.oracle.ask(name, args, trial.precision, inputs=0)
    if all(truth.bound.any() for truth in truths):
        return
    try:
        with under(where):
            results = trial.evaluate(name, args)
    except Refused:
        if name in ("forward", "vjp"):
            raise
        return  # which the check of that name reports
    except RuntimeError:
        if all(np.isfinite(truth.bound).all() for truth in trial.truth("forward", primals)):
            raise
        return  # a solver may say that a matrix is singular
    findings = []
    for truth, result in zip(truths, results, strict=True):
        if not truth.bound.any():
            compared = trial.compare_result(name, truth, result, where)
            findings += [replace(f, call=(name, args)) if isinstance(f, Comparison) else f for f in compared]
    yield from accept_one_sided_derivatives(trial, name, args, findings, where)


CHECK = Check(
    "exact",
    "an error that a tolerance hides: small integers whose derivatives are integers, bit for bit in every dtype",
    ("vjp", "jvp", "vjp_of_vjp"),
    _run,
    generic=True,
    real_only="only products of real integers are known to be exact",
)
