"""captured: gradients of tensors that the candidate uses without being given them, as a layer its weight.

Found are leaves that require a gradient in closures, globals, partial functions and attributes of objects, and the
parameters and buffers of a module that are no inputs of the operator. A Function that reads one of them, other than as
an input, leaves it without a gradient, and no error says so. The oracle does not know such a tensor. Its gradient,
along a random direction, is judged by differences of the candidate's own values, which the check `forward` judges.

The differences are of the size h = u^(1/3) on both sides, where rounding and curvature are equally small, and twice
that. Allowed is what lies between the slopes of the two sides, which encloses all that is right at a kink, and as much
more as the slopes differ by from side to side and from h to 2h, and as the forward's bounds of rounding make of them.
That tells a gradient that is lost, halved or of another sign, not a small error.

A gradient that these differences contradict may be that of the rest, where the candidate detaches something by itself,
or computes it under `torch.no_grad`: then what is detached keeps its value in the differences, and a gradient that is
lost elsewhere is still told. Nothing is asked of an operator whose gradient is a choice (`OpSpec.surrogate`). Not found
is what only C++ code or another process holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from parity_tests.harness.candidates.captured_tensors import captured_tensors, tensors_of
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.candidates.torch_modules import parameters_are_inputs, with_parameters
from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under
from parity_tests.harness.findings import Convention, Fact, Finding, NotApplicable
from parity_tests.harness.numbers import conversion
from parity_tests.harness.numbers.formats import FORMATS, Precision
from parity_tests.harness.trial.detached import Detached
from parity_tests.harness.trial.trial import Trial

_WHERE = "captured, and no input"


def _run(trial: Trial) -> Iterator[Finding]:
    if trial.oracle.spec.surrogate is not None:
        raise NotApplicable("the operator's gradient is a choice, of which differences know nothing")
    candidate, tensors = _with_its_tensors(trial)
    if candidate is None or not tensors:
        raise NotApplicable("the candidate captures no tensor that requires a gradient")
    told = False
    for name, tensor in tensors.items():
        for finding in _judged(trial, candidate, name, tensor):
            told |= finding.evidence > 0
            yield finding
    if not told:
        raise NotApplicable("no output has a finite error bound there, so that differences tell nothing")


def _with_its_tensors(trial: Trial) -> tuple[Candidate | None, dict[str, torch.Tensor]]:
    """The candidate with the tensors that it captures; of a module with copies of those it has."""
    candidate = trial.candidate
    if not isinstance(candidate, Candidate):
        return None, {}
    module = candidate.source
    if not isinstance(module, torch.nn.Module):
        return candidate, captured_tensors(module)
    are_inputs = parameters_are_inputs(module, len(candidate.positional(_inputs(trial))))
    given = [name for name, _ in module.named_parameters()] if are_inputs else []
    own = {name: x for name, x in tensors_of(module).items() if x.requires_grad and name not in given}
    copies = {name: x.detach().clone().requires_grad_() for name, x in own.items()}
    call = with_parameters(module, [*given, *copies])

    def with_copies(*args: torch.Tensor, **params: object) -> object:
        return call(*args, *copies.values(), **params)

    bound = candidate.through(with_copies).bound(
        candidate.constants, candidate.params, candidate.returns, candidate.arranged
    )
    return bound, copies


def _inputs(trial: Trial) -> list[torch.Tensor]:
    return trial.tensors(trial.primals)


def _judged(trial: Trial, candidate: Candidate, name: str, tensor: torch.Tensor) -> Iterator[Finding]:
    """The slope of the outputs against random weights, along a random direction of one captured tensor."""
    weights = trial.arguments("vjp")[len(trial.primals) :]
    direction = trial.precision.rounded(trial.sample.draw(f"direction of {name}", tuple(tensor.shape)))
    line = _Line(trial, candidate, name, tensor, weights, direction)
    slope, detached = line.by_autograd()
    near, allowed, room = line.by_differences()
    holds = not abs(slope - near) > allowed  # NaN tells nothing
    if not holds and detached.found:
        of_the_rest, allowed, room = line.by_differences(detached)
        holds = not abs(slope - of_the_rest) > allowed
        if holds:
            text = f"{slope:.6g} along a random direction, and {near:.6g} with all that the candidate detaches"
            yield Convention(name, text, _WHERE)
    yield Fact(name, holds, _violation(slope, near), _WHERE, evidence=int(math.isfinite(room)))


@dataclass(frozen=True)
class _Line:
    """The candidate's outputs against weights, Re <w, y>, along a line through one captured tensor."""

    trial: Trial
    candidate: Candidate
    name: str
    tensor: torch.Tensor
    weights: Sequence[np.ndarray]
    direction: np.ndarray

    def by_autograd(self) -> tuple[float, Detached]:
        """The slope by the candidate's gradient, and what the candidate detaches."""
        with Detached() as detached, under(_WHERE):
            graph = self.candidate.record(_inputs(self.trial))
        accumulated = self.tensor.grad
        try:
            with under(_WHERE):
                (gradient,) = replace(graph, inputs=[self.tensor]).vjp(self.trial.tensors(self.weights))
        finally:
            self.tensor.grad = accumulated
        if gradient is None:
            return 0.0, detached
        return float(np.sum(np.real(conversion.to_numpy(gradient)) * self.direction)), detached

    def by_differences(self, detached: Detached | None = None) -> tuple[float, float, float]:
        """The slope by differences, how far from it a right one may be, and that without what a kink makes of it.

        With `detached`, what the candidate detaches has the values at the tensor itself, as its gradient supposes.
        """
        precision, before = _coarser(self.trial, self.tensor), self.tensor.detach().clone()
        h = 2.0 ** round(math.log2(precision.u) / 3)

        def value(step: float) -> float:
            with torch.no_grad():
                moved = conversion.to_numpy(before) + step * self.direction
                self.tensor.data.copy_(torch.from_numpy(np.asarray(moved)))
            with under(f"{self.name} moved by {step:g} along a direction"):
                if detached is None:
                    with torch.no_grad():
                        return self._against(self.candidate.forward(_inputs(self.trial)))
                with detached.held() as held:  # gradients are recorded, as they were: there is nothing to detach else
                    outputs = self.candidate.record(_inputs(self.trial)).outputs
                return self._against(outputs) if held.repeats else math.nan

        try:
            left, middle, right = value(-h), value(0.0), value(h)
            far = (value(2 * h) - value(-2 * h)) / (4 * h)
        finally:
            self.tensor.data.copy_(before)
        sides = ((right - middle) / h, (middle - left) / h)
        near, kink = sum(sides) / 2, abs(sides[1] - sides[0])
        with np.errstate(invalid="ignore", over="ignore"):
            bounds = [y.bound for y in self.trial.oracle.ask("forward", self.trial.primals, precision)]
            products = zip(self.weights, bounds, strict=True)
            rounding = 4 * sum(float(np.sum(np.abs(w) * bound)) for w, bound in products) / h
            # The direction is rounded with the tensor that it is added to.
            largest = float(np.max(np.abs(conversion.to_numpy(before)), initial=0.0))
            rounding += 2 * precision.u * abs(near) * largest / h
        room = abs(near - far) + kink + rounding
        return near, room + kink / 2, room

    def _against(self, outputs: Sequence[torch.Tensor]) -> float:
        products = zip(self.weights, map(conversion.to_numpy, outputs), strict=True)
        return sum(float(np.sum(np.conj(w) * y).real) for w, y in products)


def _coarser(trial: Trial, tensor: torch.Tensor) -> Precision:
    """The format of the trial, or that of the tensor, if it has fewer digits."""
    dtype = str(tensor.dtype.to_real()).removeprefix("torch.")
    return max(trial.precision, FORMATS.get(dtype, trial.precision), key=lambda format: format.u)


def _violation(slope: float, near: float) -> str:
    if slope == 0:
        return (
            f"gets no gradient, although the outputs depend on it (slope {near:.4g} along a random direction): make it "
            "an input of the torch.autograd.Function, or require no gradient of it"
        )
    return f"has a gradient of {slope:.6g} along a random direction, where differences of the outputs are {near:.6g}"


CHECK = Check(
    "captured",
    "a tensor that is used without being an input, and that gets no gradient or a wrong one",
    (),
    _run,
    generic=True,
    one_dtype=True,
    torch_only="JAX gives a gradient to arguments only",
)
