"""The faults of the fault benchmark under `proof`, in each dtype, whatever its noise hides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from benchmarks.fault_benchmark.parity import spec_of, without_explanation
from benchmarks.fault_benchmark.versions import FORMATS, arguments, outputs_and_gradients, version
from gradparity import crosscheck
from parity_tests.harness.checks import proof
from parity_tests.harness.findings import Verdict
from parity_tests.harness.judging import candidate_rows
from parity_tests.operators.catalogue import MEASURED as OPERATORS
from parity_tests.operators.operator import Operator
from parity_tests.suite.rotation import rotating

_LARGEST = 6  # entries of an axis: a fault of one row or entry is there at any size


def small(operator: Operator) -> Operator:
    """The operator at small sizes; a group norm keeps its groups."""
    formulas = operator.written
    sizes = formulas.sizes["small"]
    least = {axis: n if (formulas.name, axis) == ("group norm", "c") else min(n, _LARGEST) for axis, n in sizes.items()}
    return replace(operator, formulas=replace(formulas, sizes={"small": least}))


def changes(call: Callable, right: Callable, operator: Operator) -> bool:
    """Return whether a version has other values or gradients than the right one, in float64."""
    inputs = arguments(operator, "small", "float64")
    pairs = zip(*(outputs_and_gradients(each, operator, inputs, "small") for each in (call, right)), strict=True)
    return not all(torch.allclose(x, y, rtol=1e-9, atol=1e-12) for x, y in pairs)


@pytest.mark.slow
@rotating(5)
@pytest.mark.parametrize("name", OPERATORS)
def test_no_format_hides_a_fault(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of first order, since these versions are not differentiated twice."""
    monkeypatch.setattr(proof, "_MAPS", ("forward", "vjp"))
    monkeypatch.setattr(candidate_rows, "failure_of", without_explanation)
    operator = small(OPERATORS[name])
    right = version(operator, "float32 inside")
    faulty = {fault: version(operator, "float32 inside", wrong) for fault, wrong in operator.faults.items()}
    faulty = {fault: call for fault, call in faulty.items() if changes(call, right, operator)}
    for dtype in FORMATS:
        spec = spec_of(operator, arguments(operator, "small", dtype))
        report = crosscheck({"right": right, **faulty}, spec, checks=["proof"], dtypes=[dtype], progress=False)
        found = {row.candidate: row.verdict for row in report.rows if row.check == "proof"}
        assert found.pop("right") in (Verdict.PROVED, Verdict.SKIPPED)
        # In 16 bits PyTorch's tracer may give up, or a constant may be a rounded number: 12 of 666.
        untold = {Verdict.SKIPPED} if dtype in ("bfloat16", "float16") else set()
        assert {*found.values()} <= {Verdict.MISMATCH, Verdict.UNRESOLVED} | untold, found
