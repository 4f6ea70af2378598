"""checkpoint: the gradients under torch.utils.checkpoint, which runs the forward again when the backward comes."""

from torch.utils.checkpoint import CheckpointError, checkpoint

from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under
from parity_tests.harness.findings import Fact


def _run(trial):
    args, count = trial.arguments("vjp"), len(trial.primals)
    candidate = trial.candidate.through(lambda *x: checkpoint(trial.candidate.forward, x, use_reentrant=False))
    tensors = trial.tensors(args)
    try:
        with under("under torch.utils.checkpoint"):
            results = candidate.vjp(tensors[:count], tensors[count:])
    except CheckpointError as error:
        yield Fact("the backward", False, f"is refused by PyTorch: {str(error).splitlines()[0]}")
        return
    yield from trial.compare("vjp", args, results)


CHECK = Check(
    "checkpoint",
    "randomness or state that a second forward does not repeat; ctx.saved_tensors read twice",
    ("vjp",),
    _run,
    generic=True,
    one_dtype=True,
    torch_only="torch.utils.checkpoint is PyTorch's",
)
