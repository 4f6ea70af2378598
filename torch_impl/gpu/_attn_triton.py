"""attn by `derivation.attn_kernels`, as `torch.autograd.Function`s: the operator, and its VJP as an operator.

The VJP is a Function by itself, so that it, too, has a rule for vmap and derivatives: torch.func.grad, which always
records, runs the kernels, and `vmap` of it, too. What comes after the VJP is plain differentiable PyTorch with n*m
temporaries: forward mode (5) to (7), forward over reverse (13) to (18), and double backward by way of (19) and (20),
which are made of the same. Saved are inputs only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from derivation import attn_kernels
from torch_impl._validate import product_dtype, validate
from torch_impl.gpu import _launch

if TYPE_CHECKING:
    from jaxtyping import Float

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
tanh_backward = torch.ops.aten.tanh_backward  # (G, A) -> G ∘ (1 - A²), differentiable


class AttnTriton(torch.autograd.Function):
    """(q, k, v, with_attn) -> (output, attn) or (output,). One leading axis of examples, or none."""

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, with_attn: bool) -> tuple[Tensor, ...]:
        return _launch.forward(q, k, v, with_attn)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.set_materialize_grads(False)
        *primals, ctx.with_attn = inputs
        ctx.save_for_backward(*primals)
        ctx.save_for_forward(*primals)

    @staticmethod
    def backward(ctx, output_bar: Tensor | None, attn_bar: Tensor | None = None):
        if output_bar is None and attn_bar is None:
            return None, None, None, None
        wants = ctx.needs_input_grad[:3]
        return *AttnTritonVjp.apply(*ctx.saved_tensors, output_bar, attn_bar, *wants), None

    @staticmethod
    def jvp(ctx, q_dot: Tensor | None, k_dot: Tensor | None, v_dot: Tensor | None, _):
        q, k, v = ctx.saved_tensors
        A = torch.tanh(q @ k.mT)  # (2)
        output_dot, A_dot = _jvp(q, k, v, A, q_dot, k_dot, v_dot)
        # Zeros and not None: PyTorch's engine asserts that every output has a tangent.
        A_dot = torch.zeros_like(A) if A_dot is None else A_dot
        return (output_dot, A_dot) if ctx.with_attn else (output_dot,)

    @staticmethod
    def vmap(info, in_dims, q, k, v, with_attn):
        return _mapped(AttnTriton, info, in_dims, q, k, v, with_attn)


class AttnTritonVjp(torch.autograd.Function):
    """(q, k, v, output_bar, attn_bar, wants_q, wants_k, wants_v) -> (q_bar, k_bar, v_bar)."""

    @staticmethod
    def forward(q, k, v, output_bar, attn_bar, wants_q, wants_k, wants_v):
        return _launch.backward(q, k, v, output_bar, attn_bar, wants_q, wants_k, wants_v)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.set_materialize_grads(False)
        ctx.there = [x is not None for x in output]
        ctx.save_for_backward(*inputs[:5])
        ctx.save_for_forward(*inputs[:5])

    @staticmethod
    def backward(ctx, q_bar_bar: Tensor | None, k_bar_bar: Tensor | None, v_bar_bar: Tensor | None):
        q, k, v, output_bar, attn_bar = ctx.saved_tensors
        y = q_bar_bar, k_bar_bar, v_bar_bar
        A = torch.tanh(q @ k.mT)  # (2)
        x_bar = _jvp_of_vjp(q, k, v, A, output_bar, attn_bar, *y, None, None)  # (19)
        w_bar = _jvp(q, k, v, A, *y)  # (20)
        bars = (*x_bar, *w_bar)
        return *(x if needed else None for x, needed in zip(bars, ctx.needs_input_grad, strict=False)), None, None, None

    @staticmethod
    def jvp(ctx, q_dot, k_dot, v_dot, output_bar_dot, attn_bar_dot, *_):
        q, k, v, output_bar, attn_bar = ctx.saved_tensors
        A = torch.tanh(q @ k.mT)  # (2)
        dots = _jvp_of_vjp(q, k, v, A, output_bar, attn_bar, q_dot, k_dot, v_dot, output_bar_dot, attn_bar_dot)
        like = zip(dots, (q, k, v), ctx.there, strict=True)
        return tuple((torch.zeros_like(x) if x_dot is None else x_dot) if there else None for x_dot, x, there in like)

    @staticmethod
    def vmap(info, in_dims, *arguments):
        return _mapped(AttnTritonVjp, info, in_dims, *arguments)


def _mapped(function: type[torch.autograd.Function], info, in_dims, *arguments):
    """A Function over a batch: the kernels have one axis of examples; what is not batched is repeated by a stride of 0.

    All results are batched, and a sum over the examples, where it is due, is autograd's of `expand`.
    """
    tensors = []
    for x, dim in zip(arguments, in_dims, strict=True):
        if isinstance(x, Tensor):
            x = x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
        tensors.append(x)
    outer = tensors[0].shape[:-2]  # two axes inside of another vmap
    flat = [x.reshape(-1, *x.shape[-2:]) if isinstance(x, Tensor) and len(outer) > 1 else x for x in tensors]
    results = function.apply(*flat)
    results = tuple(y if y is None else y.reshape(*outer, *y.shape[-2:]) for y in results)
    return results, tuple(y if y is None else 0 for y in results)


# Plain, differentiable PyTorch. `None` is an exact zero, in arguments and results; capital letters are the matrices of
# derivation/attn.md.


def _times(x: Tensor | None, y: Tensor | None) -> Tensor | None:
    return None if x is None or y is None else x @ y


def _entrywise(x: Tensor | None, y: Tensor | None) -> Tensor | None:
    return None if x is None or y is None else x * y


def _sum(*terms: Tensor | None) -> Tensor | None:
    there = [x for x in terms if x is not None]
    return sum(there[1:], there[0]) if there else None


def _slope(x: Tensor | None, A: Tensor) -> Tensor | None:
    return None if x is None else tanh_backward(x, A)  # D ∘ x, (4)


def _t(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.mT


def _jvp(q, k, v, A, q_dot, k_dot, v_dot) -> tuple[Tensor | None, Tensor | None]:
    """(output_dot, attn_dot)."""
    T = _sum(_times(q_dot, k.mT), _times(q, _t(k_dot)))  # (5)
    A_dot = _slope(T, A)  # (6)
    return _sum(_times(A_dot, v), _times(A, v_dot)), A_dot  # (7)


def _jvp_of_vjp(
    q, k, v, A, output_bar, attn_bar, q_dot, k_dot, v_dot, output_bar_dot, attn_bar_dot
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """(q_bar_dot, k_bar_dot, v_bar_dot)."""
    T = _sum(_times(q_dot, k.mT), _times(q, _t(k_dot)))  # (5)
    A_dot = _slope(T, A)  # (6)
    G = _sum(attn_bar, _times(output_bar, v.mT))  # (8)
    G_dot = _sum(attn_bar_dot, _times(output_bar_dot, v.mT), _times(output_bar, _t(v_dot)))  # (13)
    D_dot = None if A_dot is None else -2 * A * A_dot  # (14)
    P = _slope(G, A)  # (9)
    P_dot = _sum(_entrywise(D_dot, G), _slope(G_dot, A))  # (15)
    q_bar_dot = _sum(_times(P_dot, k), _times(P, k_dot))  # (16)
    k_bar_dot = _sum(_times(_t(P_dot), q), _times(_t(P), q_dot))  # (17)
    v_bar_dot = _sum(_times(_t(A_dot), output_bar), _times(A.mT, output_bar_dot))  # (18)
    return q_bar_dot, k_bar_dot, v_bar_dot


def attn_triton(
    q: Float[Tensor, "n d"], k: Float[Tensor, "m d"], v: Float[Tensor, "m e"]
) -> tuple[Float[Tensor, "n e"], Float[Tensor, "n m"]]:
    """output = attn v, attn = tanh(q kᵀ), by a fused kernel, and its VJP by two: equations (1) to (3), (8) to (12).

    No n*m matrix is written but attn, and nothing but the inputs is kept for the backward, which makes attn again. Any
    strides are read in place. Not measured on a GPU yet.

    Args:
        q: queries (n, d), of float32, bfloat16 or float16, on a CUDA device; d is at most 128. Batch axes:
            `torch.vmap`.
        k: keys (m, d), same dtype. v: values (m, e), same dtype; e is at most 128. Any size may be 0 or 1.

    Returns:
        output (n, e) and attn (n, m), in the dtype of the inputs.

    Raises:
        TypeError, ValueError: a wrong type, dtype, rank or size, or tensors that the kernels cannot take; see
            `torch_impl._validate`.

    Second derivatives and forward mode are right, but plain PyTorch with n*m temporaries. A jvp of a jvp is silently
    wrong, see `torch_impl.ATTN_FUNCTION_LIMITS`. No operator is registered, so torch.compile, torch.export and fake
    tensors are not served.
    """
    output, attn = AttnTriton.apply(*_checked("attn_triton", q, k, v), True)  # pyright: ignore[reportGeneralTypeIssues]
    return output, attn


def attn_output_triton(
    q: Float[Tensor, "n d"], k: Float[Tensor, "m d"], v: Float[Tensor, "m e"]
) -> Float[Tensor, "n e"]:
    """The output of `attn_triton` alone: no n*m matrix is written at all, forward or backward.

    Args, Raises: those of `attn_triton`.

    Returns:
        output (n, e), in the dtype of the inputs.
    """
    (output,) = AttnTriton.apply(*_checked("attn_output_triton", q, k, v), False)  # pyright: ignore[reportGeneralTypeIssues]
    return output


def _checked(
    name: str, q: Tensor, k: Tensor, v: Tensor, interpreted: bool = attn_kernels.INTERPRETED
) -> tuple[Tensor, Tensor, Tensor]:
    """The arguments, as autocast would have them.

    Raises:
        TypeError, ValueError: those of `validate`; a dtype, a device or a number of features that the kernels lack.
    """
    validate(q, k, v)
    q, k, v = (x.to(product_dtype(x)) for x in (q, k, v))
    if q.dtype not in DTYPES:
        raise TypeError(
            f"{name}: q, k and v are {str(q.dtype).removeprefix('torch.')}, and the kernels take float32, bfloat16 and "
            "float16; use torch_impl.attn_composite, or convert them"
        )
    if not q.device == k.device == v.device:
        raise ValueError(f"{name}: q, k and v are on {q.device}, {k.device} and {v.device}; move them to one device")
    if not (q.is_cuda or interpreted):
        raise ValueError(
            f"{name}: q, k and v are on {q.device}, and Triton compiles for GPUs; use torch_impl.attn_composite, or "
            "move them with .cuda()"
        )
    for axis, x, of in (("d", q, "q and k"), ("e", v, "v")):
        if x.shape[-1] > attn_kernels.WIDEST:
            raise ValueError(
                f"{name}: axis {axis} is {x.shape[-1]} in {of}, and the kernels hold at most {attn_kernels.WIDEST} "
                "features; use torch_impl.attn_composite"
            )
    return q, k, v
