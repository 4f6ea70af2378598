"""`audit(..., compiled=True)`: what torch.compile compiles is one operation, which agrees if it is right."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parity_tests.auditing.audit import audit
from parity_tests.auditing.findings import Audit
from parity_tests.auditing.operation import Finding, Operation
from parity_tests.auditing.replayed import replayed
from parity_tests.suite.auditing.steps import Block, Softmax, WithoutSum, made

REGION = "compiled region"
aten = torch.ops.aten


@pytest.fixture(autouse=True)
def compiled_anew() -> Iterator[None]:
    """Each test has its own compiled code."""
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True):
        yield
    torch._dynamo.reset()


def regions(of: Audit) -> list[Operation]:
    """The operations that are compiled."""
    return [each for each in of.operations if each.name == REGION]


def drawn(*shape: int) -> Tensor:
    torch.manual_seed(0)
    return torch.randn(*shape, requires_grad=True)


def _detached(x: Tensor) -> Tensor:
    return x.sin() * (x @ x.T).detach().sum()


def _under_no_grad(x: Tensor) -> Tensor:
    with torch.no_grad():
        size = x.exp().sum()
    return x.sin() / size


def _in_place(x: Tensor) -> Tensor:
    return (x @ x.T).mul_(2).relu_()


def _in_two_parts(x: Tensor) -> Tensor:
    y = x.sin()
    torch._dynamo.graph_break()
    return y * y


def _in_16_bits(x: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return (x @ x.T).float()


def _checkpointed(x: Tensor) -> Tensor:
    return torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=False)


RIGHT: dict[str, Callable[[Tensor], Tensor]] = {
    "detached": _detached,
    "under_no_grad": _under_no_grad,
    "in_place": _in_place,
    "in_two_parts": _in_two_parts,
    "in_16_bits": _in_16_bits,
    "checkpointed": _checkpointed,
    "a_view": lambda x: (x @ x.T).t(),
    "by_index": lambda x: x[x.argmax(0)],
    "a_constant": lambda x: x + torch.arange(4.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_right_code_agrees(name: str) -> None:
    found = audit(torch.compile(RIGHT[name]), drawn(3, 4), compiled=True)
    assert found.passed, str(found)
    assert [each.finding for each in regions(found)] == [Finding.AGREES] * (2 if name == "in_two_parts" else 1)


@pytest.mark.slow
def test_a_region_without_a_bound_names_the_remedy() -> None:
    def softmax(x: Tensor) -> Tensor:
        return (1e3 * x).softmax(1)

    found = audit(torch.compile(softmax), drawn(3, 4).bfloat16(), compiled=True)
    (region,) = regions(found)
    assert region.finding is Finding.NOT_JUDGED
    assert region.reason.endswith("; compile smaller modules, such as each block: they have a bound")


@pytest.mark.slow
def test_a_wrong_lowering_is_found_in_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.lowering import lowerings

    model, ids = made()
    block = model.blocks[1]
    assert isinstance(block, Block)
    block.mlp[2] = Cosine()
    block.mlp[2].compile()
    with monkeypatch.context() as patched:
        patched.setitem(lowerings, aten.cos.default, lowerings[aten.sin.default])
        (fault,) = audit(model, ids, compiled=True).faults
    assert (fault.name, fault.module, fault.finding) == (REGION, "Model.blocks.1.mlp.2", Finding.DIFFERS)
    assert any(row.name == "result" for row in fault.rows if not row.agrees)
    torch._dynamo.reset()
    right = audit(model, ids, compiled=True)
    assert right.passed, str(right)
    assert [each.module for each in regions(right)] == ["Model.blocks.1.mlp.2"]


@pytest.mark.slow
def test_a_module_that_is_compiled_as_a_whole_has_its_path() -> None:
    model, ids = made()
    block = model.blocks[1]
    assert isinstance(block, Block)
    block.mlp[3] = nn.Identity()  # whose random numbers would not be the same
    block.compile()
    found = audit(model, ids, compiled=True)
    assert found.passed, str(found)
    assert [(each.module, each.finding) for each in regions(found)] == [("Model.blocks.1", Finding.AGREES)]


@pytest.mark.slow
def test_inputs_have_their_names_and_what_is_written_to_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.lowering import lowerings

    class Counted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.line, self.total = nn.Linear(4, 2), nn.Buffer(torch.zeros(2))

        def forward(self, x: Tensor, *, scales: list[Tensor]) -> Tensor:
            y = self.line(x) * scales[0]
            self.total.add_(y.detach().cos().sum(0))
            return y

    net, scales = Counted(), [drawn(2)]
    net.compile()
    right = audit(net, drawn(3, 4), scales=scales, compiled=True)
    assert right.passed, str(right)
    (region,) = regions(right)
    assert region.module == "Counted"
    gradients = {f"gradient of {name}" for name in ("x", "scales[0]", "line.weight", "line.bias")}
    assert {row.name for row in region.rows} == {"result 0", "total afterwards", *gradients}
    torch._dynamo.reset()
    monkeypatch.setitem(lowerings, aten.cos.default, lowerings[aten.sin.default])
    (fault,) = audit(net, drawn(3, 4), scales=scales, compiled=True).faults
    assert [row.name for row in fault.rows if not row.agrees] == ["total afterwards"]
    assert fault.facts is not None
    names = [*fault.facts.arguments]

    def as_it_is(*given: Tensor) -> Tensor:
        by_name = dict(zip(names, given, strict=True))
        return F.linear(by_name["x"], by_name["line.weight"], by_name["line.bias"]) * by_name["scales[0]"]

    again = replayed(as_it_is, fault.facts, fault.arrays)
    assert {row.name for row in again} == {"result 0", *gradients}
    assert all(row.agrees for row in again)


class Cosine(nn.Module):
    """The cosine."""

    def forward(self, x: Tensor) -> Tensor:
        """Return cos(x)."""
        return x.cos()


@pytest.mark.slow
def test_a_wrong_backward_of_the_compiled_code_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.lowering import lowerings

    x = drawn(3, 4)
    monkeypatch.setitem(lowerings, aten.cos.default, lowerings[aten.sin.default])  # the derivative of the sine
    (fault,) = audit(torch.compile(lambda x: x.sin()), x, compiled=True).faults
    assert [row.name for row in fault.rows if not row.agrees] == ["gradient of x"]


@pytest.mark.slow
def test_a_wrong_function_in_compiled_code_is_found() -> None:
    x = drawn(3, 4)
    assert audit(torch.compile(lambda x: Softmax.apply(x.sin()).sin()), x, compiled=True).passed
    (fault,) = audit(torch.compile(lambda x: WithoutSum.apply(x.sin()).sin()), x, compiled=True).faults
    assert (fault.name, fault.finding) == (REGION, Finding.DIFFERS)


@pytest.mark.slow
def test_what_it_writes_to_is_written_once_and_known_as_it_was() -> None:
    x, norm = drawn(3, 4), nn.BatchNorm1d(4)
    twin = copy.deepcopy(norm)

    def doubled(y: Tensor) -> Tensor:
        return y.mul_(2).tanh()

    in_two = torch.compile(doubled)
    found = audit(lambda x: in_two(torch.compile(norm)(x).sin()), x, compiled=True)
    assert found.passed, str(found)
    assert {each.finding for each in found.operations} == {Finding.AGREES}
    twin(x)
    assert torch.equal(norm.num_batches_tracked, twin.num_batches_tracked)
    torch.testing.assert_close(norm.running_mean, twin.running_mean)


@pytest.mark.slow
def test_random_numbers_are_not_judged_and_are_those_of_the_step() -> None:
    f = torch.compile(lambda x: F.dropout(x, 0.5))
    torch.manual_seed(1)
    expected = f(drawn(3, 4)), torch.rand(3)
    torch.manual_seed(1)
    x = drawn(3, 4)
    found = audit(lambda x: f(x).sum(), x, compiled=True)
    (region,) = regions(found)
    assert (region.finding, region.reason) == (Finding.NOT_JUDGED, "aten::bernoulli_.float draws random numbers")
    torch.testing.assert_close(torch.rand(3), expected[1])


@pytest.mark.slow
def test_several_views_of_a_result_are_told() -> None:
    f = torch.compile(lambda x: (lambda y: (y.t(), y.view(-1)))(x.sin()))
    found = audit(lambda x: sum(y.cos().sum() for y in f(x)), drawn(3, 4), compiled=True)
    assert not found.faults
    assert any("was seen to make it" in each.reason for each in found.operations)


@pytest.mark.slow
def test_a_backend_of_the_users_runs_again_afterwards() -> None:
    ran = list[int]()

    def backend(module: torch.fx.GraphModule, _: object) -> Callable[..., object]:
        ran.append(1)
        return module.forward

    f, x = torch.compile(torch.sin, backend=backend), drawn(3, 4)
    assert audit(f, x, compiled=True).passed
    assert audit(f, x, compiled=True).passed
    assert not ran
    f(x)
    assert ran == [1]


@pytest.mark.slow
def test_a_size_that_changes_is_no_other_code() -> None:
    w = drawn(4, 4)
    f = torch.compile(lambda x: torch.tanh(x @ w), dynamic=True)
    found = audit(lambda: torch.stack([f(torch.ones(n, 4)).sum() for n in (3, 5, 7)]).sum(), compiled=True)
    assert found.passed, str(found)
    assert len(regions(found)) == 3


def test_without_compiled_code_it_is_refused() -> None:
    with pytest.raises(ValueError, match=r"torch\.compile compiles nothing"):
        audit(torch.sin, drawn(3), compiled=True)


def test_by_default_it_is_judged_by_its_operators_and_is_compiled_afterwards() -> None:
    ran = list[int]()

    def backend(module: torch.fx.GraphModule, _: object) -> Callable[..., object]:
        ran.append(1)
        return module.forward

    f, x = torch.compile(lambda x: x.sin().cos(), backend=backend), drawn(3)
    assert [each.name for each in audit(f, x).operations] == ["aten::sin", "aten::cos"]
    assert not ran
    f(x)
    assert ran == [1]


@pytest.mark.slow
def test_what_has_no_bound_is_told_in_short() -> None:
    def deep(x: Tensor) -> Tensor:
        for _ in range(6):
            x = (100 * x).exp()
        return x

    names = [torch.full((), -1.0, requires_grad=True) for _ in range(6)]
    found = audit(torch.compile(lambda *x: sum(deep(a) for a in x)), *names, compiled=True)
    (region,) = regions(found)
    assert len(region.reason.split("; ")) <= 4


class Exp(torch.autograd.Function):
    """The exponential."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        """Return exp(x)."""
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, c: Tensor) -> Tensor:
        """Return c exp(x)."""
        return c * ctx.saved_tensors[0]


def _after_a_function(x: Tensor) -> Tensor:
    y = Exp.apply(x.sin())
    with torch.no_grad():
        size = y.view(-1).view(3, 4)
    return y * size * y.detach()


def _under_no_grad_as_a_whole(x: Tensor) -> Tensor:
    a = x.sin()
    with torch.enable_grad():
        return x * a


@pytest.mark.slow
def test_code_under_no_grad_is_told_from_the_forward_of_a_function() -> None:
    assert audit(torch.compile(_after_a_function), drawn(3, 4), compiled=True).passed
    part = torch.compile(_under_no_grad_as_a_whole)
    assert audit(torch.no_grad()(part), drawn(3, 4), compiled=True).passed


@pytest.mark.slow
def test_numbers_that_change_without_a_gradient_are_not_judged() -> None:
    x, ones = drawn(3, 4), torch.ones(3, 4)
    row = ones[0]

    def written_over(x: Tensor) -> Tensor:
        y = x.sin()
        with torch.no_grad():
            y.mul_(2)
        return y * x

    def shared(x: Tensor) -> Tensor:
        ones.add_(1)
        return x * row

    for f, reason in ((written_over, "writes to a tensor with a gradient"), (shared, "several of its arguments share")):
        found = audit(torch.compile(f), x, compiled=True)
        (region,) = regions(found)
        assert region.finding is Finding.NOT_JUDGED
        assert reason in region.reason


@pytest.mark.slow
def test_results_without_a_gradient_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.lowering import lowerings

    x, both, alone = drawn(3, 4), torch.compile(lambda x: (x.sin(), x.detach().exp())), torch.compile(torch.exp)

    def detached(x: Tensor) -> Tensor:
        y, z = both(x)
        return y * z

    def step(x: Tensor) -> Tensor:
        with torch.no_grad():
            y = alone(x)
        return x * y

    assert audit(detached, x, compiled=True).passed
    assert audit(step, x, compiled=True).passed
    torch._dynamo.reset()
    monkeypatch.setitem(lowerings, aten.exp.default, lowerings[aten.tanh.default])
    for f in (detached, step):
        (fault,) = audit(f, x, compiled=True).faults
        assert (fault.name, fault.finding) == (REGION, Finding.DIFFERS)


@pytest.mark.slow
def test_each_of_many_sizes_is_compiled() -> None:
    f = torch.compile(torch.sin, dynamic=False)
    found = audit(lambda: torch.stack([f(drawn(n)).sum() for n in range(1, 12)]).sum(), compiled=True)
    assert found.passed
    assert len(regions(found)) == 11
