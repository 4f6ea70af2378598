"""Right code that is easily accused, and wrong code that passes easily."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jax_ref.aten import OPERATORS
from parity_tests.auditing.audit import audit
from parity_tests.auditing.operation import Finding


def drawn(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    torch.manual_seed(0)
    return torch.randn(*shape, dtype=dtype).requires_grad_()


class Both(torch.autograd.Function):
    """Returns its argument twice."""

    @staticmethod
    def forward(ctx, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return x and x."""
        return x, x

    @staticmethod
    def backward(ctx, c: Tensor, d: Tensor) -> Tensor:
        """Return c + d."""
        return c + d


class Product(torch.autograd.Function):
    """The product of two tensors."""

    @staticmethod
    def forward(ctx, x: Tensor, y: Tensor) -> Tensor:
        """Return x y."""
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, c: Tensor) -> tuple[Tensor, Tensor]:
        """Return c y and c x."""
        x, y = ctx.saved_tensors
        return c * y, c * x


def _masked(q: Tensor) -> Tensor:
    mask = torch.ones(len(q), len(q)).tril() == 0
    return (q @ q.T).masked_fill(mask, -float("inf")).softmax(-1) @ q


def _under_no_grad(x: Tensor) -> Tensor:
    norm, y = nn.LayerNorm(3), x * 1
    with torch.no_grad():
        norm(y[:2])
    return y * 2


def _of_another_thread(x: Tensor) -> Tensor:
    found = []
    thread = threading.Thread(target=lambda: found.append(x.cos()))
    thread.start()
    thread.join()
    return found[0] + x.sin()


def _grouped_queries(x: Tensor) -> Tensor:
    q, k = (x * 1).split([4, 2], 1)
    return F.scaled_dot_product_attention(q, k, k.flip(0), is_causal=True, enable_gqa=True)


RIGHT: dict[str, tuple[Callable[[Tensor], object], Tensor]] = {
    "times_its_detached": (lambda x: x * x.detach(), drawn(4, 3)),
    "times_its_data": (lambda x: x * x.data, drawn(4, 3)),
    "times_a_view_of_it": (lambda x: x * x.view_as(x) + x * x[:], drawn(4, 3)),
    "a_function_with_its_detached": (lambda x: Product.apply(x * 1, (x * 1).detach()), drawn(4, 3)),
    "expanded_and_unbound": (lambda x: sum((i + 1) * v.sin() for i, v in enumerate(x.expand(4, 3).unbind())), drawn(3)),
    "the_same_twice": (lambda x: sum(y.sin() for y in Both.apply(x * 1)), drawn(4, 3)),
    "a_boolean_index": (lambda x: (x * 1)[x > 0].sum(), drawn(4, 3)),
    "small_in_float16": (lambda x: (x.float() ** 2).sum() * 1e-5, drawn(8, dtype=torch.float16)),
    "an_infinite_mask": (_masked, drawn(5, 4)),
    "a_masked_logarithm": (lambda x: torch.where(x > 0, x.log(), x * 0), drawn(4, 3)),
    "a_module_without_gradients": (_under_no_grad, drawn(4, 3)),
    "an_offset_view_as_strided": (lambda x: (x * 1).t().as_strided((2, 2), (1, 2), 0) ** 2, drawn(4, 3)),
    "another_thread": (_of_another_thread, drawn(4, 3)),
    "a_determinant": (lambda x: torch.linalg.det(x), drawn(4, 4)),
    "largest_of_equal_ones": (lambda x: x.relu().topk(3).values, drawn(4, 6)),
    "eigenvalues": (lambda x: torch.linalg.eigvalsh(x + x.T), drawn(4, 4)),
    "a_part_written_over": (lambda x: (lambda a, b: a.mul_(b).sum())(*(x * 1).unsafe_chunk(2, -1)), drawn(4, 6)),
    "singular_values": (lambda x: torch.linalg.svdvals(x), drawn(4, 3)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_code_is_not_accused(name: str) -> None:
    step, x = RIGHT[name]
    found = audit(step, x)
    assert not found.faults, str(found)


class WithVariable(torch.autograd.Function):
    """Has an attribute by the name that nodes of leaves have."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        """Return 2 x."""
        ctx.variable = x
        return 2 * x

    @staticmethod
    def backward(ctx, c: Tensor) -> Tensor:
        """Return 3 c, which is wrong."""
        return 3 * c


def test_an_attribute_hides_no_function() -> None:
    (fault,) = audit(lambda x: WithVariable.apply(x * 1) * 2, drawn(3)).faults
    assert fault.name == "WithVariableBackward"


class WithoutBound(torch.autograd.Function):
    """A softmax whose gradient is nonsense, where 16 bits have no bound."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        """Return the softmax."""
        return x.softmax(1)

    @staticmethod
    def backward(ctx, c: Tensor) -> Tensor:
        """Return a large number."""
        return torch.full_like(c, 1e9)


class TakesMore(torch.autograd.Function):
    """Multiplies by a tensor with a gradient that is no argument."""

    factor: Tensor

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        """Return x times the factor."""
        return x * TakesMore.factor

    @staticmethod
    def backward(ctx, c: Tensor) -> Tensor:
        """Return c times the factor."""
        return c * TakesMore.factor


class InNumPy(torch.autograd.Function):
    """Computes a part in NumPy, in memory that another tensor has left."""

    pool: ClassVar[list[Tensor]] = []

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        """Return x + sin x."""
        InNumPy.pool.clear()
        return x + torch.from_numpy(np.sin(x.detach().numpy()))

    @staticmethod
    def backward(ctx, c: Tensor) -> Tensor:
        """Return c."""
        return c.clone()


def test_an_unbounded_error_is_no_agreement() -> None:
    found = audit(lambda x: WithoutBound.apply(x * 100), drawn(6, 60, dtype=torch.bfloat16))
    (of_function,) = (each for each in found.operations if each.name == "WithoutBoundBackward")
    assert of_function.finding is not Finding.AGREES
    assert "WithoutBoundBackward" in str(found)


def test_a_tensor_that_is_no_argument_is_told() -> None:
    TakesMore.factor = drawn(3)
    found = audit(lambda x: TakesMore.apply(x) ** 2 + TakesMore.factor, drawn(4, 3))
    assert "a tensor with a gradient that is none of its arguments" in str(found)


def test_memory_that_is_used_again_is_new() -> None:
    InNumPy.pool = [torch.randn(4, 3) for _ in range(100)]
    found = audit(lambda x: InNumPy.apply(x * 1) ** 2, drawn(4, 3))
    assert "may be made by a kernel" in str(found)


def test_a_nan_of_a_hook_is_named() -> None:
    def step(x: Tensor) -> Tensor:
        y = x.sin()
        y.register_hook(lambda c: c * float("nan"))
        return y * 3

    (fault,) = audit(step, drawn(4)).faults
    assert (fault.name, fault.finding) == ("aten::sin", Finding.NOT_FINITE)
    assert "its cotangent has a NaN: a hook, or a kernel, made it" in str(fault)


def test_a_nan_of_a_parameter_is_named() -> None:
    w = torch.tensor([float("nan")], requires_grad=True)
    (fault,) = audit(lambda: (w * 2).sum()).faults
    assert (fault.name, fault.finding) == ("aten::mul.Tensor", Finding.NOT_FINITE)
    assert "given a NaN by a parameter" in str(fault)


def test_a_counterpart_that_raises_costs_its_operation_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(self: object) -> None:
        raise ArithmeticError("not today")

    monkeypatch.setitem(OPERATORS._functions, "aten::tanh", raises)
    x = drawn(4, 3)
    found = audit(lambda x: torch.tanh(x * 2), x)
    assert [each.finding for each in found.operations] == [Finding.AGREES, Finding.NOT_JUDGED]
    assert "its counterpart raises ArithmeticError: not today" in str(found)
    assert x.grad is not None


def test_an_operator_in_place_reads_its_arguments_before() -> None:
    found = audit(*RIGHT["a_part_written_over"])
    assert {each.finding for each in found.operations} == {Finding.AGREES}
    assert "aten::mul_.Tensor" in {each.name for each in found.operations}


def test_grouped_queries_are_judged() -> None:
    assert {each.finding for each in audit(_grouped_queries, drawn(2, 6, 5, 8)).operations} == {Finding.AGREES}


def test_a_result_without_a_gradient_is_not_compared() -> None:
    found = audit(F.logsigmoid, drawn(4, 3))  # which keeps a buffer, of another shape on each device
    assert [each.finding for each in found.operations] == [Finding.AGREES]


def test_tensors_without_memory_of_their_own_are_no_hindrance() -> None:
    kept = [torch.eye(3).to_sparse(), torch.empty(2, device="meta")]
    torch.vmap(lambda x: kept.append(x) or x * 2)(torch.ones(3))
    assert audit(lambda x: x * 2, drawn(4)).passed
    assert len(kept) == 3


def test_a_step_that_exits_is_told() -> None:
    with pytest.raises(RuntimeError, match="the step raised SystemExit"):
        audit(lambda: exit(0))
