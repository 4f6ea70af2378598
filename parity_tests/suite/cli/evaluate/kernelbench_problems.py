"""Problems in KernelBench's form, each with a right solution and one whose forward is right and backward wrong."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

_PROBLEM = """
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self{parameters}):
        super().__init__()
{made}

    def forward(self, {names}):
        return {value}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return [{arguments}]
"""
_SOLUTION = """
import torch
import torch.nn as nn


class Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, {args}):
        ctx.save_for_backward({args})
        return {forward}

    @staticmethod
    def backward(ctx, y_bar):
        {args}, = ctx.saved_tensors
        {backward}


class ModelNew(nn.Module):
    def __init__(self{parameters}):
        super().__init__()
{made}

    def forward(self, {names}):
        return Fused.apply({call})
"""


@dataclass(frozen=True)
class Problem:
    """A problem, and what its solutions are made of.

    `value`: of the model. `args`, `forward`, `backward`: of the solution's Function, which is called with `call`.
    `wrong`: a part of the backward, and what a wrong one has in its place.
    """

    names: str
    value: str
    inputs: str
    forward: str
    backward: str
    wrong: tuple[str, str]
    parameters: str = ""
    made: str = "pass"
    arguments: str = ""
    args: str = ""
    call: str = ""

    @property
    def _fields(self) -> dict[str, str]:
        fields = vars(self) | {"args": self.args or self.names, "call": self.call or self.names}
        return fields | {"made": textwrap.indent(self.made, " " * 8)}

    @property
    def text(self) -> str:
        """The file of the problem."""
        return _PROBLEM.format(**self._fields)

    @property
    def right(self) -> str:
        """The file of a right solution."""
        lines = textwrap.indent(self.backward, " " * 8).lstrip()
        return _SOLUTION.format(**self._fields | {"backward": lines})

    @property
    def wrong_backward(self) -> str:
        """The file of a solution whose backward is wrong."""
        assert self.wrong[0] in self.right
        return self.right.replace(*self.wrong)


_SOFTMAX = "torch.exp(x - x.amax(-1, keepdim=True)) / torch.exp(x - x.amax(-1, keepdim=True)).sum(-1, keepdim=True)"
_VARIANCE = "((x - x.mean(-1, keepdim=True)) ** 2).mean(-1, keepdim=True)"
PROBLEMS = {
    "rms_norm": Problem(
        names="x",
        value="x / torch.sqrt(torch.mean(x ** 2, -1, keepdim=True) + 1e-5) * self.scale",
        inputs="torch.rand(512, 16, 8)",
        parameters=", features",
        made="self.scale = nn.Parameter(torch.randn(features))",
        arguments="8",
        args="x, w",
        call="x, self.scale",
        forward="x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * w",
        backward="r = torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)\n"
        "z = y_bar * w\n"
        "return r * z - x * r**3 * (z * x).mean(-1, keepdim=True), (y_bar * x * r).flatten(0, -2).sum(0)",
        wrong=(".mean(-1, keepdim=True), (", ".sum(-1, keepdim=True), ("),
    ),
    "softmax": Problem(
        names="x",
        value="torch.softmax(x, -1)",
        inputs="torch.rand(64, 32)",
        forward=_SOFTMAX,
        backward=f"y = {_SOFTMAX}\nreturn y * (y_bar - (y * y_bar).sum(-1, keepdim=True))",
        wrong=("(y_bar - (y * y_bar).sum(-1, keepdim=True))", "(1 - y) * y_bar"),
    ),
    "gelu": Problem(
        names="x",
        value="F.gelu(x)",
        inputs="torch.rand(256, 64)",
        forward="0.5 * x * (1 + torch.erf(x * 0.5**0.5))",
        backward="density = torch.exp(-0.5 * x * x) * 0.3989422804014327\n"
        "return y_bar * (0.5 * (1 + torch.erf(x * 0.5**0.5)) + x * density)",
        wrong=("+ x * density", "- x * density"),
    ),
    "linear_relu": Problem(
        names="x",
        value="torch.relu(self.linear(x))",
        inputs="torch.rand(128, 12)",
        parameters=", features, outputs",
        made="self.linear = nn.Linear(features, outputs)",
        arguments="12, 7",
        args="x, w, b",
        call="x, self.linear.weight, self.linear.bias",
        forward="torch.clamp(x @ w.T + b, min=0)",
        backward="z = y_bar * (x @ w.T + b > 0)\nreturn z @ w, z.T @ x, z.sum(0)",
        wrong=("z.sum(0)", "z.mean(0)"),
    ),
    "hinge_loss": Problem(
        names="predictions, targets",
        value="torch.mean(torch.clamp(1 - predictions * targets, min=0))",
        inputs="torch.rand(48, 20), torch.randint(0, 2, (20,)).float() * 2 - 1",
        forward="torch.relu(1 - predictions * targets).mean()",
        backward="z = y_bar * (1 - predictions * targets > 0) / predictions.numel()\n"
        "return -z * targets, -(z * predictions).sum(0)",
        wrong=("-(z", "(z"),
    ),
    "cross_entropy": Problem(
        names="logits, labels",
        value="F.cross_entropy(logits, labels)",
        inputs="torch.rand(64, 10), torch.randint(0, 10, (64,))",
        forward="(torch.logsumexp(logits, 1) - logits.gather(1, labels[:, None])[:, 0]).mean()",
        backward="p = torch.softmax(logits, 1)\n"
        "z = p.scatter_add(1, labels[:, None], -torch.ones_like(p[:, :1]))\n"
        "return y_bar * z / labels.numel(), None",
        wrong=("/ labels.numel()", "/ p.shape[1]"),
    ),
    "layer_norm": Problem(
        names="x",
        value="self.norm(x)",
        inputs="torch.rand(64, 9)",
        parameters=", features",
        made="self.norm = nn.LayerNorm(features)",
        arguments="9",
        args="x, w, b",
        call="x, self.norm.weight, self.norm.bias",
        forward=f"(x - x.mean(-1, keepdim=True)) / torch.sqrt({_VARIANCE} + 1e-5) * w + b",
        backward=f"r = 1 / torch.sqrt({_VARIANCE} + 1e-5)\n"
        "n, z = (x - x.mean(-1, keepdim=True)) * r, y_bar * w\n"
        "x_bar = r * (z - z.mean(-1, keepdim=True) - n * (n * z).mean(-1, keepdim=True))\n"
        "return x_bar, (y_bar * n).sum(0), y_bar.sum(0)",
        wrong=(" - z.mean(-1, keepdim=True)", ""),
    ),
    "transposed_product": Problem(
        names="a, b",
        value="torch.matmul(a.T, b)",
        inputs="torch.rand(40, 24), torch.rand(40, 56)",
        forward="torch.einsum('kn,km->nm', a, b)",
        backward="return b @ y_bar.T, a @ y_bar",
        wrong=("b @ y_bar.T", "b @ y_bar.T / 2"),
    ),
    "swiglu": Problem(
        names="x",
        value="F.silu(self.gate(x)) * self.up(x)",
        inputs="torch.rand(32, 6)",
        parameters=", features, hidden",
        made="self.gate = nn.Linear(features, hidden, bias=False)\nself.up = nn.Linear(features, hidden, bias=False)",
        arguments="6, 10",
        args="x, g, u",
        call="x, self.gate.weight, self.up.weight",
        forward="(x @ g.T) * torch.sigmoid(x @ g.T) * (x @ u.T)",
        backward="p, q = x @ g.T, x @ u.T\n"
        "s = torch.sigmoid(p)\n"
        "p_bar, q_bar = y_bar * q * s * (1 + p * (1 - s)), y_bar * p * s\n"
        "return p_bar @ g + q_bar @ u, p_bar.T @ x, q_bar.T @ x",
        wrong=("s * (1 + p * (1 - s))", "s * (1 - s)"),
    ),
    "average_pool": Problem(
        names="x",
        value="F.avg_pool1d(x, 2)",
        inputs="torch.rand(16, 4, 32)",
        forward="x.unfold(-1, 2, 2).mean(-1)",
        backward="even = 0.5 * y_bar.repeat_interleave(2, -1)\n"
        "return torch.nn.functional.pad(even, (0, x.shape[-1] - even.shape[-1]))",
        wrong=("0.5 * y_bar", "y_bar"),
    ),
    "convolution": Problem(  # no padding; as many images as rows and filters
        names="x",
        value="self.filters(x)",
        inputs="torch.rand(10, 2, 10, 9)",
        parameters=", channels, filters, width",
        made="self.filters = nn.Conv2d(channels, filters, width, bias=False)",
        arguments="2, 10, 3",
        args="x, w",
        call="x, self.filters.weight",
        forward="torch.einsum('nchwkl,ockl->nohw', x.unfold(2, 3, 1).unfold(3, 3, 1), w)",
        backward="w_bar = torch.einsum('nchwkl,nohw->ockl', x.unfold(2, 3, 1).unfold(3, 3, 1), y_bar)\n"
        "return torch.nn.functional.conv_transpose2d(y_bar, w), w_bar",
        wrong=("conv_transpose2d(y_bar, w)", "conv_transpose2d(y_bar, w.flip(2))"),
    ),
    "batch_norm": Problem(
        names="x",
        value="self.norm(x)",
        inputs="torch.rand(12, 5)",
        parameters=", features",
        made="self.norm = nn.BatchNorm1d(features)",
        arguments="5",
        args="x, w, b",
        call="x, self.norm.weight, self.norm.bias",
        forward="(x - x.mean(0)) / torch.sqrt(((x - x.mean(0)) ** 2).mean(0) + 1e-5) * w + b",
        backward="r = 1 / torch.sqrt(((x - x.mean(0)) ** 2).mean(0) + 1e-5)\n"
        "n, z = (x - x.mean(0)) * r, y_bar * w\n"
        "return r * (z - z.mean(0) - n * (n * z).mean(0)), (y_bar * n).sum(0), y_bar.sum(0)",
        wrong=(" - n * (n * z).mean(0)", ""),
    ),
}

# What is put below a right solution: its module under another name, and one that only looks right.
CHEATS = {
    "zeros": (
        "class ModelNew(Right):\n    def forward(self, *x):\n        return 0 * super().forward(*x)\n",
        "is zero at every input",
    ),
    "the reference": (
        "from problem import Model\n\nclass ModelNew(Model):\n    pass\n",
        "calls the reference's class Model",
    ),
    "the reference, held": (
        "import problem\n\nclass ModelNew(Right):\n"
        "    def forward(self, *x):\n        return problem.Model.forward(self, *x)\n",
        "calls the reference's class Model",
    ),
    "its first output": (
        "class ModelNew(Right):\n    kept = {}\n    def forward(self, *x):\n"
        "        return self.kept.setdefault(x[0].shape, super().forward(*x))\n",
        "does not change with the input",
    ),
    "by its first number": (
        "class ModelNew(Right):\n    kept = {}\n    def forward(self, *x):\n"
        "        first = tuple((t.shape, t.detach().flatten()[:1].tolist().__repr__()) for t in x)\n"
        "        return self.kept.setdefault(first, super().forward(*x))\n",
        "does not change with the second half of its input",
    ),
    "by data_ptr": (
        "class ModelNew(Right):\n    kept = {}\n    def forward(self, *x):\n"
        "        place = x[0].data_ptr()\n"
        "        if place not in self.kept:\n            self.kept[place] = (x, super().forward(*x))\n"
        "        return self.kept[place][1]\n",
        "does not change with the numbers in its input's memory",
    ),
    "writes": (
        "class ModelNew(Right):\n    def forward(self, *x):\n        y = super().forward(*x)\n"
        "        x[0].detach().zero_()\n        return y\n",
        "writes to its input",
    ),
    "detached": (
        "class ModelNew(Right):\n    def forward(self, *x):\n        return super().forward(*x).detach()\n",
        "returns a detached output: no gradient reaches its inputs",
    ),
}


def cheating(problem: Problem, cheat: str) -> str:
    """The file of a solution that cheats."""
    return problem.right.replace("class ModelNew", "class Right") + "\n\n" + CHEATS[cheat][0]
