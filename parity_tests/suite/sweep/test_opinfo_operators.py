"""What the file says that an OpInfo calls is what is recorded of it; of another version of PyTorch it says nothing."""

from __future__ import annotations

import json

import pytest
import torch

from parity_tests.suite.rotation import rotating
from parity_tests.sweep import calls
from parity_tests.sweep.calls import DTYPES, record_opinfo, units
from parity_tests.sweep.opinfo_operators import as_json, operators_of, version
from parity_tests.sweep.record_opinfos import recorded_operators

PARTS = 29  # no divisor of the other numbers of turns
OF_THIS_VERSION = pytest.mark.skipif(
    operators_of("tanh", "float64") is None, reason=f"opinfo_operators.json is not of PyTorch {version()}"
)


def test_they_are_named_with_their_overloads():
    content = {
        ("f", "float64"): frozenset({"aten::sum.dim_IntList", "aten::add_.Tensor"}),
        ("g", "complex128"): frozenset[str](),
    }
    assert json.loads(as_json(content)) == {
        "torch": version(),
        "complex128": {"g": []},
        "float64": {"f": ["add_.Tensor", "sum.dim_IntList"]},
    }


@OF_THIS_VERSION
def test_every_unit_is_there():
    assert [unit for unit in units() if operators_of(*unit) is None] == []


@OF_THIS_VERSION
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("opinfo", ["tanh", "logsumexp"])
def test_some(opinfo, dtype):
    assert operators_of(opinfo, dtype) == recorded_operators(opinfo, dtype)


@pytest.mark.slow
@rotating(PARTS)
@OF_THIS_VERSION
@pytest.mark.parametrize("part", range(PARTS))
def test_every_opinfo(part):
    wrong = {unit: (operators_of(*unit), recorded_operators(*unit)) for unit in units()[part::PARTS]}
    assert {unit: both for unit, both in wrong.items() if both[0] != both[1]} == {}


def test_another_version_is_not_known(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.99.0")
    assert operators_of("tanh", "float64") is None


def test_an_opinfo_that_is_not_listed_is_not_known():
    assert operators_of("tanh_of_tomorrow", "float64") is None


@OF_THIS_VERSION
@pytest.mark.slow
def test_only_what_calls_an_operator_is_recorded(monkeypatch):
    """No OpInfo has a name like that of `rsub.Scalar`, so that all of them are looked through."""
    recorded = []

    def record(opinfo, dtype):
        recorded.append((opinfo, dtype))
        return record_opinfo(opinfo, dtype)

    monkeypatch.setattr(calls, "record_opinfo", record)
    assert calls.calls_of("rsub.Scalar", "float64")
    assert 0 < len(recorded) < 20
    assert all("aten::rsub.Scalar" in (operators_of(*unit) or ()) for unit in recorded)
