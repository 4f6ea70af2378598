"""mixed_dtypes: one input in bfloat16 and the others in float32, and the reverse, as weights in float32 are the rule.

The same with float16. Whoever refuses such a call is not judged. Whoever takes it computes within the error that the
shorter format explains, and each gradient has the dtype of its input.
"""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Iterator
from dataclasses import replace

import torch

from parity_tests.harness.candidates.reasons import PYTORCH
from parity_tests.harness.candidates.torch_refusals import BadOutput, Refused, has_two_dtypes
from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import first_line, under
from parity_tests.harness.findings import Fact, Finding, NotApplicable
from parity_tests.harness.numbers import conversion
from parity_tests.harness.numbers.formats import PRECISIONS, Precision
from parity_tests.harness.trial.trial import Trial
from parity_tests.harness.trial.two_formats import compared, in_either

_FLOAT32, _SHORT = PRECISIONS["float32"], (PRECISIONS["bfloat16"], PRECISIONS["float16"])


def _run(trial: Trial) -> Iterator[Finding]:
    if trial.oracle.is_complex:
        raise NotApplicable(CHECK.real_only)
    names = trial.oracle.inputs
    if len(names) < 2:
        raise NotApplicable("it has one input that is differentiated, so there are no dtypes to mix")
    formats = list(filter(trial.exists_in, _SHORT))
    if absent := trial.absent_in(_FLOAT32) or (None if formats else trial.absent_in(_SHORT[0])):
        raise NotApplicable(absent)
    refusals = list[Exception]()
    patterns = [
        tuple((i == j) != reverse for j in range(len(names))) for reverse in (False, True) for i in range(len(names))
    ]
    calls = [*itertools.product(formats, dict.fromkeys(patterns))]
    for precision, short in calls:
        try:
            yield from _judged(trial, precision, short)
        except _TwoDtypes as refusal:
            refusals.append(refusal)
    if len(refusals) == len(calls):
        raise NotApplicable(f"it takes no inputs of two dtypes: {refusals[0]}")


class _TwoDtypes(Exception):
    """Raised where the candidate refuses a call with inputs of two dtypes; the message is the candidate's."""


def _judged(trial: Trial, precision: Precision, short: tuple[bool, ...]) -> Iterator[Finding]:
    """Values and gradients where these inputs are in a format of 16 bits and the others in float32."""
    # All numbers are exact in the shorter format, so that both dtypes have them.
    exact, count = replace(trial, precision=precision), len(short)
    args = exact.arguments("vjp")
    dtypes = [getattr(torch, (precision if x else _FLOAT32).name) for x in short]
    tensors = replace(trial, precision=_FLOAT32).tensors(args)
    inputs = [x.to(dtype) for x, dtype in zip(tensors[:count], dtypes, strict=True)]
    constants = conversion.constants(trial.sample.constants, _FLOAT32, trial.device)
    candidate = trial.candidate.with_constants(constants)
    shorter = [name for name, x in zip(trial.oracle.inputs, short, strict=True) if x]
    where = f"{', '.join(shorter)} in {precision.name}, the other inputs in float32"
    try:
        with under(where), _without_warnings():
            recorded = candidate.record(inputs).outputs
    except BadOutput:
        raise
    except Exception as error:  # PyTorch's or the author's: it does not take such a call
        raise _TwoDtypes(first_line(error)) from error
    outputs = trial.counted("forward", recorded)
    yield from in_either(exact, _FLOAT32, outputs, where, "of some inputs")
    yield from compared(exact, _FLOAT32, "forward", args[:count], outputs, where)
    cotangents = [w.to(y.dtype) for w, y in zip(tensors[count:], outputs, strict=True)]
    try:
        with under(where), _without_warnings():
            gradients = candidate.vjp(inputs, cotangents)
    except (Refused, RuntimeError) as error:  # the forward has taken them: what counts is PyTorch's word alone
        if not (error.reason.whose == PYTORCH if isinstance(error, Refused) else has_two_dtypes(error)):
            raise
        raise _TwoDtypes(first_line(error)) from error
    for name, gradient, dtype in zip(trial.oracle.inputs, gradients, dtypes, strict=True):
        if gradient is not None:
            text = f"is {gradient.dtype}, its input is {dtype}"
            yield Fact(f"{name}_bar", gradient.dtype == dtype, text, where, evidence=0)
    yield from compared(exact, _FLOAT32, "vjp", args, gradients, where)


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Ignore warnings, by which PyTorch says that two dtypes take a slower path: nobody has chosen them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


CHECK = Check(
    "mixed_dtypes",
    "a dtype taken for that of all inputs: a result in the wrong one, rounded twice too often, or wrong",
    ("vjp",),
    _run,
    generic=True,
    one_dtype=True,
    torch_only="PyTorch's operators take inputs of two dtypes, JAX promotes them first",
    real_only="dtypes of 16 bits have no complex numbers",
)
