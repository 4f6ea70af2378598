"""Products: a linear layer, a bilinear form, a batched product, convolutions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import torch
from torch.nn import functional

from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators import sites
from parity_tests.operators.operator import Formulas, Mistake, Operator, by_formulas, function

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


def _layer(rng, sizes):
    n, k, m = sizes["n"], sizes["k"], sizes["m"]
    return [rng.standard_normal((n, k)), k**-0.5 * rng.standard_normal((m, k)), 0.2 * rng.standard_normal(m)]


def _linear_forward(at, x, w, b):
    return (x @ w.T + b,), (x, w)


def _linear_backward(at, saved, bars):
    (x, w), g = saved, at("y_bar", bars[0])
    x_bar = at("columns of x_bar", g) @ w
    w_bar = at("rows of w_bar", g).T @ at("x", x)
    return at("x_bar", x_bar), at("w_bar", w_bar), at("b_bar", at("rows of b_bar", g).sum(0))


_LINEAR = Formulas(
    "matmul and bias",
    _layer,
    _linear_forward,
    _linear_backward,
    {
        "small": {"n": 8, "k": 16, "m": 12},
        "medium": {"n": 64, "k": 128, "m": 96},
        "kernel": {"n": 512, "k": 512, "m": 512},
    },
)
linear = Operator(
    OpSpec("linear", lambda x, w, b: x @ w.T + b, "(n,d),(e,d),(e)->(n,e)"),
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
    }
    | _LINEAR.planted(
        sites.last_one("rows of w_bar", "the last row is left out of w_bar"),
        sites.last_block("rows of b_bar", "the last block of rows is left out of b_bar"),
        sites.last_block("columns of x_bar", "the last block of columns is left out of x_bar", axis=1),
        ("b_bar is a mean over rows", "size", {"b_bar": lambda b: b / 8}),
        sites.shifted("x", "w_bar has each row of x with the cotangent of the next row"),
        sites.first_row_for_all("y_bar"),
        sites.half("w_bar"),
        sites.zero_row("x_bar"),
        sites.entry("w_bar"),
        sites.doubled_tile("x_bar"),
        sites.negated_column("w_bar"),
        sites.slight("w_bar"),
    ),
    _LINEAR,
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


_WIDTH = 3


def _signals(rng, sizes):
    b, c, o, length = sizes["b"], sizes["c"], sizes["o"], sizes["l"]
    w = (c * _WIDTH) ** -0.5 * rng.standard_normal((o, c, _WIDTH))
    return [rng.standard_normal((b, c, length)), w, 0.2 * rng.standard_normal(o)]


def _conv(x, w, b):
    return jax.lax.conv_general_dilated(x, w, (1,), [(1, 1)]) + b[:, None]


def _conv_forward(at, x, w, b):
    return (torch.nn.functional.conv1d(x, w, padding=1) + b[:, None],), (x, w)


def _conv_backward(at, saved, bars):
    (x, w), g = saved, at("y_bar", bars[0])
    x_bar = torch.nn.functional.conv_transpose1d(g, at("w", w), padding=1)
    padded = at("padded x", torch.nn.functional.pad(x, (1, 1)))
    taps = [
        torch.einsum("bol,bcl->oc", at("batch of w_bar", g), padded[..., i : i + g.shape[-1]]) for i in range(_WIDTH)
    ]
    return at("x_bar", x_bar), at("w_bar", torch.stack(taps, -1)), at("positions of b_bar", g).sum((0, 2))


def _ends_left_out(x):
    return torch.cat([0 * x[..., :1], x[..., 1:-1], 0 * x[..., -1:]], -1)


def _last_position_zero(x):
    return torch.cat([x[..., :-2], 0 * x[..., -2:]], -1)


conv = by_formulas(
    _conv,
    Formulas(
        "convolution",
        _signals,
        _conv_forward,
        _conv_backward,
        {
            "small": {"b": 2, "c": 4, "o": 6, "l": 16},
            "medium": {"b": 4, "c": 32, "o": 32, "l": 64},
            "kernel": {"b": 8, "c": 64, "o": 64, "l": 512},
        },
    ),
    ("the filter is not flipped in x_bar", "order", {"w": lambda w: w.flip(-1)}),
    ("the padding of x is one too large on the left", "index", {"padded x": lambda x: x.roll(1, -1)}),
    ("the first and last position of x_bar are left out", "mask", {"x_bar": _ends_left_out}),
    ("the last position of x is taken to be padding", "mask", {"padded x": _last_position_zero}),
    sites.last_one("batch of w_bar", "the last example is left out of w_bar"),
    sites.last_block("positions of b_bar", "the last block of positions is left out of b_bar", axis=2),
    sites.factor("w_bar", 0.25, "w_bar is a mean over four examples"),
    sites.first_row_for_all("y_bar"),
    sites.half("x_bar"),
    sites.entry("w_bar"),
    sites.doubled_tile("x_bar"),
    sites.slight("w_bar"),
)


def _depthwise(rng, sizes):
    b, c, length = sizes["b"], sizes["c"], sizes["l"]
    return [rng.standard_normal((b, c, length)), 0.5 * rng.standard_normal((c, 4)), 0.2 * rng.standard_normal(c)]


def _causal_conv(x, w, b):
    return jax.lax.conv_general_dilated(x, w[:, None], (1,), [(3, 0)], feature_group_count=x.shape[1]) + b[:, None]


def _causal_conv_forward(at, x, w, b):
    padded = torch.nn.functional.pad(x, (3, 0))
    y = sum(padded[..., i : i + x.shape[-1]] * w[:, i : i + 1] for i in range(4))
    return (y + b[:, None],), (padded, w)


def _causal_conv_backward(at, saved, bars):
    (padded, w), g = saved, at("y_bar", bars[0])
    padded, length = at("padded x", padded), g.shape[-1]
    w_bar = torch.stack([(at("positions of w_bar", g) * padded[..., i : i + length]).sum((0, 2)) for i in range(4)], -1)
    ahead, taps = torch.nn.functional.pad(g, (0, 3)), at("w", w)
    x_bar = sum(ahead[..., 3 - i : 3 - i + length] * taps[:, i : i + 1] for i in range(4))
    return at("x_bar", x_bar), at("w_bar", w_bar), at("b_bar", g.sum((0, 2)))


def _first_positions_left_out(x):
    return torch.cat([0 * x[..., :3], x[..., 3:]], -1)


causal_conv = by_formulas(
    _causal_conv,
    Formulas(
        "causal depthwise convolution",
        _depthwise,
        _causal_conv_forward,
        _causal_conv_backward,
        {
            "small": {"b": 2, "c": 8, "l": 16},
            "medium": {"b": 4, "c": 32, "l": 128},
            "kernel": {"b": 8, "c": 128, "l": 512},
        },
    ),
    ("the filter is flipped in x_bar", "order", {"w": lambda w: w.flip(-1)}),
    ("the last tap is left out of x_bar", "term", {"w": lambda w: torch.cat([w[:, :-1], 0 * w[:, -1:]], 1)}),
    ("the padding of x is one too large", "index", {"padded x": lambda x: x.roll(1, -1)}),
    ("x_bar is zero at the first three positions", "mask", {"x_bar": _first_positions_left_out}),
    sites.last_block("positions of w_bar", "the last block of positions is left out of w_bar", axis=2),
    sites.last_one("positions of w_bar", "the last example is left out of w_bar"),
    sites.first_row_for_all("y_bar"),
    sites.half("b_bar"),
    sites.entry("w_bar"),
    sites.zero_row("x_bar"),
    sites.negated_column("w_bar"),
    sites.slight("x_bar"),
)
