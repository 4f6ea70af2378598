"""The least sizes at which a reference runs are searched for, and the axes of its outputs follow from those."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

from parity_tests import OpSpec, crosscheck
from parity_tests.conversion.cannot_convert import CannotConvert
from parity_tests.harness.specs.least_sizes import least_sizes
from parity_tests.harness.specs.size_rules import SizeRules

KERNEL = torch.linspace(-1, 1, 45).reshape(5, 1, 3, 3)  # in float32


def convolution(x: torch.Tensor) -> torch.Tensor:
    return F.conv2d(x, KERNEL)


def right(x: torch.Tensor) -> torch.Tensor:
    return F.conv2d(x, KERNEL.to(x.dtype))


class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: torch.Tensor) -> torch.Tensor:
        ctx.shape = x.shape
        return right(x)

    @staticmethod
    def backward(ctx, y_bar: torch.Tensor) -> torch.Tensor:
        x_bar = F.conv_transpose2d(y_bar, KERNEL.to(y_bar.dtype))
        return torch.where(torch.arange(ctx.shape[3]) < ctx.shape[3] - 1, x_bar, 0)  # without the last column


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reference", "inputs", "signature", "sizes"),
    [
        (convolution, "x: (b,1,h,w)", "(b,5,out0,out1)", "h >= 3, w >= 3, out0 = h - 2, out1 = w - 2"),
        (
            lambda x: F.conv2d(x, KERNEL, stride=2).flatten(1),
            "x: (b,1,h,w)",
            "(b,out0)",
            "h >= 3, w >= 3, out0 = 5 * ((h - 1) // 2) * ((w - 1) // 2)",
        ),
        (lambda x: F.avg_pool1d(x, 11), "x: (b,1,t)", "(b,1,out0)", "t >= 11, out0 = t // 11"),
        (lambda x: F.batch_norm(x, None, None, training=True), "x: (n,6)", "(n,6)", "n >= 2"),
        (lambda x: F.instance_norm(x), "x: (n,c,h,w)", "(n,c,h,w)", "h >= 2"),
        (lambda x: x.unflatten(1, (4, -1)).sum(1), "x: (n,m)", "(n,out0)", "m >= 4, m % 4 == 0, out0 = m // 4"),
        (torch.sinh, "x: (n,m)", "(n,m)", None),
    ],
    ids=["a kernel", "two sizes in one axis", "a window", "a batch", "at least two places", "a multiple", "any size"],
)
def test_the_rules_of_a_reference(reference: Callable, inputs: str, signature: str, sizes: str | None) -> None:
    spec = OpSpec.from_torch(reference, inputs=inputs)
    assert (spec.signature or "").partition("->")[2] == signature
    assert spec.sizes == sizes


@pytest.mark.slow
@pytest.mark.parametrize(("candidate", "passes"), [(right, True), (Wrong.apply, False)], ids=["right", "wrong"])
def test_a_convolution_without_padding_is_judged(candidate: Callable, passes: bool) -> None:
    spec = OpSpec.from_torch(convolution, inputs="x: (b,1,h,w)")
    report = crosscheck(candidate, spec, checks=["forward", "vjp"], dtypes=["float64"], quick=True)
    assert (report.passed, report.exit_code) == (passes, int(not passes)), str(report)


@pytest.mark.slow
def test_a_reference_that_runs_at_no_usual_size_says_so() -> None:
    with pytest.raises(CannotConvert, match=r'it runs at none of the sizes that were tried: .* sizes="n == 100"'):
        OpSpec.from_torch(lambda x: x.reshape(7919, -1), inputs="x: (n)")
    assert (
        OpSpec.from_torch(lambda x: x.reshape(101, -1), inputs="x: (n)", sizes="n == 303").signature == "(n)->(101,3)"
    )


@pytest.mark.parametrize(
    ("given", "runs", "found"),
    [
        (None, lambda n, m: True, []),
        (None, lambda n, m: n >= 3, ["n >= 3"]),
        (None, lambda n, m: n * m > 5, ["n >= 2", "m >= 3"]),
        (None, lambda n, m: n % 4 == 0 and n, ["n >= 4", "n % 4 == 0"]),
        (None, lambda n, m: m >= 100, ["m >= 100"]),
        (None, lambda n, m: False, None),
        ("n <= m", lambda n, m: m >= 2, ["m >= 2"]),
        ("n >= 3", lambda n, m: n >= 3, []),
    ],
)
def test_the_search(given: str | None, runs: Callable, found: list[str] | None) -> None:
    rules = SizeRules.parse(given, ["n", "m"]) if given else SizeRules()
    assert least_sizes(["n", "m"], ["n", "m"], rules, lambda sizes: bool(runs(**sizes))) == found
