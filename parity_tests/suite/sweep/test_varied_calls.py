"""What PyTorch's own samples leave out is called: each kind finds a defect, or a planted mistake, that they do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from parity_tests.suite.sweep.test_judgement import no_special_calls
from parity_tests.sweep.calls import calls_of
from parity_tests.sweep.cases import Case, Side
from parity_tests.sweep.judgement import judge_entry
from parity_tests.sweep.lines import Verdict
from parity_tests.sweep.recorded_calls import RecordedCall
from parity_tests.sweep.varied_calls import judged_calls, varied_calls
from torch_impl.derivatives import lookup


def verdicts(name: str, mode: str, calls: Callable[[str, str], Sequence[RecordedCall]], **given: Any) -> set[Verdict]:
    lines = judge_entry(lookup(name), [mode], ["float64"], calls=calls, special=no_special_calls, **given)
    return {line.verdict for line in lines}


# PyTorch's own, in docs/found.md: 149, 146, 147, 46, 51, 52, 80, 150, 83.
DEFECTS = [
    ("ldexp.Tensor", "vjp", "other of integers"),
    ("embedding_dense_backward", "vjp", "written out"),
    ("cholesky_solve", "jvp", "as many of input2 as rows"),
    ("upsample_nearest1d", "vjp", "sizes that stay"),
    ("upsample_nearest3d", "vjp", "sizes that stay"),
    ("upsample_bicubic2d", "vjp", "sizes that stay"),
    ("_embedding_bag", "vjp", "written out"),
    ("segment_reduce", "vjp", "written out"),
    ("_cdist_forward", "vjp", "written out"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mode", "why"), DEFECTS, ids=[name for name, *_ in DEFECTS])
def test_a_defect_that_no_sample_shows_is_found(name: str, mode: str, why: str):
    def of_this_kind(name: str, dtype: str) -> list[RecordedCall]:
        return [call for call in judged_calls(name, dtype) if why in call.source]

    assert Verdict.WRONG_IN_PYTORCH in verdicts(name, mode, of_this_kind)
    assert not any(verdict.is_wrong for verdict in verdicts(name, mode, calls_of))


def test_the_kinds_of_calls():
    def kinds(name: str) -> set[str]:
        return {call.source.partition(": ")[2] for call in varied_calls(calls_of(name, "float64"))}

    assert kinds("mul.Tensor") == {f"{x} {kind}" for x in ("self", "other") for kind in ("of integers", "a mask")}
    assert kinds("cholesky_solve") == {"as many of self as rows", "as many of input2 as rows"}
    assert kinds("embedding_dense_backward") == {"scale_grad_by_freq=True", "written out"}
    assert kinds("tanh") == set()
    assert varied_calls([]) == []


def test_a_call_that_pytorch_refuses_or_has_already_is_left_out():
    calls = calls_of("upsample_bilinear2d", "float64")
    varied = varied_calls(calls)
    signatures = [call.signature for call in (*calls, *varied)]
    assert len(set(signatures)) == len(signatures)
    assert not varied_calls(calls_of("mm", "float64"))  # a batch of matrices is no matrix


@pytest.mark.slow
def test_a_tangent_that_is_much_larger_than_another_is_tried():
    """`maximum` adds both in PyTorch 2.13: docs/found.md, 12. Planted here, as later releases have it right."""

    def planted(case: Case) -> Side:
        def side(mode: str, arguments: Sequence[Any]) -> list[np.ndarray]:
            if mode != "jvp":
                return case.in_pytorch(mode, arguments)
            x, y, x_dot, y_dot = (np.asarray(a) for a in arguments)
            return [y_dot + (x >= y) * (x_dot - y_dot)]

        return side

    def of_one_shape(name: str, dtype: str) -> list[RecordedCall]:
        return [call for call in calls_of(name, dtype) if len({x.shape for x in call.arguments.values()}) == 1]

    assert verdicts("maximum", "jvp", of_one_shape, pytorch=planted) == {Verdict.WRONG_IN_PYTORCH}


def test_each_name_among_the_options_has_its_special_points():
    called = []

    def special(call: RecordedCall, moving: Sequence[str]) -> list[RecordedCall]:
        called.append(call.arguments["reduce"])
        return []

    judge_entry(lookup("segment_reduce"), ["vjp"], ["float64"], special=special)
    assert sorted(called) == ["max", "mean", "min", "prod", "sum"]
