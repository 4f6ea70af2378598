"""Mistakes near a rounding of 16 bits: that the versions are what their names say, and that the counts count."""

from __future__ import annotations

import json

import pytest
import torch
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.campaign import MET
from benchmarks.fault_benchmark import sixteen_bits
from benchmarks.fault_benchmark.arithmetics import OperandsRounded, SumsSplit
from benchmarks.fault_benchmark.versions import arguments, outputs_and_gradients, version
from parity_tests.operators.catalogue import SUBTLE
from parity_tests.operators.sites import added_up_in_bfloat16


def test_a_sum_in_bfloat16_stops_growing():
    x = torch.ones(1000, 2)
    assert added_up_in_bfloat16(x).sum(0).tolist() == [256.0, 256.0]  # 256 + 1 rounds to 256


def test_modes_round_operands_and_split_sums():
    x, y = torch.full((2, 4), 1 + 2.0**-12), torch.eye(4)
    with OperandsRounded(torch.bfloat16):
        assert (x @ y == 1).all()
    assert (x @ y == 1 + 2.0**-12).all()
    halves = torch.tensor([[2.0**25, 1.0, 1.0, -(2.0**25)]])
    with SumsSplit():
        assert halves.sum(1).item() == halves[:, :2].sum(1).item() + halves[:, 2:].sum(1).item()


def test_versions_that_round_more_differ_from_float32_inside():
    operator = SUBTLE["weighted means of segments"]
    inputs = arguments(operator, "small", "bfloat16")
    found = {
        name: outputs_and_gradients(version(operator, name), operator, inputs, "small")
        for name in ("float32 inside", "16-bit operands", "saved in the format", "eager")
    }
    inside = found.pop("float32 inside")
    for name, results in found.items():
        assert any(not torch.equal(a, b) for a, b in zip(results, inside, strict=True)), name


@pytest.mark.slow
def test_what_is_left_out_is_not_right():
    for (name, left_out), _ in sixteen_bits.LEFT_OUT.items():
        operator = SUBTLE[name]
        inputs = arguments(operator, "medium", "bfloat16")
        torch._dynamo.reset()
        found = outputs_and_gradients(version(operator, left_out), operator, inputs, "medium")
        assert any(x.isnan().any() for x in found)


def _judged(**changes) -> sixteen_bits.Judged:
    of = {"operator": "f", "size": "medium", "rejected": {}, "versions": 7, "below": (), "mistakes": 20}
    missed = {"float32 inside": ("one",), "the format throughout": ("one", "two")}
    return sixteen_bits.Judged(**{"format": "bfloat16", **of, "missed": missed, **changes})


def test_the_bars():
    enough = [_judged(), _judged(format="float16")]
    assert sixteen_bits.is_met(enough)  # 19 of 20
    two = {"float32 inside": ("one", "two"), "the format throughout": ()}
    assert not sixteen_bits.is_met([_judged(), _judged(format="float16", missed=two)])
    assert not sixteen_bits.is_met([*enough, _judged(rejected={"eager": ("SUSPECT",)})])
    assert "bfloat16, medium: caught float32 inside 19 of 20" in sixteen_bits.summary(enough)
    assert "f, float16, medium, the format throughout: two" in sixteen_bits.summary(enough)


@pytest.mark.slow
def test_the_command(tmp_path):
    path = tmp_path / "found.json"
    ran = CliRunner().invoke(
        app, ["sixteen-bits", "--operators", "4-bit linear", "--sizes", "small", "--out", str(path)]
    )
    assert ran.exit_code == MET, ran.output
    assert "right versions rejected: 0 of 14" in ran.output
    assert [x["format"] for x in json.loads(path.read_text())["judged"]] == ["bfloat16", "float16"]
    assert "caught float32 inside 5 of 5" in path.with_suffix(".md").read_text()
