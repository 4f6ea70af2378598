"""References that unroll loops: their samples are cut where too many operations would be followed, and it is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from gradparity import to_jax
from parity_tests import OpSpec, Verdict, crosscheck
from parity_tests.conversion.exported import exported
from parity_tests.conversion.graph import is_known
from parity_tests.harness.specs.from_torch import TorchReference
from parity_tests.harness.specs.loops import MOST, Loops, line
from parity_tests.harness.specs.samples import few_samples, samples
from parity_tests.suite.harness.checks.test_on_request import judged
from parity_tests.suite.harness.specs.loop_references import (
    Chunked,
    Either,
    LongChunks,
    Recurrence,
    SoftDTW,
    WithoutDiagonal,
    WithoutGamma,
    WrongSecond,
    doubling,
    either,
    recurrence,
    scanned,
    soft_dtw,
)

CELLS, STEPS = "d: (n,m)", "a: (t,d), b: (t,d)"
FIRST = {"t": 4, "d": 3}


def _spec(reference: Callable = recurrence, inputs: str = STEPS, **fields: Any) -> OpSpec:
    return OpSpec.from_torch(reference, inputs=inputs, **fields)


def _sizes(spec: OpSpec, axis: str) -> set[int]:
    return {sample.sizes[axis] for sample in samples(spec, 0)}


@pytest.mark.slow
def test_operations_are_counted_as_the_graph_has_them():
    reference, args = TorchReference(soft_dtw), (np.zeros((4, 3)),)
    graph = exported(lambda d: [soft_dtw(d)], [torch.zeros(4, 3).double()], is_known).program.graph
    nodes = sum(node.op == "call_function" for node in graph.nodes)
    assert nodes == reference.operations(args, {}) == 98
    assert reference.operations(args, {}, most=20) == 21


def test_what_raises_is_counted_up_to_there():
    assert TorchReference(lambda x: x.exp().sin().reshape(3).exp()).operations((np.zeros(2),), {}) == 3


@pytest.mark.slow
def test_a_long_program_without_a_loop_has_shapes():
    def layers(x):
        for _ in range(3000):
            x = x + 1
        return x[1:]

    reference = TorchReference(layers)
    assert [reference.shapes((np.zeros((n, 2)),), {}) for n in (3, 400)] == [[(2, 2)], [(399, 2)]]


@pytest.mark.slow
def test_a_loop_that_is_far_longer_has_none():
    reference = TorchReference(soft_dtw)
    assert [reference.shapes((np.zeros((n, n)),), {}) for n in (3, 40)] == [[()], None]


@pytest.mark.slow
def test_a_loop_over_time_is_cut():
    spec = _spec()
    loops = Loops(spec, FIRST)
    assert loops.axes == ("t",)
    assert max(_sizes(spec, "t")) == 129
    assert max(_sizes(spec, "d")) == 2049
    assert loops.fit({"t": 129, "d": 3})
    assert not loops.fit({"t": 257, "d": 3})


@pytest.mark.slow
def test_a_loop_over_cells_is_cut_along_both_axes():
    every = {sample.name: sample for sample in samples(_spec(soft_dtw, CELLS), 0)}
    cut = {name: tuple(sample.sizes.values()) for name, sample in every.items() if sample.cut_from}
    assert cut == {"longest_n": (33, 2), "longest_m": (2, 33), "long_axes": (9, 9)}
    assert all(every[name].first_order_only for name in cut)


@pytest.mark.slow
def test_what_has_no_loop_is_not_cut():
    names = {sample.name: dict(sample.sizes) for sample in samples(_spec(torch.mul, "x: (n,d), y: (n,d)"), 0)}
    in_jax = OpSpec("mul", lambda x, y: x * y, "(n,d),(n,d)->(n,d)")
    assert names == {sample.name: dict(sample.sizes) for sample in samples(in_jax, 0)}


@pytest.mark.slow
def test_a_loop_of_few_steps_is_not_cut():
    spec = _spec(doubling, "x: (n,d)")
    assert Loops(spec, {"n": 4, "d": 3}).axes == ("n",)
    assert max(_sizes(spec, "n")) == 2049
    assert line(spec, list(samples(spec, 0))) is None


@pytest.mark.slow
def test_blocks_are_judged_however_long_the_loop():
    assert {63, 64, 65, 163, 192} <= _sizes(_spec(blocks={"t": 64}), "t")


@pytest.mark.slow
def test_rules_are_kept():
    assert _sizes(_spec(sizes="t == 256"), "t") == {256}
    spec = _spec(sizes="t % 4 == 0, t >= 4")
    assert all(t % 4 == 0 for t in _sizes(spec, "t"))
    assert 64 < max(_sizes(spec, "t")) <= 160
    assert {16, 2048} <= _sizes(_spec(sizes="t in (16, 2048)"), "t")


@pytest.mark.slow
def test_a_large_first_sample_gives_leave_to_as_large_ones():
    loops = Loops(_spec(), {"t": 512, "d": 3})
    assert loops.most == 2 * loops.at_first > MOST


@pytest.mark.slow
def test_it_is_said_what_was_not_tried():
    spec = _spec(soft_dtw, CELLS)
    said = line(spec, list(samples(spec, 0)))
    assert said == (
        "the reference unrolls its loops, into 98 operations at n = 4, m = 3 and more than 768 at n = 33, m = 35: the "
        "largest sizes judged are n = 33, m = 2; n = 2, m = 33; n = 9, m = 9. To judge at larger ones, in minutes, "
        'give sizes="n == 33, m == 35", OpSpec(blocks=...) or arrays as inputs'
    )
    assert "judged are n = 9, m = 9. " in (line(spec, list(few_samples(spec, 0))) or "")


@pytest.mark.slow
def test_large_sizes_name_the_axis_of_a_loop():
    row = judged(Recurrence.apply, _spec(), "large_sizes")
    assert row.verdict is Verdict.SKIPPED
    assert row.reason.startswith("the axis t cannot be longer than 4096: ")
    assert row.reason.endswith("or since the reference unrolls a loop; the others agree")


FIRST_ORDER = ["forward", "vjp"]


@pytest.mark.slow
@pytest.mark.parametrize("quick", [True, False])
def test_soft_dtw_is_judged(quick):
    spec = _spec(soft_dtw, CELLS)
    candidates = {"right": SoftDTW.apply, "gamma": WithoutGamma.apply, "diagonal": WithoutDiagonal.apply}
    report = crosscheck(candidates, spec, checks=FIRST_ORDER, dtypes=["float64", "float32"], quick=quick)
    verdicts = {(row.candidate, row.check): row.verdict for row in report.rows if row.candidate != "oracle"}
    assert all(verdicts["right", check] is Verdict.PASS for check in FIRST_ORDER)
    for wrong in ("gamma", "diagonal"):
        assert verdicts[wrong, "forward"] is Verdict.PASS
        assert verdicts[wrong, "vjp"] is Verdict.MISMATCH
    assert any("the reference unrolls its loops" in text for text in report.skipped)


@pytest.mark.slow
def test_a_mistake_of_long_loops_is_found_as_far_as_they_are_followed():
    candidates = {"right": Recurrence.apply, "chunked": Chunked.apply, "long_chunks": LongChunks.apply}
    report = crosscheck(candidates, _spec(), checks=["vjp"], dtypes=["float64"])
    verdicts = {row.candidate: row.verdict for row in report.rows}
    assert verdicts["right"] is Verdict.PASS
    assert verdicts["chunked"] is Verdict.MISMATCH
    assert verdicts["long_chunks"] is Verdict.PASS
    assert any("the largest sizes judged are t = 129. " in text for text in report.skipped)
    larger = crosscheck(
        LongChunks.apply, _spec(sizes="t == 300, d == 2"), checks=["vjp"], dtypes=["float64"], quick=True
    )
    assert [row.verdict for row in larger.rows if row.candidate != "oracle"] == [Verdict.MISMATCH]


@pytest.mark.slow
def test_a_loop_that_is_one_operation_is_not_cut():
    assert max(_sizes(_spec(scanned), "t")) == 2049
    candidates, spec = (
        {"right": Recurrence.apply, "long_chunks": LongChunks.apply},
        _spec(scanned, sizes="t in (2, 300)"),
    )
    report = crosscheck(candidates, spec, checks=["vjp"], dtypes=["float64"], quick=True)
    assert [row.verdict for row in report.rows if row.candidate == "right"] == [Verdict.PASS]
    assert [row.verdict for row in report.rows if row.candidate == "long_chunks"] == [Verdict.MISMATCH]


@pytest.mark.slow
def test_a_reference_of_two_branches():
    candidates = {"right": Either.apply, "wrong": WrongSecond.apply}
    report = crosscheck(candidates, _spec(either, "x: (n)"), checks=FIRST_ORDER, dtypes=["float64", "bfloat16"])
    verdicts = {(row.candidate, row.check): row.verdict for row in report.rows if row.candidate != "oracle"}
    assert verdicts["right", "vjp"] is verdicts["wrong", "forward"] is Verdict.PASS
    assert verdicts["wrong", "vjp"] is Verdict.MISMATCH
    f, params = to_jax(either, torch.ones(3))  # a run that counts leaves it to be traced in the same process
    np.testing.assert_array_equal(f(params, np.full(3, -2.0)), np.full(3, 4.0))
