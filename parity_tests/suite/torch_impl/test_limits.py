"""What PyTorch itself cannot do through a Function: each limit must fail exactly as ATTN_FUNCTION_LIMITS lists it.

A limit that was lifted fails here, too: then it is time to take it off the list.
"""

from __future__ import annotations

import collections
from collections.abc import Callable

import pytest
import torch
from torch.autograd.forward_ad import dual_level

import torch_impl
from parity_tests.suite.torch_impl._common import (
    COTANGENTS,
    PRIMALS,
    TANGENTS,
    Attn,
    assert_same,
    draw,
    implementations,
    loss,
    pull,
)
from torch_impl import attn_composite, attn_function

DEMONSTRATIONS: dict[str, Callable[[], None]] = {}


def demonstrates(limit: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Registers the test of a limit under the limit's name."""

    def register(test: Callable[[], None]) -> Callable[[], None]:
        assert limit not in DEMONSTRATIONS
        DEMONSTRATIONS[limit] = test
        return test

    return register


def test_each_limit_is_demonstrated():
    assert set(torch_impl.ATTN_FUNCTION_LIMITS) == set(DEMONSTRATIONS)


# Forward mode over forward mode, pytorch/pytorch#197867


def jvp_of_jvp(attn: Attn) -> torch.Tensor:
    """The second directional derivative of a scalar, by forward mode twice."""
    primals, tangents = tuple(draw(PRIMALS)), tuple(draw(TANGENTS, seed=3))

    def jvp(*primals):
        return torch.func.jvp(loss(attn), primals, tangents)[1]

    return torch.func.jvp(jvp, primals, tangents)[1]


def second_difference(attn: Attn, step: float = 1e-3) -> torch.Tensor:
    """The same without any derivative: the fourth-order central difference, off by about step⁴ and 1e-16/step²."""
    primals, tangents = draw(PRIMALS), draw(TANGENTS, seed=3)
    at = {
        i: loss(attn)(*(x + i * step * x_dot for x, x_dot in zip(primals, tangents, strict=True))) for i in range(-2, 3)
    }
    return (-at[-2] + 16 * at[-1] - 30 * at[0] + 16 * at[1] - at[2]) / (12 * step**2)


@pytest.mark.parametrize("attn", ["composite", "native_implicit", "native"], indirect=True)
def test_what_is_no_function_is_right_in_nested_forward_mode(attn: Attn):
    assert_same(jvp_of_jvp(attn), second_difference(attn), atol=1e-8)


@demonstrates("nested forward AD")
def test_nested_forward_mode_is_silently_wrong():
    wrong, right = jvp_of_jvp(attn_function), jvp_of_jvp(attn_composite)
    assert abs(wrong - right) > 0.1 * abs(right)


@pytest.mark.parametrize("order", [("fwd", "fwd"), ("fwd", "rev", "fwd"), ("rev", "fwd", "fwd"), ("fwd", "fwd", "rev")])
def test_any_two_forward_modes_are_wrong(order):
    """Reverse mode before, between or after them does not help."""
    modes = {"rev": torch.func.jacrev, "fwd": torch.func.jacfwd}
    sizes = (2, 1, 3, 2)

    def derivative(attn):
        function = loss(attn, sizes)
        for mode in reversed(order):
            function = modes[mode](function)
        return function(*draw(PRIMALS, sizes))

    assert (derivative(attn_function) - derivative(attn_composite)).abs().max() > 0.1


@demonstrates("nested dual_level")
def test_nested_dual_level_raises():
    with dual_level(), pytest.raises(RuntimeError, match=r"^Nested forward mode AD is not supported at the moment$"):
        dual_level().__enter__()


# torch.compile


@pytest.fixture
def dynamo():
    import torch._dynamo  # a second to import, wanted here only

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield torch._dynamo
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


@demonstrates("torch.compile(fullgraph=True)")
def test_compile_fullgraph_raises(dynamo):
    compiled = torch.compile(attn_function, fullgraph=True, backend="eager")
    with pytest.raises(dynamo.exc.Unsupported, match=r"^Unsupported custom jvp\n[\s\S]*gb0144"):
        compiled(*draw(PRIMALS, requires_grad=PRIMALS))


def test_compile_fullgraph_of_the_composite(dynamo):
    """The refusal is about the Function."""
    compiled = torch.compile(attn_composite, fullgraph=True, backend="eager")
    primals = draw(PRIMALS, requires_grad=PRIMALS)
    assert_same(compiled(*primals), attn_composite(*primals))


# Dynamo hides this warning of its own by a way that an error filter overrides.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_compile_falls_back(dynamo):
    """Without fullgraph: one graph break, compiled code around it, and the right values and gradients."""
    compiled = torch.compile(lambda q, k, v: attn_function(2 * q, k, v), backend="aot_eager")
    primals, cotangents = draw(PRIMALS, requires_grad=PRIMALS), draw(COTANGENTS, seed=1)
    outputs, expected = compiled(*primals), attn_composite(2 * primals[0], *primals[1:])
    assert_same(outputs, expected)
    assert_same(pull(outputs, primals, cotangents), pull(expected, primals, cotangents))

    breaks: collections.Counter = dynamo.utils.counters["graph_break"]
    assert [reason.splitlines()[0] for reason in breaks] == ["Unsupported custom jvp"]


# The others


@demonstrates("torch.func.functionalize")
def test_functionalize_raises():
    with pytest.raises(RuntimeError, match=r"^NYI: Functionalize rule for custom_function_call$"):
        torch.func.functionalize(attn_function)(*draw(PRIMALS))


def test_functionalize_of_the_composite():
    assert_same(torch.func.functionalize(attn_composite)(*draw(PRIMALS)), attn_composite(*draw(PRIMALS)))


@demonstrates("torch.autograd.grad(inputs=...)")
def test_partial_backward_computes_every_gradient():
    """How many products that wastes is counted in test_needs_input_grad; here, that the backward is not told."""
    told = []
    output, _ = attn_function(*(primals := draw(PRIMALS, requires_grad=PRIMALS)))
    output.grad_fn.register_hook(lambda grad_inputs, _: told.append([x is not None for x in grad_inputs]))
    torch.autograd.grad(output.sum(), primals[0])
    assert told == [[True, True, True]]


@implementations
def test_partial_backward_is_right(attn: Attn):
    primals, cotangents = draw(PRIMALS, requires_grad=PRIMALS), draw(COTANGENTS, seed=1)
    expected = pull(attn_composite(*primals), primals, cotangents)
    for x, x_bar in zip(primals, expected, strict=True):
        assert_same(pull(attn(*primals), [x], cotangents), (x_bar,))
