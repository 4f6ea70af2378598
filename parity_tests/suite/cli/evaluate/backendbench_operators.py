"""Implementations in BackendBench's form, each right, and with a backward that is wrong where the forward is right."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

_FILE = """
import torch


class Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, {args}):
        ctx.save_for_backward({saved})
        {keep}
        return {forward}

    @staticmethod
    def backward(ctx, y_bar):
        {saved}, = ctx.saved_tensors
        {backward}


def {name}_kernel_impl({taken}):
    return Fused.apply({args})
"""


@dataclass(frozen=True)
class Implementation:
    """What an implementation is made of.

    `taken`: the arguments as they are called, `saved` the tensors among them. `wrong`: a part of the backward, and what
    a wrong one has in its place.
    """

    forward: str
    backward: str
    wrong: tuple[str, str]
    args: str = "x"
    taken: str = "x"
    saved: str = "x"
    keep: str = "pass"

    def right(self, name: str) -> str:
        """The file of the implementation of the operator in a folder of this name."""
        lines = textwrap.indent(self.backward, " " * 8).lstrip()
        return _FILE.format(**vars(self) | {"name": name, "backward": lines})

    def wrong_backward(self, name: str) -> str:
        """The same with a wrong backward."""
        assert self.wrong[0] in self.right(name)
        return self.right(name).replace(*self.wrong)


_EXP = "torch.exp(x - x.amax(dim, keepdim=True))"
IMPLEMENTATIONS = {
    "relu__default": Implementation(
        "torch.where(x <= 0, torch.zeros_like(x), x)",
        "return torch.where(x > 0, y_bar, torch.zeros_like(x))",
        ("torch.zeros_like(x))\n\n", "0.01 * y_bar)\n\n"),
    ),
    "sigmoid__default": Implementation(
        "1 / (1 + torch.exp(-x))",
        "y = 1 / (1 + torch.exp(-x))\nreturn y_bar * y * (1 - y)",
        ("y * (1 - y)", "(1 - y * y)"),
    ),
    "tanh__default": Implementation(
        "torch.expm1(2 * x) / (torch.expm1(2 * x) + 2)",
        "return y_bar * 4 * torch.sigmoid(2 * x) * torch.sigmoid(-2 * x)",
        ("* 4", "* 2"),
    ),
    "silu__default": Implementation(
        "x * torch.sigmoid(x)",
        "s = torch.sigmoid(x)\nreturn y_bar * s * (1 + x * (1 - s))",
        ("(1 + x * (1 - s))", "(1 - s)"),
    ),
    "reciprocal__default": Implementation(
        "torch.ones_like(x) / x",
        "return -y_bar / (x * x)",
        ("-y_bar", "y_bar"),
    ),
    "sqrt__default": Implementation(
        "torch.pow(x, 0.5)",
        "return 0.5 * y_bar * torch.pow(x, -0.5)",
        ("0.5 * y_bar", "y_bar"),
    ),
    "mm__default": Implementation(
        "(a[:, :, None] * b[None]).sum(1)",
        "return y_bar @ b.T, a.T @ y_bar",
        ("a.T @ y_bar", "a.T @ y_bar * 2"),
        args="a, b",
        taken="a, b",
        saved="a, b",
    ),
    "_softmax__default": Implementation(
        f"{_EXP} / {_EXP}.sum(dim, keepdim=True)",
        f"dim = ctx.dim\ny = {_EXP} / {_EXP}.sum(dim, keepdim=True)\n"
        "return y * (y_bar - (y * y_bar).sum(dim, keepdim=True)), None",
        ("(y_bar - (y * y_bar).sum(dim, keepdim=True))", "y_bar"),
        args="x, dim",
        taken="x, dim, half_to_float",
        keep="ctx.dim = dim",
    ),
    "cumsum__default": Implementation(
        "(x.movedim(dim, -1) @ torch.ones(x.shape[dim], x.shape[dim]).to(x).triu()).movedim(-1, dim)",
        "ones = torch.ones(x.shape[ctx.dim], x.shape[ctx.dim]).to(x)\n"
        "return (y_bar.movedim(ctx.dim, -1) @ ones.tril()).movedim(-1, ctx.dim), None",
        ("ones.tril()", "ones.triu()"),
        args="x, dim",
        taken="x, dim, **options",
        keep="ctx.dim = dim",
    ),
    "where__self": Implementation(
        "a * mask + b * ~mask",
        "return None, y_bar * mask, y_bar * ~mask",
        ("y_bar * ~mask", "y_bar"),
        args="mask, a, b",
        taken="mask, a, b",
        saved="mask, a, b",
    ),
}

# What is put below a right implementation: `right` is its function.
CHEATS = {
    "zeros": ("return 0 * right(*args, **options)", "is zero at every input"),
    "the operator": ("return torch.ops.aten.{op}(*args, **options)", "calls the reference's operator aten.{packet}"),
    "its first output": (
        "shapes = tuple(x.shape for x in args if isinstance(x, torch.Tensor))\n"
        "    return kept.setdefault(shapes, right(*args, **options))",
        "does not change with the input",
    ),
    "by data_ptr": (
        "place = next(x.data_ptr() for x in args if isinstance(x, torch.Tensor) and x.is_floating_point())\n"
        "    if place not in kept:\n        kept[place] = args, right(*args, **options)\n"
        "    return kept[place][1]",
        "does not change with the numbers in its input's memory",
    ),
    "writes": (
        "y = right(*args, **options)\n"
        "    next(x for x in args if isinstance(x, torch.Tensor) and x.is_floating_point()).detach().zero_()\n"
        "    return y",
        "writes to its input",
    ),
    "detached": ("return right(*args, **options).detach()", "returns a detached output"),
}


def cheating(name: str, cheat: str) -> tuple[str, str]:
    """The file of an implementation that cheats, and the words by which it must be told."""
    op = ".".join(name.rpartition("__")[::2])
    packet = op.rpartition(".")[0].strip("_")
    body, reason = (text.replace("{op}", op).replace("{packet}", packet) for text in CHEATS[cheat])
    right = f"{IMPLEMENTATIONS[name].right(name)}\n\nright, kept = {name}_kernel_impl, {{}}\n"
    return f"{right}\n\ndef {name}_kernel_impl(*args, **options):\n    {body}\n", reason
