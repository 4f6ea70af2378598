"""Sums of gradients, as autograd adds them up: of an input that is given twice, or of several backwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from parity_tests.harness.findings import Comparison, Finding
from parity_tests.harness.numbers import conversion
from parity_tests.harness.oracle.oracle import Arrays
from parity_tests.harness.oracle.truth import Truth, total
from parity_tests.harness.trial.trial import Trial

Term = tuple[Arrays, int]  # the arguments of a VJP, and which of its results


def compare_sum(
    trial: Trial,
    terms: Sequence[Term],
    result: torch.Tensor | None,
    circumstance: str,
    known: np.ndarray | None = None,
) -> list[Finding]:
    """Compare a result with a sum of the oracle's gradients, and of an array that is exact in the format.

    Where the oracle's gradient is one of several that are right, as at a kink, the candidate's may be another one. That
    is no matter of sums: what differs is compared with the sum of the candidate's own gradients, each by itself.
    """
    found = _compared(trial, terms, result, circumstance, known)
    return found if known is None else [_without(trial, known, terms[0][1], finding) for finding in found]


def _without(trial: Trial, known: np.ndarray, i: int, finding: Finding) -> Finding:
    """A comparison of a sum without the part that is known, by which a gradient that is 0 would be no evidence."""
    if not isinstance(finding, Comparison):
        return finding
    part = trial.oracle.compared("vjp", trial.oracle.inputs[i], known)
    return replace(finding, candidate=finding.candidate - part, oracle=finding.oracle - part)


def _compared(
    trial: Trial, terms: Sequence[Term], result: torch.Tensor | None, circumstance: str, known: np.ndarray | None
) -> list[Finding]:
    truths = [trial.truth("vjp", args)[i] for args, i in terms]
    exact = [] if known is None else [replace(truths[0], value=known, bound=np.zeros(known.shape), overflows=None)]
    found = list(trial.compare_result("vjp", total([*truths, *exact], trial.precision), result, circumstance))
    if all(finding.holds for finding in found):
        return found
    own = [_own(trial, args, i, truth) for (args, i), truth in zip(terms, truths, strict=True)]
    again = list(trial.compare_result("vjp", total([*own, *exact], trial.precision), result, circumstance))
    return again if all(finding.holds for finding in again) else found


def _own(trial: Trial, args: Arrays, i: int, truth: Truth) -> Truth:
    """The candidate's own gradient, by a call of its own, with the bound of the oracle's."""
    x = trial.evaluate("vjp", args)[i]
    value = np.zeros_like(truth.value) if x is None else conversion.to_numpy(x)
    return replace(truth, value=value) if value.shape == truth.value.shape else truth
