"""What PyTorch's TestCompositeCompliance asks: no kernel or formula does what a tensor subclass could not follow."""

# ruff: noqa: PT009 (assertEqual is PyTorch's, and compares tensors)

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor
from torch._C import DispatchKey

from parity_tests.suite.opinfo._machinery import (
    TestCase,
    composite_compliance,
    directions,
    instantiate,
    ops,
    pull,
    references,
    samples,
)
from parity_tests.suite.opinfo._op_db import EXPLICIT, OPS, overload

pytestmark = pytest.mark.usefixtures("native")

DOUBLE = (torch.float64, torch.complex128)


class TestCompositeCompliance(TestCase):
    @ops(OPS, allowed_dtypes=DOUBLE)
    def test_operator(self, device, dtype, op):
        for args in references(op, device, dtype):
            composite_compliance.check_with_mode(op, args, {}, self.assertEqual)
            composite_compliance.check_all_permutations(op, args, {}, self.assertEqual)

    @ops([EXPLICIT], allowed_dtypes=DOUBLE)
    def test_explicit_kernels(self, device, dtype, op):
        """A subclass sees an explicit operator whole, hence the kernels by themselves: vmap and fakes run them so."""

        def kernel(overload):
            return partial(overload._op_dk, DispatchKey.CompositeExplicitAutograd)

        forward, backward = kernel(overload(op)), kernel(torch.ops.gradparity.attn_backward.default)
        for q, k, v in references(op, device, dtype, few=True):
            output, attn = op(q, k, v)
            backward_args = (*directions((output, attn)), q, k, v, attn, [True] * 3)
            for function, args in ((forward, (q, k, v)), (backward, backward_args)):
                composite_compliance.check_with_mode(function, args, {}, self.assertEqual)
                composite_compliance.check_all_permutations(function, args, {}, self.assertEqual)

    @ops(OPS, allowed_dtypes=(torch.complex128,))  # what real tensors do is part of that
    def test_backward(self, device, dtype, op):
        for args in references(op, device, dtype, requires_grad=True, few=True):
            composite_compliance.check_backward_formula(op, args, {}, assert_equal_fn=self.assertEqual)

    @ops(OPS, allowed_dtypes=(torch.complex128,))  # what real tensors do is part of that
    def test_forward_ad(self, device, dtype, op):
        for args in samples(op, device, dtype, requires_grad=True, few=True):
            composite_compliance.check_forward_ad_formula(op, args, {}, assert_equal_fn=self.assertEqual)

    @ops(OPS, allowed_dtypes=DOUBLE)
    def test_copy_on_write(self, device, dtype, op):
        """Neither operator nor derivatives make a copy of an argument or cotangent that is copied on write."""
        for args in references(op, device, dtype):
            plain = [x.detach().requires_grad_() for x in args]
            expected = op(*plain)
            cotangents = directions(expected)
            lazy = [torch.ops.aten._lazy_clone(x.detach()).requires_grad_() for x in args]
            outputs = op(*lazy)
            self._check_not_copied(lazy)
            lazy_cotangents = [torch.ops.aten._lazy_clone(x) for x in cotangents]
            grads = pull(outputs, lazy, lazy_cotangents)
            self._check_not_copied([*lazy, *lazy_cotangents])
            self.assertEqual((outputs, grads), (expected, pull(expected, plain, cotangents)))

    def _check_not_copied(self, tensors: list[Tensor]) -> None:
        assert all(torch._C._is_cow_tensor(x) for x in tensors)


instantiate(TestCompositeCompliance, globals())
