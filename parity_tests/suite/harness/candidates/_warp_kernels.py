"""tanh(q kᵀ) as Warp kernels: one that is right, and mistakes of their own kinds."""

# pyright: reportInvalidTypeForm=false, reportGeneralTypeIssues=false
# (the annotations of a kernel are calls, and its indices are made by Warp)
# Without `from __future__ import annotations`: Warp reads the annotations of a kernel as objects.

from typing import Any

import warp as wp


@wp.kernel
def products_kernel(q: wp.array2d(dtype=Any), k: wp.array2d(dtype=Any), z: wp.array2d(dtype=Any)):
    i, j = wp.tid()
    s = q.dtype(0.0)
    for c in range(q.shape[1]):
        s += q[i, c] * k[j, c]
    z[i, j] = s


@wp.kernel
def short_products_kernel(q: wp.array2d(dtype=Any), k: wp.array2d(dtype=Any), z: wp.array2d(dtype=Any)):
    i, j = wp.tid()
    s = q.dtype(0.0)
    for c in range(q.shape[1] - 1):
        s += q[i, c] * k[j, c]
    z[i, j] = s


@wp.kernel
def tanh_kernel(z: wp.array2d(dtype=Any), y: wp.array2d(dtype=Any)):
    i, j = wp.tid()
    y[i, j] = wp.tanh(z[i, j])


@wp.kernel
def one_kernel(q: wp.array2d(dtype=Any), k: wp.array2d(dtype=Any), y: wp.array2d(dtype=Any)):
    i, j = wp.tid()
    s = q.dtype(0.0)
    for c in range(q.shape[1]):
        s += q[i, c] * k[j, c]
    y[i, j] = wp.tanh(s)  # the adjoint does not run the loop again, so that s is 0 there: Warp documents it


def _like(q, k, requires_grad=True):
    return wp.zeros((q.shape[0], k.shape[0]), dtype=q.dtype, device=q.device, requires_grad=requires_grad)


def _launched(products, q, k, requires_grad=True):
    z, y = _like(q, k), _like(q, k, requires_grad)
    wp.launch(products, dim=z.shape, inputs=[q, k], outputs=[z], device=q.device)
    wp.launch(tanh_kernel, dim=y.shape, inputs=[z], outputs=[y], device=q.device)
    return y


def scores(q, k):
    return _launched(products_kernel, q, k)


def scores_that_clear_q(q, k):
    y = scores(q, k)
    q.zero_()
    return y


def scores_without_the_last_feature(q, k):
    return _launched(short_products_kernel, q, k)


def scores_in_one_kernel(q, k):
    y = _like(q, k)
    wp.launch(one_kernel, dim=y.shape, inputs=[q, k], outputs=[y], device=q.device)
    return y


def scores_off_the_tape(q, k):
    return _launched(products_kernel, q, k, requires_grad=False)


def scores_as_a_list(q, k):
    return scores(q, k).numpy().tolist()
