"""Nothing is computed that nobody asked for: matrix products are counted and compared with what the formulas need."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest
import torch
from torch.autograd.forward_ad import dual_level, make_dual
from torch.autograd.profiler import profile

import torch_impl
from parity_tests.suite.torch_impl._common import (
    COTANGENTS,
    PRIMALS,
    TANGENTS,
    Attn,
    draw,
    explicit_formulas,
    implementations,
    only,
    pull,
    subsets,
    subsets_of,
)

MATRIX_PRODUCTS = {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"}


@contextlib.contextmanager
def products() -> Iterator[list[str]]:
    """The matrix products that run inside, on exit. The profiler also sees those inside of a native kernel."""
    names = []
    with profile() as profiled:
        yield names
    for event in profiled.function_events or ():
        parent = event.cpu_parent
        while parent is not None and parent.name not in MATRIX_PRODUCTS:
            parent = parent.cpu_parent
        if event.name in MATRIX_PRODUCTS and parent is None:  # one product may be made of another
            names.append(event.name)


class Product(NamedTuple):
    """A matrix product: one of `wanted` asks for it, and one of `given` makes it other than zero."""

    equation: str
    wanted: set[str]
    given: set[str]

    def is_needed(self, wanted, given) -> bool:
        return bool(self.wanted & set(wanted)) and bool(self.given & set(given))


BACKWARD = (
    Product("(8) output_bar vᵀ", wanted={"q", "k"}, given={"output_bar"}),
    Product("(10) P k", wanted={"q"}, given={"output_bar", "attn_bar"}),
    Product("(11) Pᵀ q", wanted={"k"}, given={"output_bar", "attn_bar"}),
    Product("(12) Aᵀ output_bar", wanted={"v"}, given={"output_bar"}),
)
FORWARD_MODE = (
    Product("(5) q_dot kᵀ", wanted={"attn"}, given={"q_dot"}),
    Product("(5) q k_dotᵀ", wanted={"attn"}, given={"k_dot"}),
    Product("(7) A_dot v", wanted={"output"}, given={"q_dot", "k_dot"}),
    Product("(7) A v_dot", wanted={"output"}, given={"v_dot"}),
)


def needed(products, wanted, given) -> list[str]:
    return [p.equation for p in products if p.is_needed(wanted, given)]


def count_in_backward(attn: Attn, requires_grad, wanted, defined) -> int:
    primals = draw(PRIMALS, requires_grad=requires_grad)
    outputs = attn(*primals)
    inputs = [x for x in only(wanted, PRIMALS, primals) if x is not None]
    with products() as counted:
        pull(outputs, inputs, only(defined, COTANGENTS, draw(COTANGENTS)))
    return len(counted)


@pytest.mark.parametrize(
    ("compute", "count"),
    [
        pytest.param(lambda x: x @ x.mT, 1, id="mm"),
        pytest.param(lambda x: torch.addmm(x, x, x), 1, id="addmm"),
        pytest.param(lambda x: torch.addmm(x[0], x, x), 1, id="addmm_of_a_row"),
        pytest.param(lambda x: x[None] @ x[None], 1, id="bmm"),
        pytest.param(lambda x: torch.baddbmm(x[None], x[None], x[None]), 1, id="baddbmm"),
        pytest.param(lambda x: torch.einsum("ij,jk,kl->il", x, x, x), 2, id="einsum"),
        pytest.param(lambda x: x * x + x.tanh(), 0, id="none"),
    ],
)
def test_counter(compute, count):
    with products() as counted:
        compute(torch.ones(3, 3, dtype=torch.float64))
    assert len(counted) == count, counted


@implementations
def test_products_of_the_backward(attn: Attn, subtests):
    for wanted, defined in itertools.product(subsets_of(PRIMALS), subsets_of(COTANGENTS)):
        expected = needed(BACKWARD, wanted, defined)
        with subtests.test(wanted=wanted, defined=defined):
            assert count_in_backward(attn, wanted, wanted, defined) == len(expected), expected


@implementations
def test_products_when_all_require_grad_but_some_are_asked_for(attn: Attn, subtests):
    """`torch.autograd.grad(inputs=...)`: autograd's own nodes know what is asked for, a Function is not told."""
    for wanted, defined in itertools.product(subsets_of(PRIMALS), subsets_of(COTANGENTS)):
        # A limit, see test_limits: the values are right, the other products are wasted.
        expected = needed(BACKWARD, PRIMALS if attn is torch_impl.attn_function else wanted, defined)
        with subtests.test(wanted=wanted, defined=defined):
            assert count_in_backward(attn, PRIMALS, wanted, defined) == len(expected), expected


@explicit_formulas
def test_other_gradients_are_none(attn: Attn, subtests):
    """The backward by itself, also with both cotangents absent, where autograd may not even call it."""
    for wanted, defined in itertools.product(subsets_of(PRIMALS), subsets_of(COTANGENTS, empty=True)):
        outputs = attn(*draw(PRIMALS, requires_grad=wanted))  # without them PyTorch 2.11 frees what the node has saved
        node = outputs[0].grad_fn
        backward: Any = getattr(node, "apply", node)  # a Function's node has it as a method, a native one is it
        with products() as counted:
            grads = backward(*only(defined, COTANGENTS, draw(COTANGENTS)))
        reached = {"q": bool(defined), "k": bool(defined), "v": "output_bar" in defined}
        with subtests.test(wanted=wanted, defined=defined):
            assert [x is not None for x in grads] == [name in wanted and reached[name] for name in PRIMALS]
            assert len(counted) == len(needed(BACKWARD, wanted, defined))


def duals(tensors: Mapping[str, torch.Tensor | None], defined: Collection[str]) -> list[torch.Tensor | None]:
    """The tensors, dual where `<name>_dot` is defined."""
    return [
        x if x is None or f"{name}_dot" not in defined else make_dual(x, torch.cos(x)) for name, x in tensors.items()
    ]


@explicit_formulas
def test_products_of_the_jvp(attn: Attn, subtests):
    """The compositions are left out: they take twice as many, as PyTorch fills absent tangents with zeros."""
    primals = dict(zip(PRIMALS, draw(PRIMALS), strict=True))
    primal = 2  # (1) and (3)
    for defined in subsets_of(TANGENTS):
        with dual_level(), products() as counted:
            attn(*duals(primals, defined))
        expected = needed(FORWARD_MODE, {"output", "attn"}, defined)
        with subtests.test(defined=defined):
            assert len(counted) - primal == len(expected), expected


# The second order of the native operator: derivatives of attn_backward, with attn as an input like the others


ARGUMENTS = (*COTANGENTS, *PRIMALS, "attn")


def nonempty_subsets(names: Iterable[str]) -> list[set[str]]:
    names = list(names)
    return [set(s) for r in range(1, len(names) + 1) for s in itertools.combinations(names, r)]


def arguments_of_backward(defined: Collection[str]) -> dict[str, torch.Tensor | None]:
    """By name, with `None` for a cotangent that is not defined."""
    drawn = dict(zip(ARGUMENTS, draw(ARGUMENTS), strict=True))
    return {name: x if name in defined or name not in COTANGENTS else None for name, x in drawn.items()}


def products_of_double_backward(defined: Collection[str], given: set[str], wanted: set[str]) -> list[str]:
    """Those that are part of a result: of a gradient that is wanted, by way of cotangents that are there."""
    output_bar = "output_bar" in defined
    P_bar = bool(given & {"q_bar_bar", "k_bar_bar"})
    reads_P_bar = bool(wanted & {"output_bar", "attn_bar", "attn"}) or ("v" in wanted and output_bar)
    reads_P = ("q" in wanted and "k_bar_bar" in given) or ("k" in wanted and "q_bar_bar" in given)
    return [
        name
        for name, is_needed in {
            "(25) q_bar_bar kᵀ": reads_P_bar and "q_bar_bar" in given,
            "(25) q k_bar_barᵀ": reads_P_bar and "k_bar_bar" in given,
            "(8) output_bar vᵀ": output_bar and (reads_P or ("attn" in wanted and P_bar)),
            "(27) G_bar v": "output_bar" in wanted and P_bar,
            "(27) A v_bar_bar": "output_bar" in wanted and "v_bar_bar" in given,
            "(29) P k_bar_bar": "q" in wanted and "k_bar_bar" in given,
            "(30) Pᵀ q_bar_bar": "k" in wanted and "q_bar_bar" in given,
            "(31) G_barᵀ output_bar": "v" in wanted and output_bar and P_bar,
            "(32) output_bar v_bar_barᵀ": "attn" in wanted and output_bar and "v_bar_bar" in given,
        }.items()
        if is_needed
    ]


@pytest.mark.slow
@pytest.mark.parametrize("attn", ["native"], indirect=True)
@pytest.mark.parametrize("defined", subsets(COTANGENTS))
@pytest.mark.usefixtures("attn")
def test_products_of_the_double_backward(defined, subtests):
    for given in nonempty_subsets(("q_bar_bar", "k_bar_bar", "v_bar_bar")):
        with subtests.test(given=given):
            assert_only_needed_in_the_double_backward(defined, given)


def assert_only_needed_in_the_double_backward(defined, given):
    for wanted in nonempty_subsets(name for name in ARGUMENTS if name in defined or name not in COTANGENTS):
        arguments = arguments_of_backward(defined)
        for name in wanted:
            arguments[name].requires_grad_()
        grads = torch.ops.gradparity.attn_backward(*arguments.values(), [True] * 3)
        cotangents = [
            torch.sin(x + 1) if f"{name}_bar_bar" in given and x is not None else None
            for name, x in zip(PRIMALS, grads, strict=True)
        ]
        with products() as counted:
            pull(
                [x for x in grads if x is not None],
                [arguments[name] for name in wanted],
                [y for x, y in zip(grads, cotangents, strict=True) if x is not None],
            )
        present = {f"{name}_bar_bar" for name, y in zip(PRIMALS, cotangents, strict=True) if y is not None}
        expected = products_of_double_backward(defined, present, wanted)
        assert len(counted) == len(expected), (wanted, counted, expected)


def products_of_forward_over_reverse(defined: Collection[str], dots: set[str], mask: set[str]) -> list[str]:
    """Those that are part of a tangent, beside the products of the backward itself."""
    output_bar, qk = "output_bar" in defined, bool(mask & {"q", "k"})
    P_dot = bool(dots & {"output_bar_dot", "attn_bar_dot", "attn_dot"}) or (output_bar and "v_dot" in dots)
    k_dot, q_dot = "q" in mask and "k_dot" in dots, "k" in mask and "q_dot" in dots
    return [
        name
        for name, is_needed in {
            "(8) output_bar vᵀ": output_bar and (k_dot or q_dot or (qk and "attn_dot" in dots)),
            "(13) output_bar_dot vᵀ": qk and "output_bar_dot" in dots,
            "(13) output_bar v_dotᵀ": qk and output_bar and "v_dot" in dots,
            "(16) P_dot k": "q" in mask and P_dot,
            "(16) P k_dot": k_dot,
            "(17) P_dotᵀ q": "k" in mask and P_dot,
            "(17) Pᵀ q_dot": q_dot,
            "(18) A_dotᵀ output_bar": "v" in mask and output_bar and "attn_dot" in dots,
            "(18) Aᵀ output_bar_dot": "v" in mask and "output_bar_dot" in dots,
        }.items()
        if is_needed
    ]


@pytest.mark.slow
@pytest.mark.parametrize("attn", ["native"], indirect=True)
@pytest.mark.parametrize("defined", subsets(COTANGENTS))
@pytest.mark.usefixtures("attn")
def test_products_of_forward_over_reverse(defined, subtests):
    for mask in subsets_of(PRIMALS):
        with subtests.test(mask=mask):
            assert_only_needed_in_forward_over_reverse(defined, mask)


def assert_only_needed_in_forward_over_reverse(defined, mask):
    for names in nonempty_subsets(name for name in ARGUMENTS if name in defined or name not in COTANGENTS):
        dots = {f"{name}_dot" for name in names}
        with dual_level():
            arguments = duals(arguments_of_backward(defined), dots)
            with products() as counted:
                torch.ops.gradparity.attn_backward(*arguments, [name in mask for name in PRIMALS])
        expected = [*needed(BACKWARD, mask, defined), *products_of_forward_over_reverse(defined, dots, set(mask))]
        assert len(counted) == len(expected), (dots, counted, expected)
