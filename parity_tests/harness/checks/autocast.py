"""autocast: values and gradients of float32 inputs under torch.autocast, within what its 16-bit format explains.

To bfloat16 and to float16, where the device's autocast has it. The backward runs outside of autocast, as PyTorch's
users are told to run it, and once more inside of it, as many run it: then of parameters and the result of an operation,
as in a layer of a network.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from parity_tests.harness.candidates.reasons import Reason
from parity_tests.harness.candidates.torch_candidate import Candidate, Refused
from parity_tests.harness.candidates.torch_refusals import has_two_dtypes
from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import first_line, under
from parity_tests.harness.findings import Finding, NotApplicable
from parity_tests.harness.numbers import conversion
from parity_tests.harness.numbers.formats import PRECISIONS, Precision
from parity_tests.harness.trial.reference_calls import replaced
from parity_tests.harness.trial.trial import Trial
from parity_tests.harness.trial.two_formats import compared, in_either

_FLOAT32, _SHORT = PRECISIONS["float32"], (PRECISIONS["bfloat16"], PRECISIONS["float16"])


def _run(trial: Trial) -> Iterator[Finding]:
    if trial.oracle.is_complex:
        raise NotApplicable(CHECK.real_only)
    if not trial.exists_in(_FLOAT32):
        raise NotApplicable(f"its inputs are of {_FLOAT32.name}, which OpSpec.dtypes leaves out")
    refusal: Refused | None = None
    asked = told = False
    for precision in _SHORT:
        if not _has(trial.device, precision):
            continue
        for inside in (False, True):
            try:
                for finding in _under_autocast(trial, precision, inside):
                    asked, told = True, told or not finding.holds or finding.evidence > 0
                    yield finding
            except RuntimeError as error:
                if not has_two_dtypes(error):
                    raise
                reason = f"meets two dtypes under autocast (torch.amp.custom_fwd?): {first_line(error)}"
                refusal = refusal or Refused(reason, Reason.TWO_DTYPES)
                refusal.__cause__ = refusal.__cause__ or error
    if refusal is not None:
        raise refusal
    if not asked:
        raise NotApplicable("the reference raises under autocast, too")
    if not told:
        raise NotApplicable("in the dtypes of autocast no bound tells a result from 0")


def _has(device: str, precision: Precision) -> bool:
    """Whether autocast to a format is more than a warning on a device."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with _autocast(device, precision):
            return torch.is_autocast_enabled(torch.device(device).type)


def _autocast(device: str, precision: Precision, enabled: bool = True) -> torch.autocast:
    return torch.autocast(torch.device(device).type, getattr(torch, precision.name), enabled=enabled)


def _under_autocast(trial: Trial, precision: Precision, inside: bool) -> Iterator[Finding]:
    # Inputs, cotangents and truths are the short format's, the tensors float32's: what autocast casts is cast exactly.
    exact, given = replace(trial, precision=precision), replace(trial, precision=_FLOAT32)
    args, count = exact.arguments("vjp"), len(trial.primals)
    constants = conversion.constants(trial.sample.constants, _FLOAT32, trial.device)
    candidate = trial.candidate.with_constants(constants)
    assert isinstance(candidate, Candidate)
    tensors = given.tensors(args)
    where = f"under autocast to {precision.name}"
    if inside:
        candidate = candidate.after_operations([0])
        tensors[1:count] = map(torch.nn.Parameter, tensors[1:count])
        where += f", {trial.oracle.inputs[0]} the result of an operation" + ", the others parameters" * (count > 1)
    try:
        with _autocast(trial.device, precision), under(where):
            graph = candidate.record(tensors[:count])
    except RuntimeError as error:
        reference = replaced(trial.oracle.spec, constants, trial.oracle.params)
        if has_two_dtypes(error) or reference is None or not _raises(reference, tensors[:count], precision):
            raise
        return  # as of a mask of -1e9, which float16 does not have
    outputs = trial.counted("forward", graph.outputs)
    cotangents = [w.to(y.dtype) for w, y in zip(tensors[count:], outputs, strict=True)]
    of_backward = f"{where}, the backward {'inside' if inside else 'outside'} of it"
    with _autocast(trial.device, precision, inside), under(of_backward):
        gradients = graph.vjp(cotangents)
    yield from in_either(exact, _FLOAT32, outputs, where, "of autocast")
    yield from compared(exact, _FLOAT32, "forward", args[:count], outputs, where)
    yield from compared(exact, _FLOAT32, "vjp", args, gradients, of_backward)


def _raises(reference: Candidate, tensors: Sequence[torch.Tensor], precision: Precision) -> bool:
    try:
        with _autocast(str(tensors[0].device), precision):
            reference.record(tensors)
    except RuntimeError:
        return True
    return False


CHECK = Check(
    "autocast",
    "a dtype written down, where autocast has another; a path of its own under autocast, or in a backward inside of "
    "it, that is wrong",
    ("vjp",),
    _run,
    generic=True,
    one_dtype=True,
    torch_only="autocast is PyTorch's",
    real_only="autocast casts no complex numbers",
)
