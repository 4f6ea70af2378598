"""Negative controls: operators with one mistake each, and the test above that finds it.

The mistakes are in Python. Those that only a registered operator can make are in `copy`, an operator that should do
nothing but copy its argument; the rest of attn is right.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor
from torch.autograd import Function

from parity_tests.suite.opinfo import test_composite_compliance as compliance
from parity_tests.suite.opinfo import test_functorch as functorch
from parity_tests.suite.opinfo import test_ops as values
from parity_tests.suite.opinfo import test_ops_gradients as gradients
from parity_tests.suite.opinfo import test_overrides as overrides
from parity_tests.suite.opinfo import test_proxy_tensor as proxy
from parity_tests.suite.opinfo._machinery import Op, OpInfo, floating_types
from parity_tests.suite.opinfo._op_db import op_info
from torch_impl import attn_composite

pytestmark = pytest.mark.usefixtures("native")

NAMESPACE = "gradparity_controls"
FAILURE = (Exception, pytest.fail.Exception)


def run(module: ModuleType, name: str, **kwargs: Any) -> None:
    """One test of a module, on the CPU, of an operator that is not its own."""
    (test_class,) = (x for class_name, x in vars(module).items() if class_name.endswith("CPU"))
    test = next(f for f in map(inspect.unwrap, vars(test_class).values()) if getattr(f, "__name__", "") == name)
    if "dtype" in inspect.signature(test).parameters:
        kwargs = {"dtype": torch.float64} | kwargs
    case = test_class()
    case.setUp()
    try:
        test(case, device="cpu", **kwargs)
    finally:
        case.tearDown()
        case.doCleanups()


def of_arguments(change: Callable[..., Any]) -> Op:
    """attn, with the change applied to each argument."""
    return lambda q, k, v: attn_composite(*map(change, (q, k, v)))


def of_outputs(change: Callable[[Tensor], Tensor]) -> Op:
    """attn, with the change applied to each result."""
    return lambda q, k, v: tuple(map(change, attn_composite(q, k, v)))


class Identity(Function):
    """Right in every respect; each control below is wrong in one."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g.clone()

    @staticmethod
    def jvp(ctx, t):
        return t.clone()


class BackwardDoubles(Identity):
    @staticmethod
    def backward(ctx, g):
        return 2 * g


class JvpDoubles(Identity):
    @staticmethod
    def jvp(ctx, t):
        return 2 * t


class NoSecondOrder(Identity):
    @staticmethod
    def backward(ctx, g):
        return g.detach().clone()


class WrongSecondOrder(Identity):
    @staticmethod
    def backward(ctx, g):
        return BackwardDoubles.apply(g)


class WrongMixedOrder(Identity):
    @staticmethod
    def backward(ctx, g):
        return JvpDoubles.apply(g)


class BackwardReads(Identity):
    @staticmethod
    def backward(ctx, g):
        return g + 0 * g.sum().item()


class JvpReads(Identity):
    @staticmethod
    def jvp(ctx, t):
        return t + 0 * t.sum().item()


class BackwardRefusesBfloat16(Identity):
    @staticmethod
    def backward(ctx, g):
        if g.dtype is torch.bfloat16:
            raise RuntimeError("not implemented")
        return g


class BackwardCopies(Identity):
    @staticmethod
    def backward(ctx, g):
        g.data_ptr()
        return g.clone()


class OldStyle(Function):
    """The old style, with the context in forward."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g.clone()


class VmapTurnsBatch(Identity):
    generate_vmap_rule = False

    @staticmethod
    def vmap(info, in_dims, x):
        return x.flip(in_dims[0]), in_dims[0]


def via_float32(x: Tensor) -> Tensor:
    return x.float().to(x.dtype)


def refuses_bfloat16(x: Tensor) -> Tensor:
    if x.dtype is torch.bfloat16:
        raise TypeError("not implemented")
    return x


def adds_noise(x: Tensor) -> Tensor:
    return x + 1e-9 * torch.rand_like(x)


def as_if_contiguous(x: Tensor) -> Tensor:
    return x.as_strided(x.shape, torch.empty(x.shape).stride())


def without_bits(x: Tensor) -> Tensor:
    """The memory of a lazy conjugate or negative."""
    x = x.view_as(x)
    torch._C._set_conj(x, False)
    torch._C._set_neg(x, False)
    return x


def adds_zero_in_place(x: Tensor) -> Tensor:
    x.detach().add_(0)
    return x


def doubles_the_memory(x: Tensor) -> Tensor:
    y = x.detach().clone()
    x.data.mul_(2)
    return x - y


def has_it_copied(x: Tensor) -> Tensor:
    x.data_ptr()
    return x


def reads(x: Tensor) -> Tensor:
    return x + 0 * x.detach().sum().item()


def guards_on_a_size(x: Tensor) -> Tensor:
    return x.clone() if x.shape[0] == 3 else x


def not_overridable(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    with torch._C.DisableTorchFunction():
        return attn_composite(*(x.as_subclass(Tensor) for x in (q, k, v)))


def accepts_out(*args: Tensor, out: Any = None) -> tuple[Tensor, ...]:
    return attn_composite(*args)


def does_not_validate(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    attn = torch.tanh(q @ k.mT)
    return attn @ v, attn


def says_something_else(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    try:
        return attn_composite(q, k, v)
    except (TypeError, ValueError) as error:
        raise type(error)("wrong arguments") from error


JACOBIAN = "Jacobian .*mismatch"
COMPLIANCE = "Composite compliance check failed"
CLOSE = "not close"
LACKS_BFLOAT16 = r"Extra items in the right set:\s+torch.bfloat16"


def mistake(name: str, op: Op, module: ModuleType, test: str, text: str, **kwargs: Any) -> Any:
    """An operator with a mistake, the test that finds it and the text that says so; what else the test must be told."""
    return pytest.param(op_info(name, op, aten_name="gradparity::attn"), module, test, text, kwargs, id=name)


@pytest.mark.parametrize(
    ("op", "module", "test", "text", "kwargs"),
    [
        mistake("off_by_1e-12", of_outputs(lambda y: y * (1 + 1e-12)), values, "test_reference_values", "not strictly"),
        mistake("float32_inside", of_arguments(via_float32), values, "test_reference_values", "not strictly"),
        mistake("results_in_float32", of_outputs(Tensor.float), values, "test_reference_values", "torch.float32"),
        mistake("refuses_bfloat16", of_arguments(refuses_bfloat16), values, "test_dtypes", LACKS_BFLOAT16),
        mistake("backward_refuses", of_outputs(BackwardRefusesBfloat16.apply), values, "test_dtypes", LACKS_BFLOAT16),
        mistake("does_not_validate", does_not_validate, values, "test_errors", "DID NOT RAISE"),
        mistake("other_text_of_error", says_something_else, values, "test_errors", "wrong arguments"),
        mistake("ignores_strides", of_arguments(as_if_contiguous), values, "test_noncontiguous_samples", CLOSE),
        mistake("ignores_conj", of_arguments(without_bits), values, "test_conj_view", CLOSE, dtype=torch.complex128),
        mistake("ignores_neg", of_arguments(without_bits), values, "test_neg_view", CLOSE),
        mistake(
            "ignores_both", of_arguments(without_bits), values, "test_neg_conj_view", CLOSE, dtype=torch.complex128
        ),
        mistake("accepts_out", accepts_out, values, "test_out_is_refused", "DID NOT RAISE"),
        mistake(
            "writes_to_its_arguments",
            of_arguments(adds_zero_in_place),
            values,
            "test_inputs_are_not_modified",
            "Scalars are not equal",
        ),
        mistake(
            "writes_to_their_memory",
            of_arguments(doubles_the_memory),
            values,
            "test_inputs_are_not_modified",
            "Tensor-likes are not equal",
        ),
        mistake("nondeterministic", of_outputs(adds_noise), values, "test_deterministic", "not equal"),
        mistake("wrong_gradient", of_arguments(BackwardDoubles.apply), gradients, "test_reverse", JACOBIAN),
        mistake("wrong_tangent", of_arguments(JvpDoubles.apply), gradients, "test_forward", JACOBIAN),
        mistake("no_second_order", of_outputs(NoSecondOrder.apply), gradients, "test_reverse_over_reverse", JACOBIAN),
        mistake(
            "wrong_reverse_over_reverse",
            of_outputs(WrongSecondOrder.apply),
            gradients,
            "test_reverse_over_reverse",
            JACOBIAN,
        ),
        mistake(
            "wrong_forward_over_reverse",
            of_outputs(WrongMixedOrder.apply),
            gradients,
            "test_forward_over_reverse",
            JACOBIAN,
        ),
        mistake("reads_values", of_arguments(reads), compliance, "test_operator", COMPLIANCE),
        mistake("backward_reads_values", of_outputs(BackwardReads.apply), compliance, "test_backward", COMPLIANCE),
        mistake("jvp_reads_values", of_outputs(JvpReads.apply), compliance, "test_forward_ad", COMPLIANCE),
        mistake("copies_on_reading", of_arguments(has_it_copied), compliance, "test_copy_on_write", "assert False"),
        mistake(
            "backward_copies_on_reading",
            of_outputs(BackwardCopies.apply),
            compliance,
            "test_copy_on_write",
            "assert False",
        ),
        mistake(
            "value_in_graph", of_arguments(reads), proxy, "test_make_fx", "tracing", order="values", tracing_mode="real"
        ),
        mistake(
            "guards_on_a_size",
            of_arguments(guards_on_a_size),
            proxy,
            "test_symbolic_sizes",
            "a size is fixed",
            order="values",
        ),
        mistake(
            "value_in_compiled_graph",
            of_arguments(reads),
            proxy,
            "test_aot_autograd",
            "_local_scalar_dense",
            dynamic=False,
        ),
        mistake("not_one_node", attn_composite, proxy, "test_what_is_in_the_graph", "gradparity.attn"),
        mistake("old_style_function", of_arguments(OldStyle.apply), functorch, "test_grad", "setup_context"),
        mistake(
            "old_style_function_in_vjp",
            of_arguments(OldStyle.apply),
            functorch,
            "test_derivatives",
            "setup_context",
            nesting="vjp",
        ),
        mistake(
            "wrong_jvp", of_arguments(JvpDoubles.apply), functorch, "test_derivatives_of_expanded", CLOSE, nesting="jvp"
        ),
        mistake("wrong_vmap_rule", of_arguments(VmapTurnsBatch.apply), functorch, "test_vmap", CLOSE),
        mistake("wrong_vmap_rule_twice", of_arguments(VmapTurnsBatch.apply), functorch, "test_vmap_of_vmap", CLOSE),
        mistake(
            "wrong_vmap_rule_inside_vjp",
            of_arguments(VmapTurnsBatch.apply),
            functorch,
            "test_derivatives_of_vmap",
            CLOSE,
            nesting="vjp",
        ),
        mistake(
            "wrong_vmap_rule_outside_vjp",
            of_arguments(VmapTurnsBatch.apply),
            functorch,
            "test_vmap_of_derivatives",
            CLOSE,
            nesting="vjp",
        ),
        mistake("subclass_not_asked", not_overridable, overrides, "test_subclass_sees_the_call", "== -1"),
        mistake(
            "subclass_not_asked_by_keyword", not_overridable, overrides, "test_subclass_sees_keyword_arguments", "== -1"
        ),
        mistake("subclass_cannot_refuse", not_overridable, overrides, "test_subclass_that_refuses", "DID NOT RAISE"),
        mistake(
            "subclass_is_lost", not_overridable, overrides, "test_subclass_is_kept", "diff: <class 'torch.Tensor'>"
        ),
        mistake("mode_not_asked", not_overridable, overrides, "test_mode_sees_the_call", r"gradparity.attn.* in \["),
    ],
)
def test_mistake_is_found(op: OpInfo, module: ModuleType, test: str, text: str, kwargs: dict[str, Any]):
    with pytest.raises(FAILURE, match=text):
        run(module, test, op=op, **kwargs)


def test_claims_too_few_dtypes():
    op = op_info("too_few", attn_composite, dtypes=floating_types())
    with pytest.raises(AssertionError, match=r"Extra items in the left set:\s+torch.(complex|.*float16)"):
        run(values, "test_dtypes", op=op)


@pytest.mark.parametrize("packet", ["attn", "attn_implicit", "attn_backward"])
@pytest.mark.parametrize("test", ["test_signatures", "test_every_operator_is_there"])
def test_override_is_missing_or_wrong(test: str, packet: str):
    right = overrides.testing_overrides()
    key = getattr(torch.ops.gradparity, packet)
    if test == "test_signatures":
        changed = right | {key: lambda q, k, v=None: -1}
    else:
        changed = {x: function for x, function in right.items() if x is not key}
    with (
        mock.patch.object(overrides, "testing_overrides", return_value=changed),
        pytest.raises(AssertionError, match="assert"),
    ):
        getattr(overrides.TestOverrides(), test)()


@pytest.fixture
def library() -> Iterator[torch.library.Library]:
    with torch.library._scoped_library(NAMESPACE, "DEF") as library:
        yield library


def returns_its_argument(x: Tensor) -> Tensor:
    return x


def returns_a_view(x: Tensor) -> Tensor:
    return x.view_as(x)


def writes(x: Tensor) -> Tensor:
    return x.add_(1) - 1


def wrong_strides(x: Tensor) -> Tensor:
    return x.new_empty(x.shape[::-1]).mT


def wrong_shape(x: Tensor) -> Tensor:
    return x.new_empty(x.shape[::-1])


def wrong_dtype(x: Tensor) -> Tensor:
    return x.new_empty(x.shape, dtype=torch.float32)


def wrong_device(x: Tensor) -> Tensor:
    return x.new_empty(x.shape, device="meta")


@pytest.mark.parametrize(
    ("kernel", "fake", "module", "test", "text"),
    [
        pytest.param(torch.clone, torch.clone, functorch, "test_vmap", "vmap fallback", id="no_vmap_rule"),
        pytest.param(
            returns_its_argument,
            torch.clone,
            values,
            "test_schema",
            "directly return inputs|was aliasing",
            id="returns_its_argument",
        ),
        pytest.param(returns_a_view, torch.clone, values, "test_schema", "was aliasing", id="returns_a_view"),
        pytest.param(writes, torch.clone, values, "test_schema", "was mutated", id="writes"),
        pytest.param(
            writes, torch.clone, values, "test_schema_of_derivatives", "was mutated", id="writes_in_derivatives"
        ),
        pytest.param(torch.clone, wrong_strides, values, "test_fake", "stride of the fake", id="wrong_strides"),
        pytest.param(torch.clone, wrong_shape, values, "test_fake", "shape of the fake", id="wrong_shape"),
        pytest.param(torch.clone, wrong_dtype, values, "test_fake", "dtype of the fake", id="wrong_dtype"),
        pytest.param(torch.clone, wrong_device, values, "test_fake", "device of the fake", id="wrong_device"),
        pytest.param(
            torch.clone, wrong_dtype, values, "test_fake_autocast", "dtype of the fake", id="wrong_dtype_in_autocast"
        ),
        pytest.param(
            torch.clone, wrong_strides, values, "test_fake_crossref", "[Ss]tride", id="wrong_strides_in_derivatives"
        ),
    ],
)
def test_mistake_of_a_registered_operator_is_found(library, kernel, fake, module, test, text):
    """attn, of whose results `copy` makes copies: an operator with a mistake in its kernel or in its fake."""
    library.define("copy(Tensor x) -> Tensor")
    library.impl("copy", kernel, "CPU")
    torch.library.register_fake(f"{NAMESPACE}::copy", fake, lib=library)
    torch.library.register_autograd(f"{NAMESPACE}::copy", lambda ctx, g: g.clone(), lib=library)
    copy = getattr(torch.ops, NAMESPACE).copy.default
    with pytest.raises(FAILURE, match=text):
        run(module, test, op=op_info("copy", of_outputs(copy), aten_name="gradparity::attn"))


def test_explicit_kernel_that_reads_is_found(library):
    library.define("attn(Tensor q, Tensor k, Tensor v) -> (Tensor, Tensor)")
    library.impl("attn", of_arguments(reads), "CompositeExplicitAutograd")
    op = op_info("reads", attn_composite, aten_name=f"{NAMESPACE}::attn")
    with pytest.raises(RuntimeError, match=COMPLIANCE):
        run(compliance, "test_explicit_kernels", op=op)
