"""`audit`: nothing is wrong with a right training step, and a planted mistake is named where it is."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parity_tests.auditing.audit import StepFailed, audit
from parity_tests.auditing.findings import Audit
from parity_tests.auditing.operation import Finding, Operation
from parity_tests.suite.auditing.steps import Softmax, WithoutSum, made


def the_fault(of: Audit) -> Operation:
    """The only operation with something wrong."""
    assert not of.passed
    (fault,) = of.faults
    return fault


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_a_right_step_agrees(dtype: torch.dtype) -> None:
    model, ids = made()
    found = audit(model.to(dtype), ids)
    known = [each for each in found.operations if each.is_fault]
    if dtype is torch.bfloat16:  # whose gradients PyTorch adds up in 16 bits: entry 16 of docs/found.md
        known = [each for each in known if each.name != "aten::native_layer_norm"]
    assert known == [], str(found)
    assert {each.finding for each in found.operations} <= {Finding.AGREES, Finding.DIFFERS}
    assert len(found.operations) > 80


def test_a_step_under_autocast_agrees() -> None:
    model, ids = made()

    def step(ids: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return model(ids)

    found = audit(step, ids)
    assert found.passed, str(found)
    assert any(each.name == "aten::_to_copy" for each in found.operations)


def test_the_gradients_are_those_of_the_step() -> None:
    model, ids = made()
    twin = copy.deepcopy(model)
    torch.manual_seed(1)
    audit(model, ids)
    torch.manual_seed(1)
    twin(ids).backward()
    assert all(torch.equal(x.grad, y.grad) for x, y in zip(model.parameters(), twin.parameters(), strict=True))


def test_a_term_that_a_function_lacks_is_named_where_it_is() -> None:
    model, ids = made(softmax=WithoutSum)
    fault = the_fault(audit(model, ids))
    assert (fault.name, fault.finding, fault.module) == ("WithoutSumBackward", Finding.DIFFERS, "Model.blocks.1")
    assert "steps.py" in fault.line
    assert [row.name for row in fault.rows if not row.agrees] == ["gradient of x"]


class Twice(torch.autograd.Function):
    """2 x, with another gradient."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        """Return 2 x."""
        return 2 * x

    @staticmethod
    def backward(ctx, c: Tensor) -> Tensor:
        """Return 3 c."""
        return 3 * c


class Masked(torch.autograd.Function):
    """A mask, of which backward takes the opposite."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        """Return the entries above zero."""
        ctx.save_for_backward(x > 0)
        return x * (x > 0)

    @staticmethod
    def backward(ctx, c: Tensor) -> Tensor:
        """Return c where x is not above zero."""
        return c * ~ctx.saved_tensors[0]


class Scaled(torch.autograd.Function):
    """Multiplies by a buffer, whose last numbers backward has."""

    scale: Tensor

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        """Return x times the buffer, which then changes."""
        y = x * Scaled.scale
        Scaled.scale = Scaled.scale + 1
        return y

    @staticmethod
    def backward(ctx, c: Tensor) -> Tensor:
        """Return c times what the buffer is now."""
        return c * Scaled.scale


def _written_over(x: Tensor) -> Tensor:
    y = x.exp()  # which saves its result
    z = y + 1
    y.data.mul_(1.5)
    return z


def _root(x: Tensor) -> Tensor:
    return x + (x * 0).sqrt()


@pytest.mark.parametrize(
    ("after", "name", "finding"),
    [
        (Twice.apply, "TwiceBackward", Finding.DIFFERS),
        (Masked.apply, "MaskedBackward", Finding.DIFFERS),
        (Scaled.apply, "ScaledBackward", Finding.DIFFERS),
        (_written_over, "aten::exp", Finding.DIFFERS),
        (_root, "aten::sqrt", Finding.NOT_FINITE),
    ],
    ids=["another_factor", "the_opposite_mask", "a_stale_buffer", "written_over", "root_of_zero"],
)
def test_a_planted_mistake_is_named(after, name: str, finding: Finding) -> None:
    Scaled.scale = torch.tensor(3.0)
    model, ids = made(after=after)
    found = audit(model, ids)
    assert found.faults, str(found)
    fault = found.faults[0]
    assert (fault.name, fault.finding, fault.module) == (name, finding, "Model.blocks.1"), str(found)
    assert all(each.name == name for each in found.faults), str(found)


def test_what_overflows_in_float16_is_named() -> None:
    x = torch.full((3,), 300.0, dtype=torch.float16, requires_grad=True)
    fault = the_fault(audit(lambda x: ((x * x).float() * 0).exp(), x))  # NaN from there on, and in the cotangents
    assert (fault.name, fault.finding) == ("aten::mul.Tensor", Finding.NOT_FINITE)
    assert "90000" in str(fault).replace("9e+04", "90000")


def test_a_known_defect_of_pytorch_is_named() -> None:
    """Entry 16 of docs/found.md, as long as PyTorch has it."""
    norm, x = nn.LayerNorm(2).bfloat16(), torch.randn(4096, 2).bfloat16()
    fault = the_fault(audit(lambda x: norm(x).float().sum(), x))
    assert fault.name == "aten::native_layer_norm"
    assert [row.name for row in fault.rows if "differs" in row.reason] == ["gradient of bias"]


def test_a_right_function_that_writes_in_place_agrees() -> None:
    class InPlace(torch.autograd.Function):
        @staticmethod
        def forward(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            z = x.data * 2
            z.mul_(y)
            z += 1
            return z, z.sum(-1).view(-1, 1)

        @staticmethod
        def setup_context(ctx, inputs, output) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, c: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
            x, y = ctx.saved_tensors
            return 2 * y * (c + d), 2 * x * (c + d)

    x, y = (torch.randn(2, 3, requires_grad=True) for _ in range(2))
    found = audit(InPlace.apply, x, y)
    assert found.passed, str(found)
    assert [each.name for each in found.operations] == ["InPlaceBackward"]


def test_an_operator_in_place_agrees() -> None:
    x = torch.randn(4, requires_grad=True)
    found = audit(lambda x: F.hardswish((x * 2).mul_(3).add_(1), inplace=True) * x, x)
    assert found.passed, str(found)
    names = ["aten::mul.Tensor", "aten::mul_.Tensor", "aten::add_.Tensor", "aten::hardswish_", "aten::mul.Tensor"]
    assert [each.name for each in found.operations] == names


def _by_kernel(x: Tensor) -> Tensor:
    return torch.from_numpy(2 * x.detach().numpy())


def _partly(x: Tensor) -> Tensor:
    return x * torch.from_numpy(x.detach().numpy() ** 2)


def _into_memory(x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    np.copyto(y.numpy(), 2 * x.detach().numpy())
    return y


def _by_number(x: Tensor) -> Tensor:
    return x * x.sum().item()


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (_by_kernel, "was not there before, and may be made by a kernel"),
        (_partly, "was not there before, and may be made by a kernel"),
        (_into_memory, "a kernel does"),
        (_by_number, "reads a number from a tensor"),
    ],
)
def test_a_kernel_is_not_judged_and_told(function, why: str) -> None:
    class Kernel(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x: Tensor) -> Tensor:
            return function(x)

        @staticmethod
        def backward(ctx, c: Tensor) -> Tensor:
            return 3 * c

    x = torch.randn(4, requires_grad=True)
    found = audit(lambda x: Kernel.apply(x * 2), x)
    assert found.passed  # the other one agrees
    _, of_kernel = found.operations
    assert (of_kernel.name, of_kernel.finding) == ("KernelBackward", Finding.NOT_JUDGED)
    assert why in of_kernel.reason
    assert f"not judged: KernelBackward: {of_kernel.reason}" in str(found)


def test_parameters_that_no_gradient_reaches_are_named() -> None:
    class Detached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.first(x).detach())

    found = audit(Detached(), torch.randn(3, 2))
    assert list(found.unreached) == ["first.weight", "first.bias"]
    assert "no gradient reaches: first.weight, first.bias" in str(found)


def test_a_step_without_a_gradient_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing that the step returns has a gradient; it must return its loss"):
        audit(lambda x: x * 2, torch.randn(3))


def test_an_error_of_the_step_is_told_as_its_own() -> None:
    class Refuses(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx, c: Tensor) -> Tensor:
            raise NotImplementedError("no backward yet")

    with pytest.raises(StepFailed, match=r"the step raised TypeError: .* missing 1 required positional argument"):
        audit(nn.Linear(2, 2))
    with pytest.raises(StepFailed, match=r"the step's backward raised NotImplementedError: no backward yet"):
        audit(Refuses.apply, torch.ones(2, requires_grad=True))


def test_a_failed_audit_raises_its_text() -> None:
    x = torch.zeros(2, requires_grad=True)
    with pytest.raises(AssertionError, match=r"aten::sqrt: not finite"):
        audit(lambda x: x.sqrt(), x).raise_if_failed()
    audit(lambda x: Softmax.apply(x), x).raise_if_failed()


def test_a_view_of_the_input_that_ends_leaves_it_there() -> None:
    x = torch.ones(2, requires_grad=True)
    views = [x.detach()]  # as an audit before leaves, until they are collected

    class Collected(Softmax):
        @staticmethod
        def forward(ctx, x: Tensor) -> Tensor:
            views.clear()
            return Softmax.forward(ctx, x)

    audit(lambda x: Collected.apply(x), x).raise_if_failed()


def test_other_indices_are_another_program() -> None:
    x = torch.arange(5.0, requires_grad=True)
    for chosen in ([0, 1], [3, 4], [0, 1]):
        assert audit(lambda i: x[i].pow(2).sum(), torch.tensor(chosen)).passed


def test_a_step_without_functions_does_not_look_which_tensors_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = list[int]()
    monkeypatch.setattr("parity_tests.auditing.calls._tensors", lambda: looked.append(1) or iter(()))
    x = torch.arange(5.0, requires_grad=True)
    assert audit(torch.sin, x).passed
    assert not looked
    audit(lambda x: Twice.apply(Twice.apply(x)), x)
    assert len(looked) == 1
