"""The vmap rule that PyTorch generates for a Function with `generate_vmap_rule`, and what is wrong with it.

An output that depends on no batched input is not batched, so that one cotangent reaches it, the sum over the examples.
PyTorch calls the backward with this sum for every example, and adds up what they return: the sum is counted once for
each. With outputs that are all batched the rule is right, which is how this defect is told from a mistake.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch._C._functorch import _add_batch_dim, is_batchedtensor, maybe_current_level, maybe_get_level
from torch._functorch import autograd_function

from parity_tests.harness.candidates.reasons import Reason
from parity_tests.harness.candidates.torch_refusals import Refused
from parity_tests.harness.findings import Finding
from parity_tests.harness.trial.trial import Trial

COUNTED_OFTEN = (
    "PyTorch's generated vmap rule counts the cotangent of an output that is not batched once for every example, so "
    "that gradients are wrong, for every such Function: write a vmap staticmethod in place of generate_vmap_rule, or "
    "let every output depend on every input (+ 0 * x)"
)


def judged(trial: Trial, compare: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """The findings of a comparison of a candidate under vmap.

    Raises:
        Refused: it fails by PyTorch's defect alone: with outputs that are all batched everything holds.
    """
    findings = list(compare())
    if trial.candidate.framework != "torch" or all(finding.holds for finding in findings):
        return findings
    with outputs_batched() as found:
        again = list(compare())
    if found and all(finding.holds for finding in again):
        raise Refused(COUNTED_OFTEN, Reason.UNBATCHED_OUTPUT)
    return list(compare()) if found else findings  # the last call is the one that a reproducer shows


@contextlib.contextmanager
def outputs_batched() -> Iterator[list[str]]:
    """A block in which generated rules batch all outputs; yields the names of Functions that leave one unbatched."""
    found: list[str] = []
    generate = autograd_function.vmapify_autograd_function

    def generate_batched(function: type[torch.autograd.Function], in_dims: Any, batch_size: int, *others: Any) -> Any:
        return generate(_batched(function, batch_size, found), in_dims, batch_size, *others)

    autograd_function.vmapify_autograd_function = generate_batched  # type: ignore[assignment]
    try:
        yield found
    finally:
        autograd_function.vmapify_autograd_function = generate


def _batched(function: type[torch.autograd.Function], size: int, found: list[str]) -> type[torch.autograd.Function]:
    """The Function with a forward whose outputs are all batched, as it runs under `torch.func.vmap`."""
    forward: Callable = function.forward

    def batched(*args: Any) -> Any:
        level = maybe_current_level()
        assert level is not None  # PyTorch calls this under vmap
        outputs = forward(*args)
        several = isinstance(outputs, tuple)
        results = []
        for y in outputs if several else (outputs,):
            if isinstance(y, torch.Tensor) and not _is_batched(y, level):
                found.append(function.__name__)
                y = _add_batch_dim(y.expand(size, *y.shape), 0, level)
            results.append(y)
        return tuple(results) if several else results[0]

    return type(function.__name__, (function,), {"forward": staticmethod(batched)})


def _is_batched(x: torch.Tensor, level: int) -> bool:
    return is_batchedtensor(x) and maybe_get_level(x) == level
