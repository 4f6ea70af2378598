"""The JSON Schema of a report: it holds for each that is written, and says what a program may read."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from parity_tests import OpSpec, Report, crosscheck
from parity_tests.cli.app import app
from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.report.schema import report_schema
from parity_tests.suite.harness._ops import unary_function

VALIDATOR = jsonschema.Draft202012Validator(report_schema())


def _of(report: Report) -> dict[str, Any]:
    data = json.loads(report.as_json())
    VALIDATOR.validate(data)
    return data


@pytest.fixture(scope="module")
def report() -> Report:
    """A wrong candidate, with its diagnosis, one that is not built, and a limit."""
    spec = OpSpec("cube", primal=lambda x: x * x * x, signature="(n,m)->(n,m)")
    wrong = unary_function(lambda x: x**3, lambda x, g: -3 * x * x * g)
    found = crosscheck(wrong, spec, checks=["forward", "vjp", "jvp"], dtypes=["float64"], name="mine", quick=True)
    found.add(NotBuilt("theirs", "no compiler"))
    return found


def test_it_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(report_schema())


def test_the_command_prints_it():
    ran = CliRunner().invoke(app, ["report", "--schema"])
    assert (ran.exit_code, json.loads(ran.stdout)) == (0, report_schema())


@pytest.mark.usefixtures("shrinking")
def test_a_program_has_all_that_it_acts_on():
    spec = OpSpec("square", primal=lambda x: x * x, signature="(n,m)->(n,m)")
    wrong = unary_function(lambda x: x * x, lambda x, g: x * g)
    data = _of(crosscheck(wrong, spec, checks=["forward", "vjp"], dtypes=["float64"], name="mine", quick=True))
    (record,) = data["summary"]
    assert (record["verdict"], record["check"]) == ("MISMATCH", "vjp")
    assert record["score"] == {"passed": 1, "judged": 2}
    (result,) = record["wrong"]
    assert (result["label"], result["looks_like"]) == ("x_bar", "x_bar = 0.5 * oracle")
    assert record["to_do"]
    # The smallest input as numbers: what they give is what it says.
    arrays = {label: np.array(x) for label, x in record["smallest"]["arrays"].items()}
    assert arrays.keys() == record["smallest"]["entries"].keys()
    right = float(np.squeeze(2 * arrays["x"] * arrays["output_bar"]))
    assert record["smallest"]["wrong"]["oracle"] == right == 2 * record["smallest"]["wrong"]["candidate"]


def test_each_kind_of_row(report: Report):
    data = _of(report)
    assert {row["verdict"] for row in data["rows"]} == {"PASS", "MISMATCH", "UNSUPPORTED"}
    assert [record["verdict"] for record in data["summary"]] == ["MISMATCH", "SKIPPED"]


def test_complex_numbers_and_those_that_are_not_finite():
    spec = OpSpec("twice", primal=lambda x: 2 * x, signature="(n)->(n)", domains={"x": "complex"})
    _of(crosscheck(lambda x: x * (1 + 1j), spec, checks=["forward"], dtypes=["float64"], name="mine"))
    spec = OpSpec("exp", primal=lambda x: x + 1, signature="(n)->(n)")
    _of(crosscheck(lambda x: x / 0, spec, checks=["forward"], dtypes=["float64"], name="mine"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda data: data.pop("rows"), "'rows' is a required property"),
        (lambda data: data | {"schema": 2}, "1 was expected"),
        (lambda data: data["summary"][0].pop("verdict"), "'verdict' is a required property"),
        (lambda data: data["summary"][0].update(verdict="WRONG"), "'WRONG' is not one of"),
        (lambda data: data["failures"][0].update(seed="0"), "'0' is not valid under any of the given schemas"),
    ],
)
def test_another_file_is_none(report: Report, change: Any, says: str):
    data = _of(report)
    changed = change(data)
    with pytest.raises(jsonschema.ValidationError, match=says):
        VALIDATOR.validate(changed if isinstance(changed, dict) and "schema" in changed else data)


def test_a_candidate_gains_nothing_by_refusing_or_by_raising():
    """Three candidates that are wrong in the VJP alone; of the last two nothing is known there."""

    def refuses(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def raises(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        raise ZeroDivisionError

    spec = OpSpec("square", primal=lambda x: x * x, signature="(n)->(n)")
    scores = []
    for backward in (lambda x, g: 2 * x * g, lambda x, g: x * g, refuses, raises):
        call = unary_function(lambda x: x * x, backward)
        data = _of(crosscheck(call, spec, checks=["forward", "vjp"], dtypes=["float64"], name="mine", quick=True))
        scores.append(data["summary"][0]["score"])
    assert scores == [{"passed": 2, "judged": 2}, *[{"passed": 1, "judged": 2}] * 3]
