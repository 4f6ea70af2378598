"""attn as a `torch.autograd.Function`: equations (1) to (12) of derivation/attn.md, written by hand.

Complex: PyTorch's convention, in which a gradient is the conjugate transpose applied to the cotangent; hence `mH` and
`conj` where the derivation, in JAX's convention, has a plain transpose. For real tensors both do nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch.autograd.forward_ad import unpack_dual

from torch_impl._validate import product_dtype, validate

if TYPE_CHECKING:
    from jaxtyping import Inexact
    from torch import Tensor

ATTN_FUNCTION_LIMITS: Mapping[str, str] = {
    "nested forward AD": "PyTorch turns forward AD off while a torch.autograd.Function's jvp runs, so that a JVP of a "
    "JVP is silently wrong (pytorch/pytorch#197867)",
    "nested dual_level": "torch.autograd.forward_ad has one level, with a Function or without: a second dual_level "
    "raises 'Nested forward mode AD is not supported at the moment'",
    "torch.compile(fullgraph=True)": "Dynamo does not trace an autograd.Function that defines jvp (graph break gb0144, "
    "pytorch/pytorch#180284); without fullgraph it runs the Function in eager mode",
    "torch.func.functionalize": "PyTorch has no functionalization rule for an autograd.Function: it raises 'NYI: "
    "Functionalize rule for custom_function_call' (torch/_functorch/autograd_function.py)",
    "torch.autograd.grad(inputs=...)": "PyTorch does not tell an autograd.Function which gradients are asked for, so "
    "that those of all inputs that require grad are computed (pytorch/pytorch#56500)",
}
"""What PyTorch itself cannot do through a `torch.autograd.Function`, each with the upstream reason."""

_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor  # pyright: ignore[reportAttributeAccessIssue]
tanh_backward = torch.ops.aten.tanh_backward  # (G, A) -> G ∘ conj(1 - A²), differentiable


class Attn(torch.autograd.Function):
    """Only inputs and the output `attn` are saved: a saved intermediate would make second order silently wrong."""

    generate_vmap_rule = True

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        # With beta=0 the zeros do not count, but their batch axis does: under vmap attn is batched whenever v is. Of an
        # output that is not, PyTorch's generated rule adds the (already summed) cotangent once for every sample.
        S = torch.addmm(v.new_zeros(1, 1), q, k.mT, beta=0)  # (1)
        attn = S.tanh_()  # (2); in place: S is needed nowhere else
        return attn @ v, attn  # (3)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.set_materialize_grads(False)
        _, attn = output
        ctx.save_for_backward(*inputs, attn)
        ctx.save_for_forward(*inputs, attn)

    @staticmethod
    def backward(ctx, output_bar: Tensor | None, attn_bar: Tensor | None):
        q, k, v, attn = ctx.saved_tensors
        needs_q, needs_k, needs_v = ctx.needs_input_grad
        q_bar = k_bar = v_bar = None
        if (needs_q or needs_k) and not (output_bar is None and attn_bar is None):
            P = _cotangent_of_scores(v, attn, output_bar, attn_bar)
            if needs_q:
                q_bar = P @ k.conj()  # (10)
            if needs_k:
                k_bar = P.mT @ q.conj()  # (11)
        if needs_v and output_bar is not None:
            v_bar = attn.mH @ output_bar  # (12)
        return q_bar, k_bar, v_bar

    @staticmethod
    def jvp(ctx, q_dot: Tensor | None, k_dot: Tensor | None, v_dot: Tensor | None):
        q, k, v, attn = ctx.saved_tensors
        if q_dot is None and k_dot is None:
            # Zeros and not None: PyTorch's engine asserts that every output has a tangent.
            return attn @ v_dot, torch.zeros_like(attn)  # (7)
        if k_dot is None:
            T = q_dot @ k.mT  # (5)
        elif q_dot is None:
            T = q @ k_dot.mT  # (5)
        else:
            T = torch.addmm(q @ k_dot.mT, q_dot, k.mT)  # (5)
        attn_dot = (1 - attn * attn) * T  # (4), (6)
        output_dot = attn_dot @ v if v_dot is None else torch.addmm(attn_dot @ v, attn, v_dot)  # (7)
        return output_dot, attn_dot


def _cotangent_of_scores(v: Tensor, attn: Tensor, output_bar: Tensor | None, attn_bar: Tensor | None) -> Tensor:
    """P = D ∘ G, equations (8) and (9), with one n*m matrix of memory where autograd allows it."""
    if output_bar is None:
        return tanh_backward(attn_bar, attn)
    G = output_bar @ v.mH if attn_bar is None else torch.addmm(attn_bar, output_bar, v.mH)  # (8)
    # G is ours alone, so P may overwrite it, but neither while autograd records (double backward needs G) nor under
    # torch.func (attn may carry a batch axis that G lacks, and addcmul_ has no batching rule), nor in forward mode
    # (PyTorch's tangent of addcmul_ reads its second argument, here the result, after it was overwritten).
    if torch.is_grad_enabled() or any(_is_wrapped(x) or unpack_dual(x).tangent is not None for x in (G, attn)):
        return tanh_backward(G, attn)  # (9)
    a = attn.conj()
    return G.addcmul_(G, a, value=-1).addcmul_(G, a)  # (9), as G ∘ (1 - A) ∘ (1 + A)


def attn_function(
    q: Inexact[Tensor, "n d"], k: Inexact[Tensor, "m d"], v: Inexact[Tensor, "m e"]
) -> tuple[Inexact[Tensor, "n e"], Inexact[Tensor, "n m"]]:
    """output = attn v, attn = tanh(q kᵀ), with an explicit VJP, (8) to (12), and an explicit JVP, (5) to (7).

    Args:
        q: queries (n, d), of float64, float32, bfloat16, float16, complex128 or complex64.
        k: keys (m, d), same dtype. v: values (m, e), same dtype. Any size may be 0 or 1; batch axes: `torch.vmap`.

    Returns:
        output (n, e) and attn (n, m), in the dtype of the inputs.

    Raises:
        TypeError, ValueError: a wrong type, dtype, rank or size; see `torch_impl._validate`.

    Limits of `torch.autograd.Function` itself, not of this formula: see `torch_impl.ATTN_FUNCTION_LIMITS`.
    """
    validate(q, k, v)
    # What autocast does to the plain operations. Inside a Function it would reach the forward only, and leave the
    # backward with two dtypes.
    return Attn.apply(*(x.to(product_dtype(x)) for x in (q, k, v)))
