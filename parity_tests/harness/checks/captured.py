"""captured: gradients of tensors that the candidate uses without being given them, as a layer its weight.

Found are leaves that require a gradient in closures, globals, partial functions and attributes of objects, and the
parameters and buffers of a module that are no inputs of the operator. A Function that reads one of them, other than as
an input, leaves it without a gradient, and no error says so. The oracle does not know such a tensor. Its gradient,
along a random direction, is judged by differences of the candidate's own values, which the check `forward` judges.

The differences are of the size h = u^(1/3) on both sides, where rounding and curvature are equally small, and twice
that. Allowed is what lies between the slopes of the two sides, which encloses all that is right at a kink, and as much
more as the slopes differ by from side to side and from h to 2h, and as the forward's bounds of rounding make of them.
That tells a gradient that is lost, halved or of another sign, not a small error.

Where nothing is lost without a word, nothing is asked: of what the candidate detaches by itself, or computes under
`torch.no_grad`, and of an operator whose gradient is a choice (`OpSpec.surrogate`). Not found is what only C++ code or
another process holds.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from parity_tests.harness.candidates.captured_tensors import captured_tensors, tensors_of
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.candidates.torch_modules import parameters_are_inputs, with_parameters
from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under
from parity_tests.harness.findings import Convention, Fact, Finding, NotApplicable
from parity_tests.harness.numbers import conversion
from parity_tests.harness.numbers.formats import FORMATS
from parity_tests.harness.trial.trial import Trial

_WHERE = "captured, and no input"
_HARNESS = str(Path(__file__).parents[1])


def _run(trial: Trial) -> Iterator[Finding]:
    if trial.oracle.spec.surrogate is not None:
        raise NotApplicable("the operator's gradient is a choice, of which differences know nothing")
    candidate, tensors = _with_its_tensors(trial)
    if candidate is None or not tensors:
        raise NotApplicable("the candidate captures no tensor that requires a gradient")
    told = False
    for name, tensor in tensors.items():
        finding = _judged(trial, candidate, name, tensor)
        told |= finding.evidence > 0 or isinstance(finding, Convention)
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


def _judged(trial: Trial, candidate: Candidate, name: str, tensor: torch.Tensor) -> Finding:
    """The slope of the outputs against random weights, along a random direction of one captured tensor."""
    count = len(trial.primals)
    weights = trial.arguments("vjp")[count:]
    direction = trial.precision.rounded(trial.sample.draw(f"direction of {name}", tuple(tensor.shape)))
    slope, detaches = _by_autograd(trial, candidate, tensor, weights, direction)
    dtype = str(tensor.dtype.to_real()).removeprefix("torch.")
    precision = max(trial.precision, FORMATS.get(dtype, trial.precision), key=lambda format: format.u)
    h = 2.0 ** round(math.log2(precision.u) / 3)
    before = tensor.detach().clone()

    def value(step: float) -> float:
        with torch.no_grad():
            moved = conversion.to_numpy(before) + step * direction
            tensor.data.copy_(torch.from_numpy(np.asarray(moved)))
        with under(f"{name} moved by {step:g} along a direction"):
            return _against(weights, candidate.forward(_inputs(trial)))

    try:
        left, middle, right = value(-h), value(0.0), value(h)
        far = (value(2 * h) - value(-2 * h)) / (4 * h)
    finally:
        tensor.data.copy_(before)
    sides = sorted([(right - middle) / h, (middle - left) / h])
    near = sum(sides) / 2
    with np.errstate(invalid="ignore", over="ignore"):
        bounds = [y.bound for y in trial.oracle.ask("forward", trial.primals, precision)]
        rounding = 4 * sum(float(np.sum(np.abs(w) * bound)) for w, bound in zip(weights, bounds, strict=True)) / h
        # The direction is rounded with the tensor that it is added to.
        rounding += 2 * precision.u * abs(near) * float(np.max(np.abs(conversion.to_numpy(before)), initial=0.0)) / h
    room = abs(near - far) + (sides[1] - sides[0]) + rounding
    holds = not (slope < sides[0] - room or slope > sides[1] + room)  # NaN tells nothing
    if slope == 0 and not holds and detaches:
        return Convention(
            name, "gets no gradient: the candidate detaches something, or computes it under no_grad", _WHERE
        )
    return Fact(name, holds, _violation(slope, near), _WHERE, evidence=int(math.isfinite(room)))


def _violation(slope: float, near: float) -> str:
    if slope == 0:
        return (
            f"gets no gradient, although the outputs depend on it (slope {near:.4g} along a random direction): make it "
            "an input of the torch.autograd.Function, or require no gradient of it"
        )
    return f"has a gradient of {slope:.6g} along a random direction, where differences of the outputs are {near:.6g}"


def _by_autograd(
    trial: Trial,
    candidate: Candidate,
    tensor: torch.Tensor,
    weights: Sequence[np.ndarray],
    direction: np.ndarray,
) -> tuple[float, bool]:
    """The slope by the candidate's gradient, and whether the candidate detaches anything."""
    with _Detaching() as mode, under(_WHERE):
        graph = candidate.record(_inputs(trial))
    accumulated = tensor.grad
    try:
        with under(_WHERE):
            (gradient,) = replace(graph, inputs=[tensor]).vjp(trial.tensors(weights))
    finally:
        tensor.grad = accumulated
    slope = 0.0 if gradient is None else float(np.sum(np.real(conversion.to_numpy(gradient)) * direction))
    return slope, mode.seen


def _against(weights: Sequence[np.ndarray], outputs: Sequence[torch.Tensor]) -> float:
    """Re <w, y>, in float64."""
    products = zip(weights, map(conversion.to_numpy, outputs), strict=True)
    return sum(float(np.sum(np.conj(w) * y).real) for w, y in products)


class _Detaching(TorchFunctionMode):
    """Notes whether the candidate's code in Python detaches a tensor, or turns the recording of gradients off."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = False

    def __torch_function__(self, func: Callable, types, args=(), kwargs=None):
        turned_off = func is torch._C._set_grad_enabled and args[:1] == (False,)
        of_data = getattr(func, "__self__", None) is torch.Tensor.data
        own = sys._getframe(1).f_code.co_filename.startswith(_HARNESS)
        self.seen |= not own and (turned_off or of_data or func in (torch.Tensor.detach, torch.detach))
        return func(*args, **(kwargs or {}))


CHECK = Check(
    "captured",
    "a tensor that is used without being an input, and that gets no gradient or a wrong one",
    (),
    _run,
    generic=True,
    one_dtype=True,
    torch_only="JAX gives a gradient to arguments only",
)
