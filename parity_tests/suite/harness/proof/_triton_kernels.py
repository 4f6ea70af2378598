"""Operators as kernels in Triton, right ones and, by their arguments, wrong ones; for the tests in with_triton.py."""

# Triton is not a requirement
# pyright: reportMissingImports=false, reportIndexIssue=false, reportOperatorIssue=false

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from parity_tests import OpSpec
from parity_tests.harness.findings import Verdict
from parity_tests.harness.report.results import Row
from parity_tests.suite.harness._ops import judged

SQUARE = OpSpec("square", lambda x: x * x, "(n,d)->(n,d)")
CUBE_SUM = OpSpec("cubes", lambda x: (x * x * x).sum(0), "(n,d)->(d)")
SOFTMAX = OpSpec("softmax", lambda x: jax.nn.softmax(x, -1), "(n,d)->(n,d)")
RELU = OpSpec("relu", lambda x: jnp.where(x > 0, x, 0), "(n,d)->(n,d)")
LARGEST = OpSpec("largest", lambda x: x.max(-1) ** 2, "(n,d)->(n)")
GELU = OpSpec("gelu", lambda x: x * (1 + jax.lax.erf(x / jnp.sqrt(2))) / 2, "(n,d)->(n,d)")
RUNNING = OpSpec("running", lambda x: jnp.cumsum(x, -1) ** 2, "(n,d)->(n,d)")
PRODUCT = OpSpec("product", lambda x, y: x @ y, "(n,k),(k,m)->(n,m)")
ATTN = OpSpec("attn", lambda q, k, v: jnp.tanh(q @ k.T) @ v, "(n,d),(m,d),(m,e)->(n,e)")


def _norm(x, w):
    centered = x - x.mean(-1, keepdims=True)
    return centered / jnp.sqrt((centered * centered).mean(-1, keepdims=True) + 1e-5) * w


NORM = OpSpec("layer_norm", _norm, "(n,d),(d)->(n,d)")


def function(forward: Callable, backward: Callable) -> Callable:
    """An operator of one output; `backward` gets its inputs and the cotangent."""

    class Kernel(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            ctx.save_for_backward(*inputs)
            return forward(*(x.contiguous() for x in inputs))

        @staticmethod
        @once_differentiable
        def backward(ctx, y_bar):
            return backward(*(x.contiguous() for x in ctx.saved_tensors), y_bar.contiguous())

    return Kernel.apply


def verdict(call: Callable, spec: OpSpec) -> tuple[Verdict, Row]:
    row = judged(call, spec, "proof")
    return row.verdict, row


@triton.jit
def times(x, g, y, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(y + at, tl.load(x + at, mask=inside) * tl.load(g + at, mask=inside) * factor, mask=inside)


def product_of(x: Tensor, g: Tensor, factor: float = 1.0, count: int | None = None, make=torch.empty_like) -> Tensor:
    y = make(x)
    times[(triton.cdiv(x.numel(), 4),)](x, g, y, x.numel() if count is None else count, factor, BLOCK=4)
    return y


def square(forward: Callable = lambda x: product_of(x, x), backward: Callable = lambda x, g: product_of(x, g, 2.0)):
    return function(forward, backward)


@triton.jit
def softmax_of_rows(x, y, d, beyond, SHIFT: tl.constexpr, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    at = tl.program_id(0) * d + columns
    row = tl.load(x + at, mask=columns < d, other=beyond)
    if SHIFT:
        row = row - tl.max(row, axis=0)
    e = tl.exp(row)
    tl.store(y + at, e / tl.sum(e, axis=0), mask=columns < d)


@triton.jit
def softmax_backward(y, y_bar, x_bar, d, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    at = tl.program_id(0) * d + columns
    p = tl.load(y + at, mask=columns < d, other=0.0)
    g = tl.load(y_bar + at, mask=columns < d, other=0.0)
    tl.store(x_bar + at, p * (g - tl.sum(p * g, axis=0)), mask=columns < d)


def softmax(beyond: float = -float("inf"), shift: bool = True, rows: int = 0) -> Callable:
    def forward(x):
        y, (n, d) = torch.zeros_like(x), x.shape
        softmax_of_rows[(n - rows,)](x, y, d, beyond, SHIFT=shift, BLOCK=8)
        return y

    def backward(x, y_bar):
        y, x_bar, (n, d) = forward(x), torch.zeros_like(x), x.shape
        softmax_backward[(n,)](y, y_bar, x_bar, d, BLOCK=8)
        return x_bar

    return function(forward, backward)


@triton.jit
def norm_forward(x, w, y, d, divisor, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    at = tl.program_id(0) * d + columns
    inside = columns < d
    row = tl.load(x + at, mask=inside, other=0.0)
    centered = tl.where(inside, row - tl.sum(row, axis=0) / d, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(centered * centered, axis=0) / divisor + 1e-5)
    tl.store(y + at, centered * rstd * tl.load(w + columns, mask=inside, other=0.0), mask=inside)


@triton.jit
def norm_backward(x, w, y_bar, x_bar, w_bar, d, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    at = tl.program_id(0) * d + columns
    inside = columns < d
    row = tl.load(x + at, mask=inside, other=0.0)
    g = tl.load(y_bar + at, mask=inside, other=0.0)
    centered = tl.where(inside, row - tl.sum(row, axis=0) / d, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(centered * centered, axis=0) / d + 1e-5)
    normed = centered * rstd
    tl.atomic_add(w_bar + columns, g * normed, mask=inside)
    p = g * tl.load(w + columns, mask=inside, other=0.0)
    p = p - tl.sum(p, axis=0) / d - normed * tl.sum(p * normed, axis=0) / d
    tl.store(x_bar + at, rstd * p, mask=inside)


def layer_norm(less: int = 0) -> Callable:
    def forward(x, w):
        y, (n, d) = torch.empty_like(x), x.shape
        norm_forward[(n,)](x, w, y, d, d - less, BLOCK=8)
        return y

    def backward(x, w, y_bar):
        x_bar, w_bar, (n, d) = torch.empty_like(x), torch.zeros_like(w), x.shape
        norm_backward[(n,)](x, w, y_bar, x_bar, w_bar, d, BLOCK=8)
        return x_bar, w_bar

    return function(forward, backward)


@triton.jit
def tile(x, rows, columns, row_stride, column_stride, n, m):
    inside = (rows < n)[:, None] & (columns < m)[None, :]
    return tl.load(x + rows[:, None] * row_stride + columns[None, :] * column_stride, mask=inside, other=0.0)


@triton.jit
def matrix_product(x, y, z, n, k, m, x_n, x_k, y_k, y_m, LEFT: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK, BLOCK], tl.float64)
    for start in range(0, k - LEFT, BLOCK):
        inner = start + tl.arange(0, BLOCK)
        total = tl.dot(tile(x, rows, inner, x_n, x_k, n, k), tile(y, inner, columns, y_k, y_m, k, m), total)
    inside = (rows < n)[:, None] & (columns < m)[None, :]
    tl.store(z + rows[:, None] * m + columns[None, :], total, mask=inside)


def matmul(x: Tensor, y: Tensor, left: int = 0) -> Tensor:
    (n, k), m = x.shape, y.shape[1]
    z = x.new_empty(n, m)
    grid = (triton.cdiv(n, 2), triton.cdiv(m, 2))
    matrix_product[grid](x, y, z, n, k, m, *x.stride(), *y.stride(), LEFT=left, BLOCK=2)
    return z


def product(left: int = 0) -> Callable:
    return function(lambda x, y: matmul(x, y, left), lambda x, y, g: (matmul(g, y.mT), matmul(x.mT, g)))


@triton.jit
def tanh(x):
    t = tl.exp(-2 * tl.abs(x))
    y = (1 - t) / (1 + t)
    return tl.where(x < 0, -y, y)


@triton.jit
def attn_forward(q, k, v, y, n, m, d, e, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    features = tl.arange(0, 8)
    Q = tile(q, rows, features, d, 1, n, d)
    total = tl.zeros([BLOCK, 8], tl.float64)
    for start in range(0, m, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        A = tanh(tl.dot(Q, tl.trans(tile(k, keys, features, d, 1, m, d))))
        total += tl.dot(A, tile(v, keys, features, e, 1, m, e))
    tl.store(y + rows[:, None] * e + features[None, :], total, mask=(rows < n)[:, None] & (features < e)[None, :])


@triton.jit
def attn_backward(q, k, v, g, q_bar, k_bar, v_bar, n, m, d, e, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    features = tl.arange(0, 8)
    Q, G = tile(q, rows, features, d, 1, n, d), tile(g, rows, features, e, 1, n, e)
    total = tl.zeros([BLOCK, 8], tl.float64)
    for start in range(0, m, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        K, V = tile(k, keys, features, d, 1, m, d), tile(v, keys, features, e, 1, m, e)
        A = tanh(tl.dot(Q, K.T))
        P = tl.dot(G, V.T) * (1 - A * A)
        total += tl.dot(P, K)
        of_k = (keys < m)[:, None] & (features < d)[None, :]
        of_v = (keys < m)[:, None] & (features < e)[None, :]
        tl.atomic_add(k_bar + keys[:, None] * d + features[None, :], tl.dot(P.T, Q), mask=of_k)
        tl.atomic_add(v_bar + keys[:, None] * e + features[None, :], tl.dot(A.T, G), mask=of_v)
    tl.store(q_bar + rows[:, None] * d + features[None, :], total, mask=(rows < n)[:, None] & (features < d)[None, :])


def attn() -> Callable:
    def forward(q, k, v):
        (n, d), (m, e) = q.shape, v.shape
        y = q.new_empty(n, e)
        attn_forward[(triton.cdiv(n, 4),)](q, k, v, y, n, m, d, e, BLOCK=4)
        return y

    def backward(q, k, v, g):
        (n, d), (m, e) = q.shape, v.shape
        bars = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        attn_backward[(triton.cdiv(n, 4),)](q, k, v, g, *bars, n, m, d, e, BLOCK=4)
        return bars

    return function(forward, backward)


@triton.jit
def relu_forward(x, y, positive, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    tl.store(positive + at, v > 0, mask=at < n)
    tl.store(y + at, tl.where(v > 0, v, 0.0), mask=at < n)


@triton.jit
def relu_backward(positive, g, x_bar, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    kept = tl.load(positive + at, mask=at < n, other=0) != 0
    tl.store(x_bar + at, tl.load(g + at, mask=(at < n) & kept, other=0.0), mask=at < n)


def relu() -> Callable:
    """Its backward loads where the forward has found positive numbers."""

    def with_mask(x):
        y, positive = torch.empty_like(x), torch.empty_like(x, dtype=torch.int8)
        relu_forward[(1,)](x, y, positive, x.numel(), BLOCK=64)
        return y, positive

    def backward(x, g):
        x_bar = torch.empty_like(x)
        relu_backward[(1,)](with_mask(x)[1], g, x_bar, x.numel(), BLOCK=64)
        return x_bar

    return function(lambda x: with_mask(x)[0], backward)


@triton.jit
def cubed_sums(x, y, n, d, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * d + columns, mask=columns < d)
    tl.atomic_add(y + columns, v * v * v, mask=columns < d)


def cubes(make: Callable = torch.zeros) -> Callable:
    def forward(x):
        y = make(x.shape[1], dtype=x.dtype)
        cubed_sums[(x.shape[0],)](x, y, *x.shape, BLOCK=8)
        return y

    return function(forward, lambda x, g: 3 * x * x * g)


@triton.jit
def _plus(x, y):
    return x + y


@triton.jit
def running_sums(x, y, g, d, OWN: tl.constexpr, BACK: tl.constexpr, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    at = tl.program_id(0) * d + columns
    row = tl.load(x + at, mask=columns < d, other=0.0)
    total = tl.associative_scan(row, 0, _plus) if OWN else tl.cumsum(row, 0)
    if BACK:
        total = 2 * total * tl.load(g + at, mask=columns < d, other=0.0)
        total = tl.associative_scan(total, 0, _plus, reverse=True) if OWN else tl.cumsum(total, 0, reverse=True)
    else:
        total = total * total
    tl.store(y + at, total, mask=columns < d)


def running(own: bool) -> Callable:
    def launched(x, g, back):
        y = torch.empty_like(x)
        running_sums[(x.shape[0],)](x, y, g, x.shape[1], OWN=own, BACK=back, BLOCK=8)
        return y

    return function(lambda x: launched(x, x, False), lambda x, g: launched(x, g, True))


@triton.jit
def in_place(x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    tl.store(x + at, v * v, mask=at < n)


def of_a_clone(x):
    y = x.clone()
    in_place[(1,)](y, y.numel(), BLOCK=64)
    return y


def by_views(x):
    """The halves of one array are its tensors, which the last launch takes as one."""
    both = torch.empty(2, *x.shape, dtype=x.dtype)
    both[0] = x
    times[(triton.cdiv(x.numel(), 4),)](both[0], both[0], both[1], x.numel(), 1.0, BLOCK=4)
    return both[1]


@triton.autotune(configs=[triton.Config({"BLOCK": 4})], key=["n"])
@triton.jit
def tuned(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    tl.store(y + at, v * v, mask=at < n)


def by_the_tuned(x):
    y = torch.empty_like(x)
    tuned[lambda constants: (triton.cdiv(x.numel(), constants["BLOCK"]),)](x, y, x.numel())
    return y


@triton.jit
def _larger(x, i, y, j):
    second = y > x
    return tl.where(second, y, x), tl.where(second, j, i)


@triton.jit
def squares_of_largest(x, y, g, d, OWN: tl.constexpr, BACK: tl.constexpr, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    at = tl.program_id(0) * d + columns
    row = tl.load(x + at, mask=columns < d, other=-float("inf"))
    if OWN:
        _, largest = tl.reduce((row, columns), 0, _larger)
    else:
        _, largest = tl.max(row, axis=0, return_indices=True)
    is_largest = columns == largest
    if BACK:
        g = tl.load(g + tl.program_id(0))
        tl.store(y + at, tl.where(is_largest, 2 * row * g, 0.0), mask=columns < d)
    else:
        tl.store(y + tl.program_id(0), tl.sum(tl.where(is_largest, row * row, 0.0), axis=0))


def largest(own: bool) -> Callable:
    def launched(x, g, back):
        y = torch.empty_like(x) if back else x.new_empty(x.shape[0])
        squares_of_largest[(x.shape[0],)](x, y, g, x.shape[1], OWN=own, BACK=back, BLOCK=8)
        return y

    return function(lambda x: launched(x, x, False), lambda x, g: launched(x, g, True))


@triton.jit
def gelu_of(x, g, y, n, ROUNDED: tl.constexpr, BACK: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0.0)
    if ROUNDED:
        c = 0.7071067811865476  # a variable of Triton, of float32
        normal = 0.5 * (1 + tl.math.erf(v * c))
    else:
        normal = 0.5 * (1 + tl.math.erf(v * 0.7071067811865476))
    if BACK:
        density = tl.exp(-0.5 * v * v) * 0.3989422804014327
        tl.store(y + at, (normal + v * density) * tl.load(g + at, mask=at < n), mask=at < n)
    else:
        tl.store(y + at, v * normal, mask=at < n)


def gelu(rounded: bool = False) -> Callable:
    def launched(x, g, back):
        y = torch.empty_like(x)
        gelu_of[(1,)](x, g, y, x.numel(), ROUNDED=rounded, BACK=back, BLOCK=64)
        return y

    return function(lambda x: launched(x, x, False), lambda x, g: launched(x, g, True))


RIGHT = {
    "square": (square(), SQUARE),
    "softmax": (softmax(), SOFTMAX),
    "softmax without shift": (softmax(shift=False), SOFTMAX),
    "layer norm, atomic additions": (layer_norm(), NORM),
    "matrix product": (product(), PRODUCT),
    "attn": (attn(), ATTN),
    "relu by a mask in memory": (relu(), RELU),
    "atomic additions": (cubes(), CUBE_SUM),
    "cumsum": (running(own=False), RUNNING),
    "a scan": (running(own=True), RUNNING),
    "the largest": (largest(own=False), LARGEST),
    "a reduction": (largest(own=True), LARGEST),
    "gelu, with roots as constants": (gelu(), GELU),
    "in place": (square(of_a_clone), SQUARE),
    "views": (square(by_views), SQUARE),
    "tuned": (square(by_the_tuned), SQUARE),
}
