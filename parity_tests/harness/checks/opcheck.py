"""opcheck: what torch.library.opcheck says of an operator: its schema, autograd, fake kernel, and AOTAutograd."""

import torch
from torch._library.custom_ops import CustomOpDef

from parity_tests.harness.candidates.reasons import first_to_tell
from parity_tests.harness.candidates.torch_refusals import refusal_of
from parity_tests.harness.checks.check import Check
from parity_tests.harness.findings import Fact, NotApplicable


def _run(trial):
    op = trial.candidate.call
    if not isinstance(op, torch._ops.OpOverload | torch._ops.OpOverloadPacket | CustomOpDef):
        raise NotApplicable("the candidate is not an operator of torch.ops")
    if isinstance(op, torch._ops.OpOverloadPacket) and len(op.overloads()) > 1:
        raise NotApplicable(f"{op} has overloads; torch.library.opcheck takes one of them, such as {op}.default")
    refused = []
    for requires_grad in (True, False):
        args = trial.candidate.positional([x.requires_grad_(requires_grad) for x in trial.tensors(trial.primals)])
        results = torch.library.opcheck(op, tuple(args), dict(trial.candidate.params), raise_exception=False)
        for name, result in results.items():
            refusal = refusal_of(result) if isinstance(result, Exception) else None
            if refusal is not None:
                refused.append(refusal)
                continue
            text = f"fails: {type(result).__name__}: {next(iter(str(result).strip().splitlines()), '')}"
            yield Fact(name, result == "SUCCESS", text, "" if requires_grad else "without gradients")
    if (refusal := first_to_tell(refused, CHECK.name, trial.precision.name)) is not None:
        raise refusal


CHECK = Check(
    "opcheck",
    "a schema that hides a mutation or an alias, a wrong fake kernel",
    (),
    _run,
    generic=True,
    one_dtype=True,
    torch_only="it is about operators of torch.ops",
)
