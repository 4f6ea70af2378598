"""aliases: values and gradients where two inputs are one tensor, share memory, or are slices of one buffer.

A tensor that is given twice, f(x, x), gets the sum of both gradients. f(x, x.detach()), and two leaves in the same
memory, have the gradients of two inputs that happen to be equal. Slices of one buffer, as the parts of a packed
projection are (q, k, v), have nothing in common but their storage; the buffer may need a gradient, too. One tensor may
be the cotangent of several outputs, as that of (y + z).sum() is.

Where inputs are equal an operator may have a kink, and a derivative that is a convention. That is no matter of memory:
what differs from the oracle in tensors apart from each other, too, is held to the candidate's own gradients of those.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch

from parity_tests.harness.candidates.base import Tensors
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under
from parity_tests.harness.findings import Finding, NotApplicable
from parity_tests.harness.trial.sums import compare_sum
from parity_tests.harness.trial.trial import Trial

_EVERY_PAIR_UP_TO = 8  # inputs of one kind; of more each one and the next


def _run(trial: Trial) -> Iterator[Finding]:
    args, count, pairs = trial.arguments("vjp"), len(trial.primals), _pairs(trial)
    for pair in pairs:
        yield from _one_tensor(trial, *pair)
        yield from _one_memory(trial, *pair)
    for members in _kinds(trial):
        if len(members) > 2:
            yield from _one_tensor(trial, *members)
    yield from _one_cotangent(trial, args)
    beside = False
    for where, arrange in (("slices of one buffer", _one_after_the_other), ("parts of one tensor", _side_by_side)):
        tensors = trial.tensors(args)
        placed = arrange(tensors[:count])
        if placed is not None:
            beside = True
            yield from _called(trial, args, [*placed, *tensors[count:]], f"the inputs are {where}")
            recorded = _arranged(trial, arrange)
            yield from _called(recorded, args, tensors, f"the inputs are {where} that needs a gradient")
    if not pairs and not beside:
        raise NotApplicable("the operator has no two differentiated inputs of one dtype")


def _kinds(trial: Trial) -> list[list[int]]:
    """The inputs of which one may be given for another: of one shape, one domain and one kind of number."""
    kinds: dict[tuple, list[int]] = {}
    for i, (x, domain) in enumerate(zip(trial.primals, trial.sample.domains, strict=True)):
        if x.size:
            kinds.setdefault((x.shape, x.dtype, domain.name), []).append(i)
    return [*kinds.values()]


def _pairs(trial: Trial) -> list[tuple[int, int]]:
    pairs = []
    for members in _kinds(trial):
        every = len(members) <= _EVERY_PAIR_UP_TO
        pairs += itertools.combinations(members, 2) if every else itertools.pairwise(members)
    return pairs


def _equal(trial: Trial, i: int, *others: int) -> list[np.ndarray]:
    """The arguments of the VJP with the one at i in the place of others, too."""
    args = list(trial.arguments("vjp"))
    for j in others:
        args[j] = args[i]
    return args


def _one_tensor(trial: Trial, *places: int) -> Iterator[Finding]:
    """f(x, x): one leaf in several places, whose gradient is the sum of theirs."""
    args, count = _equal(trial, *places), len(trial.primals)
    tensors, names = trial.tensors(args), trial.oracle.inputs
    for i in places:
        tensors[i] = tensors[places[0]]
    where = f"{' and '.join(names[i] for i in places)} are the same tensor"
    with under(where):
        graph = trial.candidate.record(tensors[:count])
        gradients = trial.counted("vjp", graph.vjp(tensors[count:]))
    labels = [slot.label for slot in trial.oracle.map("vjp").results]
    yield from _same_apart(trial, "forward", args, graph.outputs, where)
    yield from _same_apart(trial, "vjp", args, gradients, where, {*labels} - {labels[i] for i in places})
    yield from compare_sum(trial, [(args, i) for i in places], gradients[places[0]], where)


def _one_cotangent(trial: Trial, args: Sequence[np.ndarray]) -> Iterator[Finding]:
    """(y + z).sum(): one tensor is the cotangent of all outputs of one shape."""
    count = len(trial.primals)
    shape = args[count].shape
    first, *others = (
        i for i in range(count, len(args)) if args[i].shape == shape and args[i].dtype == args[count].dtype
    )
    if others:
        equal = _equal(trial, first, *others)
        tensors = trial.tensors(equal)
        for i in others:
            tensors[i] = tensors[first]
        yield from _called(trial, equal, tensors, "one tensor is the cotangent of several outputs")


def _one_memory(trial: Trial, i: int, j: int) -> Iterator[Finding]:
    """Two leaves in the same memory; then f(x, x.detach()), either way round."""
    args, count = _equal(trial, i, j), len(trial.primals)
    names, labels = trial.oracle.inputs, [slot.label for slot in trial.oracle.map("vjp").results]
    for detached in (None, j, i):
        tensors = trial.tensors(args)
        tensors[j] = tensors[i].detach()
        where = f"{names[i]} and {names[j]} share their memory"
        where += "" if detached is None else f", and {names[detached]} needs no gradient"
        flags = [k != detached for k in range(count)]
        with under(where):
            results = trial.candidate.vjp(tensors[:count], tensors[count:], requires_grad=flags)
        wanted = {label for label, flag in zip(labels, flags, strict=True) if flag}
        yield from _same_apart(trial, "vjp", args, results, where, wanted)


def _same_apart(trial, name, args, results, where, only=None):
    """Yield the findings on a map's results, without those that also fail in tensors apart from each other."""
    args = args[: len(trial.oracle.map(name).arguments)]
    findings = list(trial.compare(name, args, results, where, only=only))
    if not all(finding.holds for finding in findings):
        apart = trial.compare(name, args, trial.evaluate(name, args))
        elsewhere = {finding.label for finding in apart if not finding.holds}
        findings = [finding for finding in findings if finding.holds or finding.label not in elsewhere]
    yield from findings


def _arranged(trial: Trial, arrange: Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor] | None]) -> Trial:
    """The trial of the candidate of parts of what it is given, the last input first: autograd knows of their buffer."""
    candidate = trial.candidate
    assert isinstance(candidate, Candidate)

    def call(*inputs: torch.Tensor) -> Tensors:
        placed = arrange(inputs[::-1])
        assert placed is not None
        return candidate.forward(placed[::-1])

    return replace(trial, candidate=candidate.through(call))


def _called(trial: Trial, args: Sequence[np.ndarray], tensors: Sequence[torch.Tensor], where: str) -> Iterator[Finding]:
    count = len(trial.primals)
    with under(where):
        graph = trial.candidate.record(tensors[:count])
        gradients = graph.vjp(tensors[count:])
    yield from trial.compare("forward", args[:count], graph.outputs, where)
    yield from trial.compare("vjp", args, gradients, where)


def _one_after_the_other(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor] | None:
    """Slices of one buffer for each dtype, as of a flat parameter; None if no two tensors have the same one."""
    placed = list(tensors)
    for dtype in {x.dtype for x in tensors}:
        members = [i for i, x in enumerate(tensors) if x.dtype == dtype]
        buffer = torch.cat([tensors[i].flatten() for i in members])
        for i, part in zip(members, buffer.split([tensors[i].numel() for i in members]), strict=True):
            placed[i] = part.view(tensors[i].shape)
    return placed if len({x.dtype for x in tensors}) < len(tensors) else None


def _side_by_side(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor] | None:
    """Parts of one tensor for each shape, row by row as of a packed projection; of vectors entry by entry."""
    placed, found = list(tensors), False
    for kind in {(x.shape, x.dtype) for x in tensors if x.dim()}:
        members = [i for i, x in enumerate(tensors) if (x.shape, x.dtype) == kind]
        axis = max(1, len(kind[0]) - 1)
        parts = torch.stack([tensors[i] for i in members], axis).unbind(axis)
        found = found or len(members) > 1
        for i, part in zip(members, parts, strict=True):
            placed[i] = part
    return placed if found else None


CHECK = Check(
    "aliases",
    "a gradient that is lost or wrong when two inputs are one tensor, share memory, or are parts of one buffer",
    ("vjp",),
    _run,
    generic=True,
    one_dtype=True,
    torch_only="JAX arrays are values: nobody can tell whether two of them are one",
)
