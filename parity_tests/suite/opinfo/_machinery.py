"""PyTorch's own test machinery, imported without what its import does to the process, and what our tests share."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias
from unittest import mock

import torch
from torch import Tensor


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Importing common_utils makes every later assignment to `torch.backends.*` raise, wraps the calls of scripted
    functions, and, where it finds Hypothesis, loads a profile; what it imports in turn sets an environment variable and
    warning filters.
    """
    with (
        mock.patch.object(torch.backends, "disable_global_flags"),
        mock.patch.object(torch._C.ScriptFunction, "__call__", torch._C.ScriptFunction.__call__),
        mock.patch.object(torch._C.ScriptMethod, "__call__", torch._C.ScriptMethod.__call__),
        mock.patch.dict(os.environ),
        _hidden("hypothesis"),
        warnings.catch_warnings(),
    ):
        # That Hypothesis is not there, and what torch itself deprecates: for forward mode it uses torch.jit.
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def _hidden(name: str) -> Iterator[None]:
    """To import the module is an ImportError. (mock.patch.dict would also forget the modules imported meanwhile.)"""
    modules: dict[str, Any] = sys.modules
    before = modules.get(name)
    modules[name] = None
    try:
        yield
    finally:
        del modules[name]
        if before is not None:
            modules[name] = before


with _undisturbed():
    import torch._decomp.decompositions_for_jvp
    from torch.testing._internal import common_utils
    from torch.testing._internal import composite_compliance as composite_compliance
    from torch.testing._internal.common_device_type import OpDTypes as OpDTypes
    from torch.testing._internal.common_device_type import instantiate_device_type_tests
    from torch.testing._internal.common_device_type import ops as ops
    from torch.testing._internal.common_dtype import floating_and_complex_types_and as floating_and_complex_types_and
    from torch.testing._internal.common_dtype import floating_types as floating_types
    from torch.testing._internal.common_utils import TestCase as TestCase
    from torch.testing._internal.common_utils import parametrize as parametrize
    from torch.testing._internal.opinfo import core as opinfo_core
    from torch.testing._internal.opinfo.core import ErrorInput as ErrorInput
    from torch.testing._internal.opinfo.core import OpInfo as OpInfo
    from torch.testing._internal.opinfo.core import SampleInput as SampleInput
    from torch.testing._internal.optests.aot_autograd import aot_autograd_check as aot_autograd_check


def _running_test() -> Callable[..., Any] | None:
    """The test on the stack, on which PyTorch notes the sample that a failure names."""
    frame = sys._getframe()
    while frame is not None:
        case = frame.f_locals.get("self")
        if isinstance(case, TestCase) and case._testMethodName.startswith("test"):
            return getattr(case, case._testMethodName).__func__
        frame = frame.f_back
    return None


# PyTorch's own reads the sources of all that is on the stack: a third of the time of these tests.
for module in (common_utils, opinfo_core):
    vars(module)["extract_test_fn"] = _running_test
# The command that PyTorch appends to a failure would run the test in PyTorch's own repository, not here.
common_utils.PRINT_REPRO_ON_FAILURE = False

Op: TypeAlias = Callable[..., Any]


def instantiate(test_class: type, scope: dict[str, Any]) -> None:
    """The tests of a class for every device that is here: `TestX` becomes `TestXCPU` and `TestXCUDA`."""
    instantiate_device_type_tests(test_class, scope, only_for=("cpu", "cuda"))


def arguments(sample: SampleInput) -> tuple[Tensor, ...]:
    """q, k and v."""
    assert not sample.kwargs
    return (sample.input, *sample.args)


# One of each kind, for what takes long and does not depend on sizes: those are for the samples of the harness.
FEW = ("all_axes_equal", "one_of_all", "no_key", "transposed", "expanded")


def samples(
    op: OpInfo, device: str, dtype: torch.dtype, *, requires_grad: bool = False, few: bool = False
) -> Iterator[tuple[Tensor, ...]]:
    """q, k and v of each sample; `few`: of those in `FEW`."""
    every = op.sample_inputs(device, dtype, requires_grad=requires_grad)
    return (arguments(sample) for sample in every if not few or sample.name in FEW)


def references(
    op: OpInfo, device: str, dtype: torch.dtype, *, requires_grad: bool = False, few: bool = False
) -> Iterator[tuple[Tensor, ...]]:
    """The same of what OpInfo calls reference inputs, which are more."""
    every = op.reference_inputs(device, dtype, requires_grad=requires_grad)
    return (arguments(sample) for sample in every if not few or sample.name in FEW)


def directions(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """A random tensor like each, contiguous whatever that is."""
    return tuple(torch.randn(x.shape, dtype=x.dtype, device=x.device) for x in tensors)


def pull(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], cotangents: Sequence[Tensor], *, create_graph: bool = False
) -> tuple[Tensor, ...]:
    """The gradients of the inputs by way of all outputs; where nothing flows, zeros."""
    used = [(y, y_bar) for y, y_bar in zip(outputs, cotangents, strict=True) if y.requires_grad]
    outputs, cotangents = zip(*used, strict=True)
    options = {"create_graph": create_graph, "allow_unused": True, "materialize_grads": True}
    return torch.autograd.grad(outputs, inputs, cotangents, **options)
