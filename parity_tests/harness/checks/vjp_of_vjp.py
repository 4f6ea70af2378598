"""vjp_of_vjp: reverse over reverse, the double backward.

At a generic sample also with cotangents that need no gradient, as in a gradient penalty, and with inputs that need
none, as data or frozen weights: there a backward of a backward may leave out what it should not.
"""

from collections.abc import Iterator

import numpy as np

from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.checks.check import Check
from parity_tests.harness.checks.input_subsets import masks
from parity_tests.harness.exceptions.errors import under
from parity_tests.harness.trial.residuals import residuals

_EACH_CHOICE_UP_TO = 3  # inputs: six choices, each of which costs two double backwards with their bounds


def _run(trial):
    args = trial.arguments("vjp_of_vjp")
    findings = list(trial.compare("vjp_of_vjp", args, trial.evaluate("vjp_of_vjp", args)))
    yield from findings
    if not all(finding.holds for finding in findings):
        yield from residuals(trial)
    elif trial.sample.generic and isinstance(trial.candidate, Candidate):
        yield from _with_constants(trial, args)


def _with_constants(trial, args):
    count, split = len(trial.primals), trial.oracle.map("vjp_of_vjp").base
    for moving, bars in _choices(count):
        flags = (*moving, *(bars for _ in range(split - count)))
        pairs = zip(args[split:], moving, strict=True)
        given = [*args[:split], *(x if flag else np.zeros_like(x) for x, flag in pairs)]  # a constant has no gradient
        frozen = [name for name, flag in zip(trial.oracle.inputs, moving, strict=True) if not flag]
        where = f"no gradient of {', '.join([*frozen, *(() if bars else ('a cotangent',))])} asked for"
        tensors = trial.tensors(given)
        with under(where):
            results = trial.candidate.vjp_of_vjp(count, tensors[:split], tensors[split:], flags)
        slots = zip(trial.oracle.map("vjp_of_vjp").results, flags, strict=True)
        yield from trial.compare("vjp_of_vjp", given, results, where, only={slot.label for slot, flag in slots if flag})


def _choices(count: int) -> Iterator[tuple[tuple[bool, ...], bool]]:
    """Which inputs need a gradient, and whether the cotangents do: of many inputs all, with constant cotangents."""
    yield (True,) * count, False
    for mask in masks(count, pairs=False) if count <= _EACH_CHOICE_UP_TO else ():
        yield from ((mask, bars) for bars in (True, False))


CHECK = Check(
    "vjp_of_vjp",
    "a saved intermediate, or a backward that autograd cannot see through, which is right at first order only",
    ("vjp_of_vjp",),
    _run,
)
