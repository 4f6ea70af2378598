"""Products: a linear layer, a bilinear form, a batched product."""

from __future__ import annotations

import jax.numpy as jnp
import torch
from torch.nn import functional

from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators.operator import Mistake, Operator, function

# linear: x Wᵀ + b


def _linear_with(w_bar=lambda x, W, y: y.mT @ x, x_bar=lambda x, W, y: y @ W, b_bar=lambda x, W, y: y.sum(0), jvp=None):
    def backward(x, W, b, y_bar):
        return tuple(f(x, W, y_bar) for f in (x_bar, w_bar, b_bar))

    return function(functional.linear, backward, jvp)


class _OnlyWhatIsNeeded(torch.autograd.Function):
    """Takes needs_input_grad of the weight for that of the bias."""

    @staticmethod
    def forward(ctx, x, W, b):
        ctx.save_for_backward(x, W)
        return functional.linear(x, W, b)

    @staticmethod
    def backward(ctx, y_bar):
        x, W = ctx.saved_tensors
        needs_x, needs_W, _ = ctx.needs_input_grad
        return y_bar @ W if needs_x else None, y_bar.mT @ x if needs_W else None, y_bar.sum(0) if needs_W else None


class _Workspace(torch.autograd.Function):
    """Keeps its input in a buffer that all calls share, as hand-written extensions do."""

    saved: tuple = ()

    @staticmethod
    def forward(ctx, x, W, b):
        _Workspace.saved = (x.detach().clone(), W.detach().clone())
        return functional.linear(x, W, b)

    @staticmethod
    def backward(ctx, y_bar):
        x, W = _Workspace.saved
        return y_bar @ W, y_bar.mT @ x, y_bar.sum(0)


def _bias_in_place(x, W, b):
    y = x @ W.mT
    b.data.add_(0.125)
    return y + b


linear = Operator(
    OpSpec("linear", lambda x, W, b: x @ W.T + b, "(n,d),(e,d),(e)->(n,e)"),
    functional.linear,
    {
        "bias_averaged": Mistake(_linear_with(b_bar=lambda x, W, y: y.mean(0)), "vjp", passes=("forward",)),
        "weight_not_transposed": Mistake(_linear_with(w_bar=lambda x, W, y: x.mT @ y), "vjp"),
        "weight_reshaped": Mistake(_linear_with(w_bar=lambda x, W, y: (x.mT @ y).reshape(W.shape)), "vjp"),
        "input_viewed": Mistake(lambda x, W, b: functional.linear(x.view(-1).view(x.shape), W, b), "layouts"),
        "cotangent_viewed": Mistake(
            _linear_with(b_bar=lambda x, W, y: y.view(-1).view(y.shape).sum(0)), "layouts", passes=("vjp",)
        ),
        "mask_of_another_input": Mistake(_OnlyWhatIsNeeded.apply, "input_subsets", passes=("vjp",)),
        "bias_without_tangent": Mistake(
            _linear_with(jvp=lambda x, W, b, x_dot, W_dot, b_dot: x_dot @ W.mT + x @ W_dot.mT),
            "jvp",
            passes=("vjp",),
        ),
        "bias_written": Mistake(_bias_in_place, "purity"),
        "shared_workspace": Mistake(_Workspace.apply, "interleaved", passes=("vjp",)),
        "weight_gradient_in_16_bits": Mistake(
            _linear_with(w_bar=lambda x, W, y: (y.bfloat16().mT @ x.bfloat16()).to(W.dtype)), "vjp", "float32"
        ),
    },
)


# bilinear: x_i W_oij y_j


def _bilinear(x, y, W):
    return torch.einsum("ni,oij,nj->no", x, W, y)


def _bilinear_with(x_bar="no,oij,nj->ni", y_bar="no,oij,ni->nj", W_bar="no,ni,nj->oij", detached=False):
    def backward(x, y, W, z):
        if detached:
            x, y = x.detach(), y.detach()
        return (
            torch.einsum(x_bar, z, W, y),
            torch.einsum(y_bar, z, W, x),
            torch.einsum(W_bar, z, x, y),
        )

    return function(_bilinear, backward)


bilinear = Operator(
    OpSpec("bilinear", lambda x, y, W: jnp.einsum("ni,oij,nj->no", x, W, y), "(n,i),(n,j),(o,i,j)->(n,o)"),
    _bilinear,
    {
        "inputs_detached": Mistake(_bilinear_with(detached=True), "vjp_of_vjp", passes=("vjp",)),
        "one_example_for_all": Mistake(_bilinear_with(W_bar="no,mi,nj->oij"), "vjp"),
        "summed_over_outputs": Mistake(_bilinear_with(x_bar="nq,oij,nj->ni"), "vjp"),
    },
)


# bij,bjk->bik


def _batched(x, y):
    return torch.einsum("bij,bjk->bik", x, y)


def _batched_backward(x, y, w):
    return w @ y.mT, x.mT @ w


def _first_of_batch(info, in_dims, x, y):
    """A vmap rule that computes the first example for all."""
    x, y = (a if d is None else a.select(d, 0) for a, d in zip((x, y), in_dims, strict=True))
    return _batched(x, y).expand(info.batch_size, -1, -1, -1), 0


einsum = Operator(
    OpSpec("einsum", lambda x, y: jnp.einsum("bij,bjk->bik", x, y), "(b,i,j),(b,j,k)->(b,i,k)"),
    _batched,
    {
        "summed_over_the_batch": Mistake(
            function(_batched, lambda x, y, w: (w @ y.mT, (x.mT @ w).sum(0).expand_as(y))), "vjp"
        ),
        "batch_and_rows_swapped": Mistake(
            function(
                _batched,
                lambda x, y, w: (torch.einsum("bik,bjk->bij", w, y), torch.einsum("bij,bik->bjk", w @ y.mT, w)),
            ),
            "vjp",
        ),
        "first_of_the_batch_under_vmap": Mistake(
            function(_batched, _batched_backward, vmap=_first_of_batch),
            "vmap",
            passes=("vjp",),
        ),
    },
)
