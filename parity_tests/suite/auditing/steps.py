"""A small transformer, and mistakes that a user plants in it."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Softmax(torch.autograd.Function):
    """A softmax with a backward of its own, which is right."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        """Return the softmax along the last axis."""
        y = x.detach().softmax(-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, c: Tensor) -> Tensor:
        """Return c y - y (c . y)."""
        (y,) = ctx.saved_tensors
        return c * y - y * (c * y).sum(-1, keepdim=True)


class WithoutSum(Softmax):
    """Lacks the second term."""

    @staticmethod
    def backward(ctx, c: Tensor) -> Tensor:
        """Return c y."""
        (y,) = ctx.saved_tensors
        return c * y


class Block(nn.Module):
    """Attention and a network, with norms before them; what follows the attention may be replaced."""

    def __init__(self, softmax: type[Softmax], after: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.softmax, self.after = softmax, after
        self.norm, self.qkv, self.out = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)
        self.mlp = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 8))

    def forward(self, x: Tensor) -> Tensor:
        """Return the result for x, of shape (batch, length, 8)."""
        q, k, v = (a.unflatten(-1, (2, 4)).transpose(1, 2) for a in self.qkv(self.norm(x)).chunk(3, -1))
        length = x.shape[1]
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        scores = (q @ k.mT / 2).masked_fill(~mask, torch.finfo(q.dtype).min)
        y = (self.softmax.apply(scores) @ v).transpose(1, 2).flatten(-2)
        x = x + self.after(self.out(y))
        return x + self.mlp(x)


class Model(nn.Module):
    """Token and position, two blocks, and the loss of the next token."""

    def __init__(
        self, softmax: type[Softmax] = Softmax, after: Callable[[Tensor], Tensor] = lambda y: y, vocabulary: int = 11
    ) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(vocabulary, 8), nn.Embedding(6, 8)
        self.blocks = nn.ModuleList([Block(Softmax, lambda y: y), Block(softmax, after)])
        self.head = nn.Linear(8, vocabulary)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the loss."""
        x = self.token(ids) + self.place(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(x[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


def made(**how: object) -> tuple[Model, Tensor]:
    """A model, whose parameters are drawn, and a batch."""
    torch.manual_seed(0)
    return Model(**how), torch.randint(0, 11, (3, 6))  # type: ignore[arg-type]
