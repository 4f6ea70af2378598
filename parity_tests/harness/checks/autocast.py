"""autocast: values and gradients of float32 inputs under torch.autocast to bfloat16, within what bfloat16 explains.

The backward runs outside of autocast, as PyTorch's users are told to run it.
"""

import re
from dataclasses import replace

import torch

from parity_tests.harness.candidates.reasons import Reason
from parity_tests.harness.candidates.torch_candidate import Refused
from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under
from parity_tests.harness.findings import Fact, NotApplicable
from parity_tests.harness.numbers import conversion
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.oracle.kinks import accept_one_sided_derivatives

_FLOAT32, _BFLOAT16 = PRECISIONS["float32"], PRECISIONS["bfloat16"]
_TWO_DTYPES = r"same dtype|expected scalar type|dtype of .* must match|to have the same .*type"


def _run(trial):
    # Inputs, cotangents and truths are bfloat16's, the tensors float32's: what autocast casts is cast exactly.
    if trial.oracle.is_complex:
        raise NotApplicable(CHECK.real_only)
    if not trial.oracle.spec.exists_in(_FLOAT32.name):
        raise NotApplicable(f"its inputs are of {_FLOAT32.name}, in which OpSpec.dtypes says that there is no operator")
    exact, given = replace(trial, precision=_BFLOAT16), replace(trial, precision=_FLOAT32)
    args, count = exact.arguments("vjp"), len(trial.primals)
    constants = conversion.constants(trial.sample.constants, _FLOAT32, trial.device)
    candidate = trial.candidate.bound(constants, trial.candidate.params)
    tensors = given.tensors(args)
    try:
        with torch.autocast(trial.device, torch.bfloat16), under("under autocast"):
            graph = candidate.record(tensors[:count])
        outputs = trial.counted("forward", graph.outputs)
        cotangents = [w.to(y.dtype) for w, y in zip(tensors[count:], outputs, strict=True)]
        with under("the forward ran under autocast"):
            gradients = graph.vjp(cotangents)
    except RuntimeError as error:
        if not re.search(_TWO_DTYPES, str(error)):
            raise
        text = f"meets two dtypes under autocast (torch.amp.custom_fwd?): {str(error).splitlines()[0]}"
        raise Refused(text, Reason.TWO_DTYPES) from error
    widened = []
    for name, y in zip(trial.oracle.outputs, outputs, strict=True):
        text = f"is {y.dtype}, neither the inputs' float32 nor the bfloat16 of autocast"
        yield Fact(name, y.dtype in (torch.float32, torch.bfloat16), text, evidence=0)
        widened.append(y.float())
    truths = exact.truth("forward", args[:count]), exact.truth("vjp", args)
    # At ties every choice is right here, too.
    yield from accept_one_sided_derivatives(
        exact, "forward", args[:count], list(given.compare_with(truths[0], "forward", widened)), ""
    )
    yield from accept_one_sided_derivatives(
        exact, "vjp", args, list(given.compare_with(truths[1], "vjp", gradients)), ""
    )


CHECK = Check(
    "autocast",
    "a dtype written down, where autocast has another; a path of its own under autocast that is wrong",
    ("vjp",),
    _run,
    generic=True,
    one_dtype=True,
    torch_only="autocast is PyTorch's",
    real_only="autocast casts no complex numbers",
)
