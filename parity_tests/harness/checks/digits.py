"""digits: results where formulas cancel: small and large numbers of both signs, of every order of magnitude.

What is beyond the oracle's bound is a disagreement as everywhere, unless another right formula explains it
(`harness.trial.other_formulas`); a map that is wrong at the sample itself is left to the check of its name. What is
right, and has yet lost digits that the problem does not force anybody to lose, is reported as such
(`harness.trial.digits`); it is a disagreement, too, with `OpSpec(accurate=True)`.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from parity_tests.harness.candidates.torch_refusals import Refused
from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under
from parity_tests.harness.findings import Comparison, Finding, NotApplicable
from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.oracle.defined import has_one_value
from parity_tests.harness.trial.digits import MOST_EFFORT, Loss, effort, losses, why_not
from parity_tests.harness.trial.other_formulas import explained_by_another
from parity_tests.harness.trial.trial import Trial

_MAPS = ("forward", "vjp", "jvp")
# From where series are summed to where an exponential in float32 underflows. None of them is a round number, at which
# an operator may have a kink.
_SIZES = (1.1e-6, 1.1e-3, 0.12, 1.3, 4.7, 17.3, 37.0, 83.0)
_MOST_PLACES = 4
_PLACED = ("real", "extended", "nonzero", "positive")


def _run(trial) -> Iterator[Finding]:
    reason = why_not(trial, _MAPS)
    if reason is not None:
        raise NotApplicable(f"lost digits are not looked for: {reason}")
    worst: dict[str, Loss] = {}
    left_out: set[str] = set()  # what the check of that name reports
    most = MOST_EFFORT // max(1, effort(trial, _MAPS))  # places: fewer of an operator with a large program
    for place, primals in itertools.islice(_places(trial), most):
        for name in _MAPS if has_one_value(trial.oracle, primals) else ():
            if name in left_out:
                continue
            args = [*primals, *trial.arguments(name)[len(primals) :]]
            try:
                with under(place):
                    results = trial.evaluate(name, args)
            except Refused:
                if name != "jvp":
                    raise
                left_out.add(name)
                continue
            findings = list(trial.compare(name, args, results, place))
            if not place and not all(f.holds for f in findings):
                left_out.add(name)
                continue
            if place:
                findings = explained_by_another(trial, name, args, findings)
            yield from findings
            compared = [f for f in findings if isinstance(f, Comparison) and f.holds]
            if len(compared) == len(findings):
                known = {label: loss.excess for label, loss in worst.items()}
                for loss in losses(trial, name, args, compared, known):
                    if loss.excess > known.get(loss.comparison.label, -1.0):
                        worst[loss.comparison.label] = loss
    if left_out.issuperset(_MAPS):
        raise NotApplicable("all results are wrong at the sample itself, which the checks of these maps report")
    for loss in worst.values():
        yield loss.finding(trial)
        if trial.oracle.spec.accurate:
            where = "; ".join(filter(None, (loss.comparison.circumstance, "OpSpec(accurate=True)")))
            yield replace(loss.comparison, circumstance=where)


def _places(trial: Trial) -> Iterator[tuple[str, list[np.ndarray]]]:
    """The sample itself, and inputs of numbers of every size, with the name of each place."""
    generic = trial.primals
    yield "", generic
    if trial.sample.fixed is not None:
        return
    placed = [i for i, domain in enumerate(trial.sample.domains) if domain.name in _PLACED and generic[i].size]
    if not placed:
        return
    rng = np.random.default_rng([trial.sample.seed, zlib.crc32(trial.sample.name.encode())])
    drawn = {i: _numbers(rng, trial, trial.sample.domains[i].name != "positive", generic[i].size) for i in placed}
    names = ", ".join(trial.oracle.inputs[i] for i in placed)
    verb = "has" if len(placed) == 1 else "have"
    for k in range(max(len(x) for x in drawn.values())):
        primals = list(generic)
        for i, x in drawn.items():
            primals[i] = trial.precision.rounded(x[k % len(x)].reshape(generic[i].shape))
        yield f"{names} {verb} small and large numbers", primals
    if trial.precision.u == trial.precision.u_acc:  # float16 has no room for them
        below = _below(trial.precision)
        primals = [
            trial.precision.rounded(np.copysign(1 + np.abs(x), x) * below) if i in placed else x
            for i, x in enumerate(generic)
        ]
        yield f"{names} {verb} squares that underflow", primals


def _below(precision: Precision) -> float:
    """A power of two whose square underflows, although it is itself far from the format's smallest numbers."""
    return 2.0 ** (math.log2(precision.smallest) // 2 - 2)


def _numbers(rng: np.random.Generator, trial: Trial, signed: bool, size: int) -> np.ndarray:
    """Rows of `size` numbers of every size and sign in a random order; as many as hold each once, if not too many.

    None of them is subnormal in the format: an intermediate of their size then has as few digits as they have.
    """
    smallest_normal = trial.precision.smallest / (2 * trial.precision.u)
    sizes = [x for x in _SIZES if x > smallest_normal]
    values = np.concatenate([sizes, np.negative(sizes)]) if signed else np.array(sizes)
    count = min(_MOST_PLACES, -(-len(values) // size))
    chosen = np.concatenate([rng.permutation(values) for _ in range(-(-count * size // len(values)))])[: count * size]
    return (chosen * rng.uniform(1, 1.06, chosen.shape)).reshape(count, size)


CHECK = Check(
    "digits",
    "a result without correct digits where the oracle's own formula cancels; wrong numbers far from the usual ones",
    ("vjp", "jvp"),
    _run,
    generic=True,
    real_only="extended precision has real numbers only",
)
