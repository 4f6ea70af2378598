"""The acceptance rules that people use for a kernel's numbers, each as its users have set it.

All rules see the same inputs, cotangents and results of a version, outputs and gradients alike, and must accept all of
them. Where a rule needs a reference, it is the result in float64 at the same rounded inputs, rounded to the format: no
rule suffers from an inaccurate reference, unless its users compare with one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from parity_tests.operators.operator import Tensors


@dataclass(frozen=True)
class Results:
    """The results that a rule for numbers compares.

    Attributes:
        found: the outputs and gradients of the version that is judged, in the format.
        exact: the same in float64.
        eager: the same of PyTorch's composition in the format.
        outputs: how many of them are outputs.
    """

    found: Tensors
    exact: Tensors
    eager: Tensors
    outputs: int

    def in_turn(self) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Yield what was found, the rounded reference and eager, in float64; and what was found, in the format."""
        for found, exact, eager in zip(self.found, self.exact, self.eager, strict=True):
            yield found.double(), exact.to(found.dtype).double(), eager.double(), found


Rule = Callable[[Results], bool]


def _allclose(tolerance: float) -> Rule:
    def accepts(results: Results) -> bool:
        return all(torch.allclose(x, ref, tolerance, tolerance) for x, ref, _, _ in results.in_turn())

    return accepts


def _allclose_to_eager(results: Results) -> bool:
    """Accept as KernelBench does (`eval.py`): 1e-2 in the 16-bit formats, of PyTorch's operations in the format."""
    return all(torch.allclose(x, eager, 1e-2, 1e-2) for x, _, eager, _ in results.in_turn())


def _assert_close(results: Results) -> bool:
    """Accept by the defaults of `torch.testing.assert_close`: 1.3e-6, 1.6e-2, 1e-3 relative and 1e-5 absolute."""
    try:
        for found, exact in zip(results.found, results.exact, strict=True):
            torch.testing.assert_close(found, exact.to(found.dtype))
    except AssertionError:
        return False
    return True


def _three_times_eager(results: Results) -> bool:
    """Accept as flash-attention 2 does (`tests/test_flash_attn.py`): 2 (outputs) or 3 times eager's largest error."""
    return all(
        bool((x - ref).abs().max() <= (2 if i < results.outputs else 3) * (eager - ref).abs().max())
        for i, (x, ref, eager, _) in enumerate(results.in_turn())
    )


def _twice_eager(results: Results) -> bool:
    """Accept as flash-attention 3 does (`hopper/test_flash_attn.py`): 2 times eager's error and 2 roundings at 0.3."""
    accepted = True
    for x, ref, eager, found in results.in_turn():
        rounded = ref.to(found.dtype)
        allowance = 2 * (rounded + 0.3 - 0.3 - rounded).abs().max().double()
        accepted &= bool((x - ref).abs().max() <= 2 * (eager - ref).abs().max() + allowance)
    return accepted


def _rms_ratio(results: Results) -> bool:
    """Accept as flash-linear-attention does (`fla/utils`, `assert_close`, outside of its CI) with its usual 0.005."""
    for x, ref, _, _ in results.in_turn():
        error = x - ref
        if bool(error.abs().max() <= 1e-6):
            continue
        ratio = error.square().mean().sqrt() / (ref.square().mean().sqrt() + 1e-8)
        if not bool(ratio < 0.005):
            return False
    return True


def _correlation(results: Results) -> bool:
    """Accept as tt-metal does (`comp_pcc`, 0.99), which sets NaN to zero before it compares; here NaN is rejected."""
    return all(
        bool(torch.corrcoef(torch.stack([x.flatten(), ref.flatten()]))[0, 1] >= 0.99)
        for x, ref, _, _ in results.in_turn()
    )


RULES: dict[str, Rule] = {
    "allclose 1e-2": _allclose(1e-2),  # BackendBench, and many test suites
    "allclose 1e-2 to eager": _allclose_to_eager,
    "allclose 5e-2": _allclose(5e-2),
    "assert_close": _assert_close,
    "2 x eager": _twice_eager,
    "3 x eager": _three_times_eager,
    "RMS ratio 0.005": _rms_ratio,
    "correlation 0.99": _correlation,
}
