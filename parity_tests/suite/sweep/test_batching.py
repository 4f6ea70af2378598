"""Right batching rules agree, and a wrong one is seen where its layout shows it."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
import torch

from parity_tests.suite.sweep.test_judgement import call_of, no_special_calls
from parity_tests.sweep.batching import judge_batched
from parity_tests.sweep.cases import Case, case_of
from parity_tests.sweep.judgement import judge_entry
from parity_tests.sweep.lines import BATCHED, Line, Verdict
from parity_tests.sweep.tallies import Tally
from torch_impl.derivatives import lookup

X = np.random.default_rng(0).standard_normal((3, 4))


def lines_of(name: str, arguments: dict[str, Any], modes: list[str], dtypes: tuple[str, ...]) -> list[Line]:
    call = call_of(name, arguments)
    return judge_entry(lookup(name), modes, dtypes, calls=lambda name, dtype: [call], special=no_special_calls)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_right_batching_rules_agree(dtype: str) -> None:
    x = X if dtype == "float64" else X + 1j * X[::-1]
    lines = lines_of("mm", {"self": x, "mat2": x.T.copy()}, [BATCHED], (dtype,))
    assert sorted((line.of, line.verdict, line.calls) for line in lines) == [
        ("mat2", Verdict.AGREES, 1),
        ("self", Verdict.AGREES, 1),
    ]


class Square(torch.autograd.Function):
    """x² of rows, with a batching rule that a mistake can be planted in."""

    mistake = ""
    generate_vmap_rule = False

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, bar: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return Gradient.apply(x, bar)

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: torch.Tensor) -> Any:
        return Square.apply(x), in_dims[0]


class Gradient(torch.autograd.Function):
    """2 x x_bar, and its batching rule."""

    @staticmethod
    def forward(x: torch.Tensor, bar: torch.Tensor) -> torch.Tensor:
        return 2 * x * bar

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None: ...

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: torch.Tensor, bar: torch.Tensor) -> Any:
        of_x, of_bar = in_dims
        if Square.mistake == "the first example's input" and of_x is not None:
            x, of_x = x.select(of_x, 0), None
        if Square.mistake == "an axis in front is taken for granted":
            of_x, of_bar = (None if d is None else 0 for d in in_dims)
        if Square.mistake == "cotangents alone" and of_x is None:
            return 3 * x * bar.movedim(of_bar, 0), 0
        if Square.mistake == "inputs alone" and of_bar is None:
            return x.movedim(of_x, 0) * bar, 0
        x, bar = (
            y.expand(info.batch_size, *y.shape) if d is None else y.movedim(d, 0) for y, d in ((x, of_x), (bar, of_bar))
        )
        return 2 * x * bar, 0


@pytest.mark.parametrize(
    ("mistake", "where"),
    [
        ("", ""),
        ("the first example's input", "in_dims"),
        ("an axis in front is taken for granted", "in_dims"),
        ("cotangents alone", "as jacrev"),
        ("inputs alone", "in_dims"),
    ],
)
def test_a_wrong_batching_rule_is_seen(mistake: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # As many rows as examples, so that no mistake shows by a shape
    arguments = {"self": X[:2, :2].copy(), "exponent": 2}
    case = case_of(lookup("pow.Tensor_Scalar"), call_of("pow.Tensor_Scalar", arguments))
    assert isinstance(case, Case)
    monkeypatch.setattr(Square, "mistake", mistake)
    tally = Tally()
    with jax.enable_x64(True):
        judge_batched(case, "float64", {"self": tally}, lambda x: (Square.apply(x),))
    assert tally.calls == 1
    assert tally.verdict is (Verdict.WRONG_IN_PYTORCH if mistake else Verdict.AGREES)
    assert where in tally.verdict_reason
