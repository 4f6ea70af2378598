"""What PyTorch's dispatcher offers to every operator: modes, tensor subclasses, tags, and calls by its schema."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from parity_tests.suite.torch_impl._common import (
    COTANGENTS,
    PRIMALS,
    Attn,
    assert_same,
    draw,
    native_implementations,
    pull,
)
from torch_impl import attn_composite

OWN = {  # the operators of ours that run in forward and backward; in the second order there are only PyTorch's
    "attn": (["gradparity::attn"], ["gradparity::attn_backward"]),
    "attn_implicit": ([], []),
}


class Log(TorchDispatchMode):
    """The names of the operators that run inside."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.name().split(".")[0])
        return func(*args, **(kwargs or {}))

    @property
    def own(self) -> list[str]:
        return [name for name in self.names if name.startswith("gradparity::")]


@native_implementations
def test_dispatch_mode_sees_the_explicit_operator_whole(attn: Attn):
    """And in place of the implicit one what it is made of."""
    primals = draw(PRIMALS, requires_grad=PRIMALS)
    with Log() as forward:
        outputs = attn(*primals)
    with Log() as backward:
        grads = pull(outputs, primals, draw(COTANGENTS, seed=1), create_graph=True)
    with Log() as second:
        pull(grads, primals, draw(PRIMALS, seed=2))
    assert (forward.own, backward.own) == OWN[attn.__name__]
    if not forward.own:
        assert [name for name in forward.names if name in ("aten::mm", "aten::tanh")] == [
            "aten::mm",
            "aten::tanh",
            "aten::mm",
        ]
        assert {"aten::mm", "aten::tanh_backward"} <= set(backward.names)
    # Second order goes through attn, too, and so once more through the first.
    assert set(second.own) <= set(OWN[attn.__name__][1])
    assert "aten::mm" in second.names


@native_implementations
def test_dispatch_mode_may_change_the_result(attn: Attn):
    """What a mode returns is the operator's result, and the derivative is recorded outside of it."""

    class Twice(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            last = func is torch.ops.gradparity.attn.default or func is torch.ops.aten.mm.default
            return tree_map_only(Tensor, lambda x: 2 * x, result) if last else result

    primals = draw(PRIMALS)
    with Twice():
        actual = attn(*primals)
    output, attn_matrix = attn_composite(*primals)
    if attn.__name__ == "attn":
        assert_same(actual, (2 * output, 2 * attn_matrix))
    else:
        attn_matrix = torch.tanh(2 * (primals[0] @ primals[1].mT))
        assert_same(actual, (2 * attn_matrix @ primals[2], attn_matrix))


@native_implementations
def test_function_mode(attn: Attn):
    seen = []

    class Seen(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    primals = draw(PRIMALS)
    with Seen():
        outputs = attn(*primals)
    assert seen == [attn]
    assert_same(outputs, attn_composite(*primals))


class Tagged(Tensor):
    """A subclass with PyTorch's default `__torch_function__`: results are of the subclass, too."""


@native_implementations
@pytest.mark.parametrize("tagged", PRIMALS)
def test_function_subclass(attn: Attn, tagged):
    primals = draw(PRIMALS, requires_grad=PRIMALS)
    given = [x.as_subclass(Tagged) if name == tagged else x for name, x in zip(PRIMALS, primals, strict=True)]
    outputs, cotangents = attn(*given), draw(COTANGENTS, seed=1)
    assert [type(x) for x in outputs] == [Tagged, Tagged]
    expected = attn_composite(*primals)
    assert_same([x.as_subclass(Tensor) for x in outputs], list(expected))
    grads = [x.as_subclass(Tensor) for x in pull(outputs, primals, cotangents)]
    assert_same(grads, list(pull(expected, primals, cotangents)))


@native_implementations
def test_function_subclass_may_take_over(attn: Attn):
    class Refuses:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func, types

    q, k, _ = draw(PRIMALS)
    assert attn(q, k, Refuses()) == (attn, (Refuses,))


class Wrapper(Tensor):
    """A tensor that holds another one, and unwraps and wraps around every operator."""

    log: list[str] = []  # noqa: RUF012 (written to by every call)

    @staticmethod
    def __new__(cls, inner: Tensor):
        return Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            dtype=inner.dtype,
            device=inner.device,
            requires_grad=inner.requires_grad,
        )

    def __init__(self, inner: Tensor) -> None:
        self.held = inner.detach()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.log.append(func.name().split(".")[0])
        args, kwargs = tree_map_only(cls, lambda x: x.held, (args, kwargs or {}))
        return tree_map_only(Tensor, cls, func(*args, **kwargs))


def unwrapped(tensors) -> list[Tensor]:
    assert all(type(x) is Wrapper for x in tensors)
    return [x.held for x in tensors]


@native_implementations
def test_dispatch_subclass(attn: Attn):
    """A wrapper passes through forward, backward and double backward, and sees the same operators as a mode."""
    plain = draw(PRIMALS, requires_grad=PRIMALS)
    wrapped = [Wrapper(x) for x in plain]
    cotangents, directions = draw(COTANGENTS, seed=1), draw(PRIMALS, seed=2)
    Wrapper.log.clear()
    outputs = attn(*wrapped)
    grads = pull(outputs, wrapped, [Wrapper(x) for x in cotangents], create_graph=True)
    own = [name for name in Wrapper.log if name.startswith("gradparity::")]
    seconds = pull(grads, wrapped, [Wrapper(x) for x in directions])

    expected = attn_composite(*plain)
    expected_grads = pull(expected, plain, cotangents, create_graph=True)
    assert_same(unwrapped(outputs), list(expected))
    assert_same(unwrapped(grads), list(expected_grads))
    assert_same(unwrapped(seconds), list(pull(expected_grads, plain, directions)))
    forward, backward = OWN[attn.__name__]
    assert own == forward + backward


@native_implementations
@pytest.mark.parametrize("wrapped", PRIMALS)
def test_dispatch_subclass_beside_plain_tensors(attn: Attn, wrapped):
    primals = draw(PRIMALS)
    given = [Wrapper(x) if name == wrapped else x for name, x in zip(PRIMALS, primals, strict=True)]
    outputs = attn(*given)
    expected = attn_composite(*primals)
    assert_same([getattr(x, "held", x) for x in outputs], list(expected))
    assert type(outputs[0]) is Wrapper


@native_implementations
def test_dispatch_subclass_that_refuses(attn: Attn):
    class Refuses(Wrapper):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    q, k, v = draw(PRIMALS)
    with pytest.raises(TypeError, match="Multiple dispatch failed"):
        attn(q, Refuses(k), v)


@native_implementations
def test_by_keyword(attn: Attn):
    q, k, v = draw(PRIMALS)
    assert_same(attn(v=v, q=q, k=k), attn_composite(q, k, v))
    results = attn.default(q, k, v)
    assert_same(results, attn_composite(q, k, v))
    for wrong in ({"q": q, "k": k}, {"q": q, "k": k, "v": v, "scale": 1.0}):
        with pytest.raises(RuntimeError, match=f"gradparity::{attn.__name__}"):
            attn(**wrong)


@native_implementations
def test_schema(attn: Attn):
    schema = attn.default._schema
    assert str(schema) == f"gradparity::{attn.__name__}(Tensor q, Tensor k, Tensor v) -> (Tensor output, Tensor attn)"
    assert not schema.is_mutable
    assert torch.Tag.pt2_compliant_tag in attn.default.tags
    assert attn.default._can_decompose() == (attn.__name__ == "attn_implicit")


AUTOCAST = {"AutocastCPU", "AutocastCUDA", "AutocastMPS", "AutocastXPU", "AutocastPrivateUse1"}
KERNELS = {
    "attn": {"CPU", "CompositeExplicitAutograd", "Autograd", "FuncTorchBatched"} | AUTOCAST,
    "attn_backward": {"CPU", "CompositeExplicitAutograd", "Autograd", "FuncTorchBatched"} | AUTOCAST,
    "attn_implicit": {"CompositeImplicitAutograd", "FuncTorchBatchedDecomposition"},
}


@pytest.mark.parametrize("attn", ["native"], indirect=True)
@pytest.mark.parametrize("operator", KERNELS)
@pytest.mark.usefixtures("attn")
def test_kernels(operator):
    """One for every key that has no good default, and no other; also for the devices that are not here."""
    keys = set().union(*KERNELS.values(), {"AutocastMTIA", "CUDA", "Meta", "AutogradCPU"})
    registered = {key for key in keys if torch._C._dispatch_has_kernel_for_dispatch_key(f"gradparity::{operator}", key)}
    assert registered == KERNELS[operator]
