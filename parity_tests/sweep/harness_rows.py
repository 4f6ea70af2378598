"""A case of the sweep as a spec and a candidate of the harness, which holds PyTorch to bounds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import torch

from parity_tests.harness.crosscheck import crosscheck
from parity_tests.harness.report.results import Row
from parity_tests.harness.specs.spec import OpSpec
from parity_tests.sweep.cases import Case


def rows_of(
    case: Case,
    function: Callable[..., Any],
    checks: Iterable[str],
    dtype: str,
    operator: Callable[..., tuple[torch.Tensor, ...]] | None = None,
) -> list[Row]:
    """Return the rows of PyTorch's operator at the numbers of a case, or those of another function of the inputs.

    Args:
        case: whose inputs the spec has.
        function: the reference, in JAX.
        checks: of the harness.
        dtype: of the inputs.
        operator: by default PyTorch's own.

    Raises:
        TypeError, ValueError: the harness takes no such case.
    """
    spec = OpSpec(
        _word(case.entry.name),
        function,
        inputs=[*case.inputs.values()],
        input_names=[input_name(name) for name in case.inputs],
        output_names=[f"out_{_word(name)}" for name in case.results],
        dtypes=[dtype],
    )
    candidate = {"PyTorch": case.torch_function() if operator is None else operator}
    report = crosscheck(candidate, spec, checks=checks, dtypes=[dtype], progress=False)
    return [row for row in report.rows if row.candidate == "PyTorch"]


def input_name(name: str) -> str:
    """Return the name of an input as Python has it, and no result's."""
    return f"in_{_word(name)}"


def _word(name: str) -> str:
    return re.sub(r"\W", "_", name).strip("_")
