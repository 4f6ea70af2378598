"""References that cannot be made functions of JAX: each is refused, with its line and what to write instead."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from parity_tests import OpSpec, crosscheck
from parity_tests.conversion.cannot_convert import CannotConvert
from parity_tests.suite.marks import fast


def _branches(x: Tensor) -> Tensor:
    return x * 2 if x.sum() > 0 else x


def _selects(x: Tensor) -> Tensor:
    return x[x > 0].sum()


def _drops(x: Tensor) -> Tensor:
    return F.dropout(x, 0.5)


def _draws(x: Tensor) -> Tensor:
    return x + torch.randn_like(x)


def _drops_attention(x: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None], dropout_p=0.5)


def _uses_an_operator_without_counterpart(x: Tensor) -> Tensor:
    return torch.special.bessel_j0(x)


def _reads_bits(x: Tensor) -> Tensor:
    return x.view(torch.int64).to(x.dtype) * x


def _rounds_to_eight_bits(x: Tensor) -> Tensor:
    return x.to(torch.float8_e4m3fn).to(x.dtype)


def _writes_to_its_input(x: Tensor) -> Tensor:
    return x.mul_(2) + 1


def _writes_unrecorded(x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    with torch.no_grad():
        y[0] = x[0]
    return x * y


@torch.no_grad()
def _records_nothing(x: Tensor) -> Tensor:
    return torch.tanh(x)


def _returns_a_number(x: Tensor) -> tuple[Tensor, float]:
    return torch.tanh(x), 1.0


def _computes_with_a_number_of_a_tensor(x: Tensor) -> Tensor:
    return x * (x.sum().item() + 1.0)


_REFUSED: list[tuple[Callable, str, bool]] = [
    (_branches, r"torch.export cannot read .*; its program must not depend on the numbers .* torch.where", True),
    (_selects, r"the shape of aten.index.Tensor depends on numbers.*; multiply by a mask", True),
    (_drops, r"draws random numbers \(aten::native_dropout\).* make them an input", True),
    (_draws, r"draws random numbers \(aten::randn_like\)", True),
    (_drops_attention, r"draws random numbers \(aten::scaled_dot_product_attention\)", True),
    (_uses_an_operator_without_counterpart, r"jax_ref.aten has no aten::special_bessel_j0; write", True),
    (_reads_bits, r"jax_ref.aten has no aten::view.dtype, with dtype", True),
    (_rounds_to_eight_bits, r"uses torch.float8_e4m3fn, .*; write the rounding out", True),
    (_writes_to_its_input, r"writes to one of its inputs; let it clone", False),
    (_writes_unrecorded, r"writes to a tensor while no gradient is recorded", True),
    (_records_nothing, r"no output of the reference depends on an input, except .* under torch.no_grad", False),
    (_returns_a_number, r"returns float where a tensor", False),
    (_computes_with_a_number_of_a_tensor, r"a number that is read from a tensor must stay a tensor", False),
]


@fast(
    "_branches",
    "_drops",
    "_writes_to_its_input",
    "_uses_an_operator_without_counterpart",
    "_rounds_to_eight_bits",
    "_writes_unrecorded",
    "_returns_a_number",
)
@pytest.mark.parametrize(("reference", "message", "has_line"), _REFUSED, ids=[case[0].__name__ for case in _REFUSED])
def test_a_refusal_names_the_line_and_the_remedy(reference: Callable, message: str, has_line: bool) -> None:
    with pytest.raises(CannotConvert, match=message) as error:
        OpSpec.from_torch(reference, "(n,d)->(n,d)")
    if has_line:
        place = re.search(r'File "([^"]+)", line (\d+), in (\w+)', str(error.value))
        assert place is not None, str(error.value)
        assert (place[1], place[3]) == (__file__, reference.__name__)
        assert int(place[2]) > reference.__code__.co_firstlineno


def test_the_line_is_that_of_a_helper() -> None:
    def reference(x: Tensor) -> Tensor:
        return 2 * _drops(x)

    with pytest.raises(CannotConvert, match=r"in _drops: the reference draws"):
        OpSpec.from_torch(reference, "(n)->(n)")


def test_what_is_no_function_of_tensors() -> None:
    with pytest.raises(TypeError, match=r"from_torch: reference must be a PyTorch function or module, got int"):
        OpSpec.from_torch(3, "(n)->(n)")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"give either a signature or inputs, not both"):
        OpSpec.from_torch(torch.tanh, "(n)->(n)", inputs="x: (n)", name="op")
    with pytest.raises(CannotConvert, match=r"cannot read the function: ValueError: the author's"):
        OpSpec.from_torch(_raises, "(n)->(n)")


def _raises(x: Tensor) -> Tensor:
    raise ValueError("the author's own mistake")


@pytest.mark.slow
def test_a_refusal_leaves_the_settings_as_they_were() -> None:
    before = torch.get_default_dtype(), torch.is_grad_enabled(), torch.backends.cudnn.enabled
    for reference in (_branches, _writes_unrecorded, torch.tanh):
        with contextlib.suppress(CannotConvert):
            OpSpec.from_torch(reference, "(n)->(n)", name="op")
        assert (torch.get_default_dtype(), torch.is_grad_enabled(), torch.backends.cudnn.enabled) == before


@pytest.mark.slow
def test_dropout_with_the_mask_as_an_input_converts() -> None:
    def masked(x: Tensor, mask: Tensor) -> Tensor:
        return torch.tanh(x) * mask / 0.5

    report = crosscheck(masked, masked, inputs="x: (n), mask: (n) boolean", checks=["vjp"], quick=True)
    assert report.passed, report
