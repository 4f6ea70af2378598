"""large_sizes: values and gradients with each axis in turn at 8193 entries, as nobody waits for by default.

By default no axis is longer than 2049. A kernel with a grid, a table or a buffer of 4096 is right up to there, and
leaves out what is beyond. The other axes are short, so that it takes seconds. An axis along which an array of the
oracle would have more than 2^25 entries, as of square matrices, is tried at 4097; one that would be too large even
there, or that the rules of `OpSpec.sizes` keep at 4096 or less, or along which a reference in PyTorch unrolls a loop,
is named in the row, which is then SKIPPED.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under
from parity_tests.harness.findings import Finding, NotApplicable
from parity_tests.harness.specs.domains import EmptyDomain
from parity_tests.harness.specs.loops import Loops
from parity_tests.harness.specs.samples import Sample, at_sizes
from parity_tests.harness.trial.trial import Trial

_SIZES = (8193, 4097)
_USUAL = 4096  # up to which an axis is no larger than kernels are tried at
_LARGEST = 2**25  # entries of an array


def _run(trial: Trial) -> Iterator[Finding]:
    signature = trial.oracle.spec.parsed
    if signature is None or trial.elsewhere is None:
        raise NotApplicable("inputs are given, so that there are no other sizes; give a signature instead")
    if not trial.sample.sizes:
        raise NotApplicable("no axis of the signature has a name, so that there are no other sizes")
    left_out: list[str] = []
    for axis in trial.sample.sizes:
        large = next((at for size in _SIZES if (at := _trial_at(trial, trial.elsewhere, axis, size)) is not None), None)
        if large is None:
            left_out.append(axis)
        else:
            yield from _judged(large, f"axis {axis} of {large.sample.sizes[axis]} entries")
    if left_out:
        which = f"the axis {left_out[0]}" if len(left_out) == 1 else f"the axes {', '.join(left_out)}"
        raise NotApplicable(
            f"{which} cannot be longer than {_USUAL}: by the rules of OpSpec.sizes, or since an array would have more "
            f"than {_LARGEST} entries, or since the reference unrolls a loop"
            + ("; the others agree" if len(left_out) < len(trial.sample.sizes) else "")
        )


def _trial_at(trial: Trial, elsewhere: Callable[[Sample], Trial], axis: str, size: int) -> Trial | None:
    """The trial with one axis at this size, or near to it where rules demand that; None where it is none."""
    spec, sample = trial.oracle.spec, trial.sample
    try:
        sizes = spec.size_rules.nearest({**sample.sizes, axis: size})
        if sizes[axis] <= _USUAL or not Loops(spec, sample.sizes).fit(sizes):
            return None
        long = replace(sample, name=f"large_{axis}", scale=sample.scale / 4, first_order_only=True)
        long = at_sizes(spec, long, sizes)
    except EmptyDomain:
        return None
    large = elsewhere(long)
    return large if large.oracle.largest_array(long.shapes) <= _LARGEST else None


def _judged(trial: Trial, where: str) -> Iterator[Finding]:
    args, count = trial.arguments("vjp"), len(trial.primals)
    tensors = trial.tensors(args)
    with under(where):
        graph = trial.candidate.record(tensors[:count])
        gradients = graph.vjp(tensors[count:])
    yield from trial.compare("forward", args[:count], graph.outputs, where)
    yield from trial.compare("vjp", args, gradients, where)


CHECK = Check(
    "large_sizes",
    "what is left out beyond 4096 entries: a grid, a table or a buffer of that size",
    ("vjp",),
    _run,
    generic=True,
    one_dtype=True,
    on_request=True,
)
