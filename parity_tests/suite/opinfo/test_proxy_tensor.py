"""What PyTorch's test_proxy_tensor.py and test_aotdispatch.py ask: a traced graph computes the same, at any size."""

# ruff: noqa: PT009 (assertEqual is PyTorch's, and compares tensors)

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from parity_tests.suite.opinfo._machinery import (
    Op,
    TestCase,
    aot_autograd_check,
    directions,
    instantiate,
    ops,
    parametrize,
    pull,
    references,
)
from parity_tests.suite.opinfo._op_db import EXPLICIT, OPS, overload

pytestmark = [pytest.mark.usefixtures("native"), pytest.mark.slow]

DOUBLE = (torch.float64, torch.complex128)


def values(op: Op) -> Callable[..., tuple[Tensor, ...]]:
    return lambda *args: tuple(op(*args))


def first_order(op: Op) -> Callable[..., tuple[Tensor, ...]]:
    """Values and gradients; what is traced is the backward, too."""

    def compute(*args: Tensor) -> tuple[Tensor, ...]:
        args = tuple(x.detach().requires_grad_() for x in args)
        outputs = op(*args)
        return (*outputs, *pull(outputs, args, [torch.sin(y.detach()) for y in outputs]))

    return compute


def second_order(op: Op) -> Callable[..., tuple[Tensor, ...]]:
    """The gradients of gradients, in arguments and cotangents."""

    def compute(*args: Tensor) -> tuple[Tensor, ...]:
        args = tuple(x.detach().requires_grad_() for x in args)
        outputs = op(*args)
        cotangents = [torch.sin(y.detach()).requires_grad_() for y in outputs]
        grads = pull(outputs, args, cotangents, create_graph=True)
        return pull(grads, [*args, *cotangents], [torch.cos(x.detach()) for x in grads])

    return compute


ORDERS = {"values": values, "first_order": first_order, "second_order": second_order}


def random_arguments(sizes: Sequence[int], like: Tensor) -> tuple[Tensor, ...]:
    n, d, m, e = sizes
    return directions([like.new_empty(shape) for shape in ((n, d), (m, d), (m, e))])


def targets(graph: GraphModule) -> set[object]:
    return {node.target for node in graph.graph.nodes if node.op == "call_function"}


class TestProxyTensor(TestCase):
    def _assert_traced(self, device, dtype, op, tracing_mode, order, few):
        """The graph of each sample's arguments computes the same on other values."""
        compute = ORDERS[order](op)
        for args in references(op, device, dtype, few=few):
            graph = make_fx(compute, tracing_mode=tracing_mode)(*args)
            others = [0.5 * x + 0.1 for x in args]
            self.assertEqual(graph(*others), compute(*others))

    @parametrize("order", list(ORDERS))
    @parametrize("tracing_mode", ["real", "fake", "symbolic"])
    @ops(OPS, allowed_dtypes=(torch.float64,))
    def test_make_fx(self, device, dtype, op, tracing_mode, order):
        """A few samples; of sizes, test_symbolic_sizes has more, and of dtypes test_make_fx_of_every_sample."""
        self._assert_traced(device, dtype, op, tracing_mode, order, few=True)

    @pytest.mark.soak
    @parametrize("order", list(ORDERS))
    @parametrize("tracing_mode", ["real", "fake", "symbolic"])
    @ops(OPS, allowed_dtypes=DOUBLE)
    def test_make_fx_of_every_sample(self, device, dtype, op, tracing_mode, order):
        self._assert_traced(device, dtype, op, tracing_mode, order, few=False)

    @parametrize("order", list(ORDERS))
    @ops(OPS, allowed_dtypes=(torch.float64,))
    def test_symbolic_sizes(self, device, dtype, op, order):
        """One symbolic graph serves all sizes that fit; its guards say that, and nothing more."""
        self._assert_symbolic(device, dtype, op, order)

    @pytest.mark.soak
    @parametrize("order", list(ORDERS))
    @ops(OPS, allowed_dtypes=(torch.complex128,))
    def test_symbolic_sizes_of_complex_tensors(self, device, dtype, op, order):
        self._assert_symbolic(device, dtype, op, order)

    def _assert_symbolic(self, device, dtype, op, order):
        compute = ORDERS[order](op)
        like = torch.empty((), device=device, dtype=dtype)
        graph = make_fx(compute, tracing_mode="symbolic")(*random_arguments((3, 2, 4, 5), like))
        placeholders = [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]
        (n, d), (m, also_d), (also_m, e) = (x.shape for x in placeholders)
        names = [str(size) for size in (n, d, m, e)]
        assert [str(also_m), str(also_d)] == [names[2], names[1]]
        assert len(set(names)) == 4
        assert not any(name.isdigit() for name in names), "a size is fixed"
        for sizes in [(3, 2, 4, 5), (7, 6, 8, 9), (5, 5, 5, 5), (2, 9, 3, 4)]:
            args = random_arguments(sizes, like)
            assert graph.shape_env.evaluate_guards_for_args(placeholders, args), f"{sizes=}"
            self.assertEqual(graph(*args), compute(*args), msg=f"{sizes=}")

    @ops(OPS, allowed_dtypes=(torch.float64,))
    def test_what_is_in_the_graph(self, device, dtype, op):
        """An explicit operator is one node, and so is its backward; an implicit one is what it is made of."""
        like = torch.empty((), device=device, dtype=dtype)
        graph = make_fx(first_order(op))(*random_arguments((3, 2, 4, 5), like))
        ours = {x for x in targets(graph) if str(x).startswith("gradparity.")}
        if overload(op) is overload(EXPLICIT):
            assert ours == {overload(op), torch.ops.gradparity.attn_backward.default}
        else:
            assert ours == set()
            assert torch.ops.aten.tanh_backward.default in targets(graph)

    def _assert_compiled(self, device, dtype, op, dynamic, few):
        """Forward and backward graphs, traced ahead of time."""
        for args in references(op, device, dtype, requires_grad=True, few=few):
            aot_autograd_check(
                lambda *args: op(*args),
                args,
                {},
                dynamic,
                self.assertRaisesRegex,
                self.assertEqual,
                check_gradients=True,
                try_check_data_specialization=True,
            )

    @parametrize("dynamic", [False, True])
    @ops(OPS, allowed_dtypes=(torch.float64,))
    def test_aot_autograd(self, device, dtype, op, dynamic):
        self._assert_compiled(device, dtype, op, dynamic, few=True)

    @pytest.mark.soak
    @parametrize("dynamic", [False, True])
    @ops(OPS, allowed_dtypes=(torch.float64,))
    def test_aot_autograd_of_every_sample(self, device, dtype, op, dynamic):
        self._assert_compiled(device, dtype, op, dynamic, few=False)


instantiate(TestProxyTensor, globals())
