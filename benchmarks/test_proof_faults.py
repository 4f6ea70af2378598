"""The faults of the fault benchmark under `proof`, in each dtype, whatever its noise hides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from benchmarks.fault_benchmark.catalog import OPERATORS
from benchmarks.fault_benchmark.operator import FORMATS, Operator, outputs_and_gradients, version
from benchmarks.fault_benchmark.parity import spec_of, without_explanation
from gradparity import crosscheck
from parity_tests.harness.checks import proof
from parity_tests.harness.findings import Verdict
from parity_tests.harness.judging import candidate_rows
from parity_tests.suite.rotation import rotating

_LARGEST = 6  # entries of an axis: a fault of one row or entry is there at any size


def small(operator: Operator) -> Operator:
    """The operator at small sizes; a group norm keeps its groups."""
    sizes = operator.sizes["small"]
    least = {axis: n if (operator.name, axis) == ("group norm", "c") else min(n, _LARGEST) for axis, n in sizes.items()}
    return replace(operator, sizes={"small": least})


def changes(call: Callable, right: Callable, operator: Operator) -> bool:
    """Return whether a version has other values or gradients than the right one, in float64."""
    inputs = operator.arguments("small", "float64")
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
    faulty = {fault.name: version(operator, "float32 inside", fault) for fault in operator.faults}
    faulty = {fault: call for fault, call in faulty.items() if changes(call, right, operator)}
    for dtype in FORMATS:
        spec = spec_of(operator, operator.arguments("small", dtype))
        report = crosscheck({"right": right, **faulty}, spec, checks=["proof"], dtypes=[dtype], progress=False)
        found = {row.candidate: row.verdict for row in report.rows if row.check == "proof"}
        assert found.pop("right") in (Verdict.PROVED, Verdict.SKIPPED)
        # In 16 bits PyTorch's tracer may give up, or a constant may be a rounded number: 12 of 666.
        untold = {Verdict.SKIPPED} if dtype in ("bfloat16", "float16") else set()
        assert {*found.values()} <= {Verdict.MISMATCH, Verdict.UNRESOLVED} | untold, found
