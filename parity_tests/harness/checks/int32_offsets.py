"""int32_offsets: values and derivatives of inputs and cotangents whose entries lie 2^31 entries apart.

Kernels count entries in 32 bits, and a large tensor has more: the offset overflows, and they read what lies elsewhere.
A tensor of this check has few entries and large strides, so that it needs neither the memory nor the time of a large
one. What it cannot show is an overflow of what is counted without strides, as the number of blocks. Forward mode is
left out: PyTorch gives a tangent the strides of its input, and would fill all the memory that they reach.
"""

from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under
from parity_tests.harness.findings import NotApplicable
from parity_tests.harness.trial.far_apart import far_apart


def _run(trial):
    judged = False
    for name in ("forward", "vjp"):
        args = trial.arguments(name)
        for i, slot in enumerate(trial.oracle.map(name).arguments):
            findings = _placed(trial, name, args, i, slot.label)
            judged = judged or bool(findings)
            yield from findings
    if not judged:
        raise NotApplicable("no input and no cotangent has an axis of two entries or more")


def _placed(trial, name, args, i, label):
    """Return the findings with the entries of one argument far apart; none if it has too few entries."""
    tensors, count = trial.tensors(args), len(trial.oracle.inputs)
    try:
        placed = far_apart(tensors[i])
    except MemoryError as error:
        raise NotApplicable(f"no room for offsets of 2^31 entries: {error}") from error
    if placed is None:
        return []
    tensors[i] = placed
    where = f"{label} with offsets of 2^31 entries"
    with under(where):
        if name == "forward":
            results = trial.candidate.forward(tensors)
        else:
            results = trial.candidate.vjp(tensors[:count], tensors[count:])
    return list(trial.compare(name, args, results, where))


CHECK = Check(
    "int32_offsets",
    "an offset in memory that is computed in 32 bits and overflows, as it does in large tensors",
    ("vjp",),
    _run,
    one_dtype=True,
    generic=True,
    on_request=True,
    torch_only="JAX arrays have no strides",
)
