"""References with loops over time and over cells, and functions with backwards of their own in their place."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._higher_order_ops.scan import scan
from torch.autograd.function import once_differentiable

GAMMA = 0.5
INFINITY = float("inf")


def soft_dtw(d: Tensor) -> Tensor:
    """Soft-DTW of distances (n,m), cell by cell."""
    n, m = d.shape
    infinite = d.new_full((), INFINITY)
    r = {(i, 0): infinite for i in range(n + 1)} | {(0, j): infinite for j in range(m + 1)}
    r[0, 0] = d.new_zeros(())
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            before = torch.stack([r[i - 1, j - 1], r[i - 1, j], r[i, j - 1]])
            r[i, j] = d[i - 1, j - 1] - GAMMA * torch.logsumexp(-before / GAMMA, 0)
    return r[n, m]


class SoftDTW(torch.autograd.Function):
    """As kernels have it: the backward goes through the cells from the last to the first."""

    gamma, diagonal = GAMMA, 1.0

    @staticmethod
    def forward(ctx, d):
        n, m = d.shape
        r = d.new_full((n + 2, m + 2), INFINITY)
        r[0, 0] = 0.0
        for i in range(1, n + 1):
            for j in range(1, m + 1):
                before = torch.stack([r[i - 1, j - 1], r[i - 1, j], r[i, j - 1]])
                r[i, j] = d[i - 1, j - 1] - GAMMA * torch.logsumexp(-before / GAMMA, 0)
        ctx.save_for_backward(d, r)
        return r[n, m].clone()

    @classmethod
    def gradient(cls, ctx, y_bar):
        """The gradient of d."""
        d, r = ctx.saved_tensors
        n, m = d.shape
        r, padded, e = r.clone(), torch.zeros_like(r), torch.zeros_like(r)
        padded[1 : n + 1, 1 : m + 1] = d
        r[:, m + 1], r[n + 1, :], r[n + 1, m + 1] = -INFINITY, -INFINITY, r[n, m]
        e[n + 1, m + 1] = 1.0
        for i in range(n, 0, -1):
            for j in range(m, 0, -1):
                for k, to, weight in ((i + 1, j, 1.0), (i, j + 1, 1.0), (i + 1, j + 1, cls.diagonal)):
                    e[i, j] += weight * e[k, to] * torch.exp((r[k, to] - r[i, j] - padded[k, to]) / cls.gamma)
        return y_bar * e[1 : n + 1, 1 : m + 1]

    @staticmethod
    @once_differentiable
    def backward(ctx, y_bar):
        return SoftDTW.gradient(ctx, y_bar)


class WithoutGamma(SoftDTW):
    """The exponents of the backward lack the division by gamma."""

    gamma = 1.0

    @staticmethod
    @once_differentiable
    def backward(ctx, y_bar):
        return WithoutGamma.gradient(ctx, y_bar)


class WithoutDiagonal(SoftDTW):
    """The backward leaves out one of the three ways into a cell."""

    diagonal = 0.0

    @staticmethod
    @once_differentiable
    def backward(ctx, y_bar):
        return WithoutDiagonal.gradient(ctx, y_bar)


def recurrence(a: Tensor, b: Tensor) -> Tensor:
    """A gated recurrence over the first axis, (t,d) and (t,d)."""
    h, every = torch.zeros_like(b[0]), []
    for t in range(len(a)):
        h = torch.sigmoid(a[t]) * h + b[t]
        every.append(h)
    return torch.stack(every)


def scanned(a: Tensor, b: Tensor) -> Tensor:
    """`recurrence` as one operation, however many steps it has."""

    def step(h: Tensor, ab: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        h = torch.sigmoid(ab[0]) * h + ab[1]
        return h, h.clone()

    return scan(step, torch.zeros_like(b[0]), (a, b), dim=0)[1]


class Recurrence(torch.autograd.Function):
    """The same, with the backward of a recurrence; `chunk` has what is handed over at the end of so many steps lost."""

    chunk = 0

    @staticmethod
    def forward(ctx, a, b):
        y = recurrence(a, b)
        ctx.save_for_backward(a, y)
        return y

    @classmethod
    def gradients(cls, ctx, y_bar):
        """The gradients of a and b."""
        a, y = ctx.saved_tensors
        gate, carried, b_bar = a.sigmoid(), torch.zeros_like(y[0]), torch.empty_like(y)
        for t in reversed(range(len(y))):
            b_bar[t] = y_bar[t] + carried
            carried = torch.zeros_like(carried) if cls.chunk and t % cls.chunk == 0 else gate[t] * b_bar[t]
        before = torch.cat([torch.zeros_like(y[:1]), y[:-1]])
        return b_bar * before * gate * (1 - gate), b_bar

    @staticmethod
    @once_differentiable
    def backward(ctx, y_bar):
        return Recurrence.gradients(ctx, y_bar)


class Chunked(Recurrence):
    """Right up to 64 steps."""

    chunk = 64

    @staticmethod
    @once_differentiable
    def backward(ctx, y_bar):
        return Chunked.gradients(ctx, y_bar)


class LongChunks(Recurrence):
    """Right up to 256 steps."""

    chunk = 256

    @staticmethod
    @once_differentiable
    def backward(ctx, y_bar):
        return LongChunks.gradients(ctx, y_bar)


def either(x: Tensor) -> Tensor:
    """One of two functions of x (n), by the sign of its sum."""
    return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.square(), (x,))


class Either(torch.autograd.Function):
    """The same; `sign` is that of the second function's gradient."""

    sign = 1.0

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x.sum() > 0, x.sin(), x.square())

    @staticmethod
    @once_differentiable
    def backward(ctx, y_bar):
        return Either.gradient(ctx, y_bar)

    @classmethod
    def gradient(cls, ctx, y_bar):
        """The gradient of x."""
        (x,) = ctx.saved_tensors
        return y_bar * torch.where(x.sum() > 0, x.cos(), 2 * cls.sign * x)


class WrongSecond(Either):
    """The gradient of the second function has the wrong sign."""

    sign = -1.0

    @staticmethod
    @once_differentiable
    def backward(ctx, y_bar):
        return WrongSecond.gradient(ctx, y_bar)


def doubling(x: Tensor) -> Tensor:
    """Sums of all entries up to each, in steps of 1, 2, 4, ...: few operations more for an axis twice as long."""
    step = 1
    while step < len(x):
        x = torch.cat([x[:step], x[step:] + x[:-step]])
        step *= 2
    return x
