"""adjoint: ⟨w, J u⟩ = ⟨Jᵀ w, u⟩ with the candidate's own JVP and VJP; no finite difference.

u has random magnitudes and the signs of the oracle's Jᵀ w: nothing cancels in the sum, so that no mistake can hide in
its rounding. Of complex arrays the product is Re(conj(a) b), by which PyTorch's two modes are each other's adjoint.
"""

import numpy as np

from parity_tests.harness.checks.check import Check
from parity_tests.harness.findings import Comparison
from parity_tests.harness.numbers import conversion
from parity_tests.harness.numbers.complex_parts import by_parts, products


def _run(trial):
    count = len(trial.primals)
    reverse_args = trial.arguments("vjp")
    w = reverse_args[count:]
    tangents, gradients = trial.arguments("jvp")[count:], trial.truth("vjp", reverse_args)
    u = [
        by_parts(np.copysign, x, trial.oracle.directed(name, gradient.value))  # still a direction of the input's domain
        for name, x, gradient in zip(trial.oracle.inputs, tangents, gradients, strict=True)
    ]
    forward_args = [*reverse_args[:count], *u]
    pushed = trial.candidate.jvp(*_split(trial.tensors(forward_args), count))
    pulled = trial.candidate.vjp(*_split(trial.tensors(reverse_args), count))
    left, left_bound = _inner(w, pushed, trial.truth("jvp", forward_args))
    right, right_bound = _inner(u, pulled, trial.truth("vjp", reverse_args))
    yield Comparison("⟨w, J u⟩ - ⟨Jᵀ w, u⟩", np.array([left]), np.array([right]), np.array([left_bound + right_bound]))


def _split(tensors, count):
    return tensors[:count], tuple(tensors[count:])


def _inner(directions, results, truths):
    """⟨direction, result⟩ summed over all results, and how far rounding in the results may carry it."""
    value = bound = 0.0
    for direction, result, truth in zip(directions, results, truths, strict=True):
        if result is not None:
            value += float(np.sum(products(direction, conversion.to_numpy(result))))
        bound += float(np.sum(np.abs(direction) * truth.bound))
    return value, bound


CHECK = Check("adjoint", "a JVP and a VJP that are not each other's transpose", ("vjp", "jvp"), _run)
