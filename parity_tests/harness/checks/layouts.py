"""layouts: values and derivatives with inputs, cotangents and tangents in every layout of memory.

`torch.autograd.gradcheck` gives the backward contiguous cotangents; `output.sum().backward()` gives it stride 0. In
forward mode PyTorch copies a tangent into the layout of its input, so that the two are laid out together. What lies
between the entries belongs to others: nobody may write there.
"""

import re
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from parity_tests.harness.candidates.torch_candidate import Refused
from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under
from parity_tests.harness.findings import Comparison, Convention, Fact, Finding
from parity_tests.harness.numbers import conversion
from parity_tests.harness.trial.layouts import LAYOUTS, OF_COMPLEX, Layout
from parity_tests.harness.trial.matmul_padding import matmul_reads_behind_rows
from parity_tests.harness.trial.trial import Trial

_OF_ONE = next(layout for layout in LAYOUTS if layout.name == "sliced")  # which vectors and scalars may have, too
_RECORDED = "inputs and cotangents, with create_graph"  # where a backward may take another way


def _run(trial: Trial, layouts: Sequence[Layout] = LAYOUTS) -> Iterator[Finding]:
    groups = [("forward", "inputs"), ("vjp", "inputs"), ("vjp", "cotangents")]
    if _has_jvp(trial):
        groups.append(("jvp", "inputs and tangents"))
    if trial.sample.generic and _records_the_backward(trial):
        groups.append(("vjp", _RECORDED))
    for layout in (*layouts, *(OF_COMPLEX if trial.oracle.is_complex else ())):
        if layout.everywhere or trial.sample.generic:
            wrong = []
            for name, group in groups:
                for finding in _laid_out(trial, layout, name, group):  # each after its call, which is recorded
                    yield finding
                    if not finding.holds:
                        wrong.append((name, finding))
            if layout.remedy and any(_right_elsewhere(trial, *one) for one in wrong):
                where = wrong[0][1].circumstance
                yield Fact("the candidate", False, f"seems to read memory. {layout.remedy}", where)
    if trial.sample.generic:
        yield from _with_constants_laid_out(trial)
        for i in range(len(trial.primals)) if len(trial.primals) > 1 else ():
            for name in ("forward", "vjp"):
                yield from _laid_out(trial, _OF_ONE, name, trial.oracle.inputs[i], alone=i)


def _with_constants_laid_out(trial: Trial) -> Iterator[Finding]:
    """Indices, masks and other inputs without gradients, in each layout that holds any values.

    Kernels often take them as they come. A candidate may refuse them: a clear error is no wrong number.
    """
    constants = conversion.constants(trial.sample.constants, trial.precision, trial.device)
    for layout in LAYOUTS:
        laid = {i: x for i, x in constants.items() if x is not None and layout.takes(x)}
        if not layout.everywhere or layout.repeat or not laid:
            continue
        where = f"inputs without gradients {layout.name}"
        laid = {i: layout.arrange(x) for i, x in laid.items()}
        candidate, count = trial.candidate.with_constants(constants | laid), len(trial.primals)
        for name in ("forward", "vjp"):
            args = trial.arguments(name)
            tensors = trial.tensors(args)
            try:
                with under(where):
                    results = _called(candidate, name, tensors[:count], tensors[count:], create_graph=False)
            except (RuntimeError, ValueError):
                yield Fact("inputs", True, "", where, evidence=0)
                continue
            yield from trial.compare(name, args, results, where)


def _right_elsewhere(trial, name, finding):
    """True if a result is right where everything is contiguous. If not, the layout is not to blame."""
    args = trial.arguments(name)
    contiguous = trial.compare(name, args, trial.evaluate(name, args))
    return all(other.holds for other in contiguous if other.label == finding.label)


def _has_jvp(trial):
    try:
        trial.evaluate("jvp", trial.arguments("jvp"))
    except Refused:
        return False  # the check "jvp" reports it; what can be judged here is values and gradients
    return True


def _records_the_backward(trial):
    args, count = trial.tensors(trial.arguments("vjp")), len(trial.primals)
    try:
        _called(trial.candidate, "vjp", args[:count], args[count:], create_graph=True)
    except Refused:
        return False  # the check "vjp_of_vjp" reports it, as of what torch.compile has made for one backward only
    return True


def _laid_out(trial, layout, name, group, alone=None):
    args, count = trial.arguments(name), len(trial.primals)
    members = range(count if group == "cotangents" else 0, count if group == "inputs" else len(args))
    members = members if alone is None else [alone]
    chosen = [i in members and layout.takes(x) for i, x in enumerate(args)]
    if layout.repeat and group != "cotangents":  # a row repeated must still be in the input's domain
        chosen = [flag and trial.sample.domains[i % count].elementwise for i, flag in enumerate(chosen)]
    if not any(chosen):
        return
    arrays = [layout.repeat(x) if layout.repeat and flag else x for x, flag in zip(args, chosen, strict=True)]
    tensors = [layout.arrange(t) if flag else t for t, flag in zip(trial.tensors(arrays), chosen, strict=True)]
    where = f"{group} {'alone ' * (alone is not None)}{layout.name}"
    before = [_memory(x).clone() for x in tensors]
    try:
        with under(where):
            results = _called(trial.candidate, name, tensors[:count], tensors[count:], group == _RECORDED)
    except (RuntimeError, ValueError) as error:
        handed_out = not layout.refusal or not re.search(layout.refusal, str(error))
        repeated = layout.repeat is not None and group != "cotangents"
        if handed_out and not (repeated and _refuses_the_values(trial, name, arrays, error, group == _RECORDED)):
            raise
        yield Fact(group, True, "", where, evidence=0)  # a clear error is no wrong number
        return
    for slot, tensor, memory in zip(trial.oracle.map(name).arguments, tensors, before, strict=True):
        if not torch.equal(_memory(tensor), memory):
            yield Fact(slot.label, False, "was written to, or what lies between its entries", where)
    findings = list(trial.compare(name, arrays, results, where))
    # As of a candidate that is made of such products: see `matmul_reads_behind_rows`.
    of_matmul = trial.precision.name == "bfloat16" and trial.device == "cpu" and matmul_reads_behind_rows()
    if of_matmul and not all(finding.holds for finding in findings):
        for x in tensors:
            memory = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())
            memory[memory.isnan()] = 1  # what lies between the entries; times 0 it is 0
        results = _called(trial.candidate, name, tensors[:count], tensors[count:], group == _RECORDED)
        findings = list(_excused(findings, list(trial.compare(name, arrays, results, where))))
    if not layout.repeat or group == "cotangents":
        yield from findings
        return
    # Equal entries are ties, where a right derivative need not be the oracle's. That is no matter of layouts, so what
    # differs there when it is contiguous is not looked at.
    contiguous = trial.compare(name, arrays, trial.evaluate(name, arrays))
    differs = {other.label for other in contiguous if not other.holds}
    for finding in findings:
        if finding.label not in differs:
            yield finding


def _excused(findings, with_ones):
    """Yield the findings with NaN between the entries; a NaN that is right with ones there becomes a convention."""
    right = {f.label: f for f in with_ones if isinstance(f, Comparison) and f.holds}
    for found in findings:
        of_nan = isinstance(found, Comparison) and not np.isfinite(found.candidate[found.wrong]).any()
        if found.holds or not of_nan or found.label not in right:
            yield found
            continue
        yield right[found.label]
        text = "NaN if what lies between the rows is NaN, as is PyTorch's own matmul on this CPU: docs/found.md, 40"
        yield Convention(found.label, text, found.circumstance)


def _called(candidate, name, primals, directions, create_graph):
    if name == "forward":
        return candidate.forward(primals)
    if create_graph:
        return candidate.record(primals).vjp(directions, create_graph=True)
    return getattr(candidate, name)(primals, directions)


def _memory(x):
    """All bytes of the memory that a tensor is a part of."""
    return torch.empty(0, dtype=torch.uint8, device=x.device).set_(x.untyped_storage())


def _refuses_the_values(trial, name, arrays, error, create_graph):
    """True if a candidate refuses the values, for which the operator has no result, and not their layout.

    A matrix of equal rows is singular: `torch.linalg.lu_factor` raises, and the oracle's factors have no error bound.
    """
    if isinstance(error, Refused) or all(np.isfinite(y.bound).all() for y in trial.truth(name, arrays)):
        return False
    tensors, count = trial.tensors(arrays), len(trial.primals)
    try:
        _called(trial.candidate, name, tensors[:count], tensors[count:], create_graph)
    except (RuntimeError, ValueError) as other:
        return type(other) is type(error)
    return False


CHECK = Check(
    "layouts",
    "a result that is right only for some strides, offset or alignment of an input, a cotangent or a tangent; a write "
    "between the entries",
    ("vjp", "jvp"),
    _run,
    torch_only="JAX arrays have no strides",
)
