"""What PyTorch's test_ops_gradients.py and test_ops_fwd_gradients.py ask: derivatives against finite differences."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from parity_tests.suite.opinfo._machinery import TestCase, instantiate, ops, samples
from parity_tests.suite.opinfo._op_db import OPS

pytestmark = pytest.mark.usefixtures("native")

DOUBLE = (torch.float64, torch.complex128)


class TestGradients(TestCase):
    @ops(OPS, allowed_dtypes=DOUBLE)
    def test_reverse(self, device, dtype, op):
        """With undefined and with batched cotangents."""
        for args in samples(op, device, dtype, requires_grad=True):
            gradcheck(
                op.get_op(),
                args,
                nondet_tol=op.gradcheck_nondet_tol,
                fast_mode=op.gradcheck_fast_mode,
                check_undefined_grad=True,
                check_grad_dtypes=True,
                check_batched_grad=op.check_batched_grad,
            )

    @ops(OPS, allowed_dtypes=DOUBLE)
    def test_forward(self, device, dtype, op):
        """With undefined and with batched tangents."""
        assert op.supports_forward_ad
        for args in samples(op, device, dtype, requires_grad=True):
            gradcheck(
                op.get_op(),
                args,
                nondet_tol=op.gradcheck_nondet_tol,
                fast_mode=op.gradcheck_fast_mode,
                check_undefined_grad=True,
                check_grad_dtypes=True,
                check_batched_grad=False,
                check_forward_ad=True,
                check_backward_ad=False,
                check_batched_forward_grad=op.check_batched_forward_grad,
            )

    @ops(OPS, allowed_dtypes=DOUBLE)
    def test_reverse_over_reverse(self, device, dtype, op):
        assert op.supports_gradgrad
        options = {"check_undefined_grad": True, "check_batched_grad": op.check_batched_gradgrad}
        self._check_second_order(device, dtype, op, **options)

    @ops(OPS, allowed_dtypes=DOUBLE)
    def test_forward_over_reverse(self, device, dtype, op):
        assert op.supports_fwgrad_bwgrad
        options = {"check_undefined_grad": False, "check_rev_over_rev": False, "check_fwd_over_rev": True}
        self._check_second_order(device, dtype, op, **options)

    def _check_second_order(self, device, dtype, op, **options):
        for args in samples(op, device, dtype, requires_grad=True, few=True):
            gradgradcheck(
                op.get_op(),
                args,
                gen_non_contig_grad_outputs=True,
                nondet_tol=op.gradcheck_nondet_tol,
                fast_mode=op.gradcheck_fast_mode,
                check_grad_dtypes=True,
                **options,
            )


instantiate(TestGradients, globals())
