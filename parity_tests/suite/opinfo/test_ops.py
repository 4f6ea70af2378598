"""What PyTorch's test_ops.py asks: values, dtypes, errors, layouts, lazy views, purity, fakes, schema."""

# ruff: noqa: PT009 (assertEqual is PyTorch's, and compares tensors)

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from torch import Tensor, _prims_common
from torch._subclasses import CrossRefFakeMode, FakeTensor, FakeTensorMode
from torch._subclasses.schema_check_mode import SchemaCheckMode

from parity_tests.suite.opinfo._machinery import (
    OpDTypes,
    OpInfo,
    TestCase,
    arguments,
    directions,
    instantiate,
    ops,
    pull,
    references,
)
from parity_tests.suite.opinfo._op_db import OPS, overload

pytestmark = pytest.mark.usefixtures("native")

DOUBLE = (torch.float64, torch.complex128)


def every_dtype() -> list[torch.dtype]:
    """All that torch has but the quantized ones, of which no plain tensors exist."""
    dtypes = {x for x in vars(torch).values() if isinstance(x, torch.dtype)}
    return sorted((x for x in dtypes if "qint" not in str(x) and "quint" not in str(x)), key=str)


def rounding(dtype: torch.dtype, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How far two computations of output and attn may be apart, to first order: both round, either in its own order.

    A product of inner length d is off by d + 2 units of |x| |y|, complex or not; tanh by the error of its argument
    times its slope 1 - A ∘ A, and by 4 units of its own. Numbers below the smallest normal one are off by that.
    """
    eps, tiny = torch.finfo(dtype).eps, torch.finfo(dtype).smallest_normal
    attn = np.abs(np.tanh(q @ k.T))
    q, k, v = np.abs(q), np.abs(k), np.abs(v)
    scores_error = (q.shape[1] + 2) * eps * (q @ k.T) + tiny
    attn_error = (1 + attn**2) * scores_error + 4 * eps * attn + tiny
    output_error = attn_error @ v + (k.shape[0] + 2) * eps * (attn @ v) + tiny
    return 2 * output_error, 2 * attn_error


def first_and_second_order(op: OpInfo, args: Sequence[Tensor]) -> None:
    """Run the operator, its gradient, and the gradient of that."""
    args = [x.detach().requires_grad_() for x in args]
    outputs = op(*args)
    cotangents = [x.requires_grad_() for x in directions(outputs)]
    grads = pull(outputs, args, cotangents, create_graph=True)
    pull(grads, [*args, *cotangents], directions(grads))


def metadata(x: Tensor) -> dict[str, Any]:
    names = ("dtype", "device", "layout", "shape")
    calls = ("stride", "storage_offset", "is_conj", "is_neg")
    return {name: getattr(x, name) for name in names} | {name: getattr(x, name)() for name in calls}


class TestOps(TestCase):
    @ops(OPS)
    def test_reference_values(self, device, dtype, op):
        for sample in op.reference_inputs(device, dtype):
            numpy = sample.numpy()
            args = [x.astype(np.result_type(x, np.float64)) for x in (numpy.input, *numpy.args)]
            outputs, expected = op(*arguments(sample)), op.ref(*args)
            for actual, y, error in zip(outputs, expected, rounding(dtype, *args), strict=True):
                assert (actual.shape, actual.dtype, actual.device) == (y.shape, dtype, sample.input.device)
                actual = actual.cpu().to(torch.complex128 if dtype.is_complex else torch.float64).numpy()
                np.testing.assert_array_less(np.abs(actual - y), error)

    @ops(OPS, dtypes=OpDTypes.none)
    def test_dtypes(self, device, op):
        """Those that it claims, forward and backward, are those that work, and those only."""
        samples = list(op.sample_inputs(device, torch.float64))

        def works(dtype: torch.dtype, *, backward: bool) -> bool:
            """It takes every sample; tensors without values will do."""
            for sample in samples:
                args = arguments(sample.transform(lambda x: torch.empty_like(x, dtype=dtype)))
                try:
                    outputs = op(*(x.requires_grad_(backward) for x in args))
                    if backward:
                        pull(outputs, args, [torch.ones_like(y) for y in outputs])
                except (RuntimeError, TypeError):
                    return False
            return True

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "(ComplexHalf|BComplex32) support is experimental", UserWarning)
            forward = {dtype for dtype in every_dtype() if works(dtype, backward=False)}
            backward = {dtype for dtype in forward if works(dtype, backward=True)}
        assert forward == set(op.supported_dtypes(device))
        assert backward == set(op.supported_backward_dtypes(device))

    @ops(OPS, dtypes=OpDTypes.none)
    def test_errors(self, device, op):
        for error in op.error_inputs(device):
            with pytest.raises(error.error_type, match=error.error_regex) as raised:
                op(*arguments(error.sample_input))
            assert raised.type is error.error_type

    @ops(OPS, allowed_dtypes=DOUBLE)
    def test_noncontiguous_samples(self, device, dtype, op):
        """The same values and gradients, whatever the strides of arguments and cotangents."""

        def compute(args: Sequence[Tensor], cotangents: Sequence[Tensor]) -> tuple[tuple[Tensor, ...], ...]:
            outputs = op(*args)
            return outputs, pull(outputs, args, cotangents)

        for sample in op.reference_inputs(device, dtype, requires_grad=True):
            strided = arguments(sample.noncontiguous())
            contiguous = [x.detach().clone(memory_format=torch.contiguous_format).requires_grad_() for x in strided]
            cotangents = directions(op(*contiguous))
            expected = compute(contiguous, cotangents)
            self.assertEqual(compute(strided, cotangents), expected)
            self.assertEqual(compute(contiguous, [x.mT.contiguous().mT for x in cotangents]), expected)
            ones = [x.new_ones(()).expand_as(x) for x in cotangents]
            self.assertEqual(compute(strided, ones), compute(contiguous, [x.contiguous() for x in ones]))

    def _check_lazy_views(
        self,
        samples: Sequence[Sequence[Tensor]],
        op: OpInfo,
        view: Callable[[Tensor], Tensor],
        physical: Callable[[Tensor], Tensor],
        is_view: Callable[[Tensor], bool],
    ) -> None:
        """A view whose conjugation or sign is a bit is as good as its values, wherever it comes in."""

        def compute(
            make: Callable[[Tensor], Tensor], chosen: Sequence[bool], args: Sequence[Tensor], seed: Sequence[Tensor]
        ):
            args = [x.detach().requires_grad_() for x in args]
            given = [make(x) if is_chosen else x for x, is_chosen in zip(args, chosen, strict=True)]
            cotangents = [make(x) for x in seed]
            is_made = [is_view(x) for x in (*given, *cotangents)]
            assert is_made == ([*chosen, True, True] if make is view else [False] * 5)
            outputs = op(*given)
            assert not any(is_view(y) for y in outputs)
            return outputs, pull(outputs, args, cotangents)

        for args in samples:
            seed = directions(op(*args))
            for chosen in itertools.product((False, True), repeat=3):
                self.assertEqual(compute(view, chosen, args, seed), compute(physical, chosen, args, seed))

    @ops(OPS, allowed_dtypes=(torch.complex128,))
    def test_conj_view(self, device, dtype, op):
        self._check_lazy_views(list(references(op, device, dtype)), op, torch.conj, torch.conj_physical, torch.is_conj)

    @ops(OPS, allowed_dtypes=(torch.float64,))
    def test_neg_view(self, device, dtype, op):
        self._check_lazy_views(
            list(references(op, device, dtype)), op, torch.ops.aten._neg_view, torch.neg, torch.is_neg
        )

    @ops(OPS, allowed_dtypes=(torch.complex128,))
    def test_neg_conj_view(self, device, dtype, op):
        def view(x: Tensor) -> Tensor:
            return torch.ops.aten._neg_view(x).conj()

        def physical(x: Tensor) -> Tensor:
            return torch.neg(x.conj_physical())

        def is_view(x: Tensor) -> bool:
            return x.is_conj() and x.is_neg()

        self._check_lazy_views(list(itertools.islice(references(op, device, dtype), 1)), op, view, physical, is_view)

    @ops(OPS, allowed_dtypes=(torch.float64,))
    def test_out_is_refused(self, device, dtype, op):
        """As `supports_out` says."""
        assert not op.supports_out
        args = next(references(op, device, dtype))
        with pytest.raises((RuntimeError, TypeError), match="argument"):
            op(*args, out=op(*args))

    @ops(OPS, allowed_dtypes=DOUBLE)
    def test_inputs_are_not_modified(self, device, dtype, op):
        """Neither by the operator nor by its derivatives: neither values nor version counters."""
        for args in references(op, device, dtype):
            before = [(x.clone(), x._version) for x in args]
            first_and_second_order(op, args)
            self.assertEqual([(x, x._version) for x in args], before, rtol=0, atol=0)

    @ops(OPS, allowed_dtypes=DOUBLE)
    def test_deterministic(self, device, dtype, op):
        for args in references(op, device, dtype, requires_grad=True):
            cotangents = directions(op(*args))
            first, second = (((y := op(*args)), pull(y, args, cotangents)) for _ in range(2))
            self.assertEqual(first, second, rtol=0, atol=0)

    @ops(OPS)
    def test_schema(self, device, dtype, op):
        """Below autograd nothing is mutated, returned or aliased that the schema does not say; and it says nothing."""
        for args in references(op, device, dtype):
            with SchemaCheckMode():
                op(*args)
        schema = overload(op)._schema
        assert not schema.is_mutable
        assert not any(x.alias_info for x in [*schema.arguments, *schema.returns])

    # Not complex: SchemaCheckMode takes a conjugate view for a mutated argument, and complex derivatives use them.
    @ops(OPS, allowed_dtypes=(torch.float64,))
    def test_schema_of_derivatives(self, device, dtype, op):
        for args in references(op, device, dtype):
            with SchemaCheckMode():
                first_and_second_order(op, args)

    @ops(OPS)
    def test_fake(self, device, dtype, op):
        """Without data the results have the same dtype, device, shape and strides."""
        self._check_fake(references(op, device, dtype), op)

    @ops(OPS, allowed_dtypes=(torch.float32, torch.complex64))
    def test_fake_autocast(self, device, dtype, op):
        with torch.autocast(torch.device(device).type, dtype=torch.bfloat16):
            self._check_fake(references(op, device, dtype), op)

    def _check_fake(self, samples, op: OpInfo) -> None:
        for args in samples:
            with FakeTensorMode() as mode:
                fakes = op(*map(mode.from_tensor, args))
            for fake, real in zip(fakes, op(*args), strict=True):
                assert isinstance(fake, FakeTensor)
                actual = metadata(fake)
                for name, value in metadata(real).items():
                    assert actual[name] == value, f"{name} of the fake"

    @ops(OPS, allowed_dtypes=DOUBLE)
    def test_fake_crossref(self, device, dtype, op):
        """The same of every operator that the two orders of derivatives run."""
        # On the CPU, too, where PyTorch 2.11 leaves them out.
        strides = functools.partial(_prims_common.check_significant_strides, only_cuda=False)
        for args in references(op, device, dtype, few=True):
            with (
                mock.patch.object(_prims_common, "check_significant_strides", strides),
                CrossRefFakeMode(check_aliasing=True),
                warnings.catch_warnings(),
            ):
                # It looks at every attribute of a tensor.
                warnings.filterwarnings("ignore", r"The \.grad attribute of a Tensor that is not a leaf", UserWarning)
                first_and_second_order(op, args)


instantiate(TestOps, globals())
