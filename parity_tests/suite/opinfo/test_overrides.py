"""What PyTorch's test_overrides.py asks: a subclass or mode with `__torch_function__` sees the call to the operator."""

# ruff: noqa: PT009 (assertEqual is PyTorch's, and compares tensors)

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode, resolve_name

from parity_tests.suite.opinfo._machinery import TestCase, instantiate, ops, samples
from parity_tests.suite.opinfo._op_db import OPS, overload


def testing_overrides() -> dict[Any, Callable[..., int]]:
    """In the manner of torch.overrides.get_testing_overrides: each operator, with a function of its signature."""
    return {
        torch.ops.gradparity.attn_implicit: lambda q, k, v: -1,
        torch.ops.gradparity.attn: lambda q, k, v: -1,
        torch.ops.gradparity.attn_backward: lambda output_bar, attn_bar, q, k, v, attn, mask: -1,
    }


testing_overrides.__test__ = False  # not a test, whatever pytest makes of its name

pytestmark = pytest.mark.usefixtures("native")


class Overriding(torch.Tensor):
    """A tensor that answers the calls it is asked to answer, and refuses all others."""

    overrides: dict[Any, Callable[..., int]]

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return cls.overrides.get(func, lambda *args, **kwargs: NotImplemented)(*args, **(kwargs or {}))


class TestOverrides(TestCase):
    def test_signatures(self):
        for packet, function in testing_overrides().items():
            (name,) = packet.overloads()
            schema = getattr(packet, name)._schema
            parameters = inspect.signature(function).parameters.values()
            assert [p.name for p in parameters] == [a.name for a in schema.arguments]
            assert all(p.default is p.empty for p in parameters)
            assert not any(a.has_default_value() or a.kwarg_only for a in schema.arguments)

    def test_every_operator_is_there(self):
        """Whatever the namespace declares."""
        declared = [x for x in torch._C._dispatch_get_all_op_names() if x.startswith("gradparity::")]
        assert sorted(resolve_name(x).replace(".", "::") for x in testing_overrides()) == sorted(declared)


class TestOverridesOfOps(TestCase):
    @ops(OPS, allowed_dtypes=(torch.float64,))
    def test_subclass_sees_the_call(self, device, dtype, op):
        """Whichever argument is of the subclass, in a call of the operator or of its overload."""
        packet = overload(op).overloadpacket
        function = testing_overrides()[packet]
        args = next(samples(op, device, dtype))
        for i in range(len(args)):
            for func, call in ((packet, op), (packet, packet), (overload(op), overload(op))):
                seen = []

                class Subclass(Overriding):
                    overrides = {func: lambda *args, seen=seen: seen.append(args) or function(*args)}  # noqa: RUF012

                given = [x.as_subclass(Subclass) if i == j else x for j, x in enumerate(args)]
                assert call(*given) == -1
                ((*passed,),) = seen
                assert all(x is y for x, y in zip(passed, given, strict=True))

    @ops(OPS, allowed_dtypes=(torch.float64,))
    def test_subclass_sees_keyword_arguments(self, device, dtype, op):
        packet = overload(op).overloadpacket

        class Subclass(Overriding):
            overrides = {packet: testing_overrides()[packet]}  # noqa: RUF012

        q, k, v = next(samples(op, device, dtype))
        assert op(v=v, k=k, q=q.as_subclass(Subclass)) == -1

    @ops(OPS, allowed_dtypes=(torch.float64,))
    def test_subclass_that_refuses(self, device, dtype, op):
        class Subclass(Overriding):
            overrides = {}  # noqa: RUF012

        q, k, v = next(samples(op, device, dtype))
        with pytest.raises(TypeError, match="__torch_function__"):
            op(q, k.as_subclass(Subclass), v)

    @ops(OPS, allowed_dtypes=(torch.float64,))
    def test_subclass_is_kept(self, device, dtype, op):
        """torch.Tensor's own __torch_function__ gives the results the type of the subclass."""

        class Subclass(torch.Tensor):
            pass

        args = next(samples(op, device, dtype))
        outputs = op(*(x.as_subclass(Subclass) for x in args))
        assert [type(y) for y in outputs] == [Subclass, Subclass]
        self.assertEqual([y.as_subclass(torch.Tensor) for y in outputs], list(op(*args)))

    @ops(OPS, allowed_dtypes=(torch.float64,))
    def test_mode_sees_the_call(self, device, dtype, op):
        seen = []

        class Mode(TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                seen.append(func)
                return func(*args, **(kwargs or {}))

        args = next(samples(op, device, dtype))
        with Mode():
            outputs = op(*args)
        assert overload(op).overloadpacket in seen
        self.assertEqual(outputs, op(*args))


instantiate(TestOverridesOfOps, globals())
