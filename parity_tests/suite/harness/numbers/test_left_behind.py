"""What a candidate leaves behind in PyTorch neither convicts the next one nor makes it right."""

from __future__ import annotations

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from parity_tests import Verdict, crosscheck
from parity_tests.harness.numbers.left_behind import put_back
from parity_tests.suite.harness._ops import SQUARE


class Doubles(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return 2 * result if func is torch.square else result


class DoublesOperators(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return 2 * func(*args, **(kwargs or {}))


def test_what_was_replaced_is_put_back_and_what_was_added_stays() -> None:
    cos, item = torch.cos, torch.Tensor.item
    try:
        with put_back():
            torch.cos, torch.Tensor.item, torch.made_up = torch.sin, torch.Tensor.tolist, torch.sin
            del torch.nn.functional.gelu
        assert torch.cos is cos
        assert torch.Tensor.item is item
        assert torch.nn.functional.gelu(torch.zeros(1)) == 0
        assert torch.made_up is torch.sin
    finally:
        del torch.made_up


def test_modes_are_left() -> None:
    with Doubles(), put_back():
        Doubles().__enter__()
        DoublesOperators().__enter__()
    assert torch._C._len_torch_function_stack() == 0
    assert torch._C._len_torch_dispatch_stack() == 0


def test_the_next_candidate_is_judged_by_itself() -> None:
    def patches(x):
        torch.square = lambda x: x * x * x
        return x * x

    def enters(x):
        Doubles().__enter__()
        return x * x

    def wrong_but_for_that(x):
        return torch.square(x) / 2

    candidates = {"patches": patches, "enters": enters, "right": torch.square, "wrong": wrong_but_for_that}
    report = crosscheck(candidates, SQUARE, checks=["forward", "vjp"], dtypes=["float64"], progress=False)
    verdicts = {row.candidate: row.verdict for row in report.rows if row.check == "vjp"}
    assert verdicts["right"] is Verdict.PASS
    assert verdicts["wrong"] is Verdict.MISMATCH
