"""Planted mistakes in attn that show under a transform only: compiled, traced, cast, without values, or nested."""

from __future__ import annotations

import torch
from torch._subclasses.fake_tensor import FakeTensor

from parity_tests.suite.mutants import Mutant, tanh_backward
from torch_impl import attn_composite
from torch_impl._attn_function import Attn


def _scaled(q, k, v):
    return attn_composite(q / q.shape[-1] ** 0.5, k, v)


def _compiled_path(q, k, v):
    return _scaled(q, k, v) if torch.compiler.is_compiling() else attn_composite(q, k, v)


def _traced_path(q, k, v):
    return _scaled(q, k, v) if isinstance(q, FakeTensor) else attn_composite(q, k, v)


def _transposed_without_values(q, k, v):
    output, attn = attn_composite(q, k, v)
    return output, attn.mT if q.is_meta else attn


def _half_under_autocast(q, k, v):
    if torch.is_autocast_enabled(q.device.type):
        q, k, v = (x.half() for x in (q, k, v))
        with torch.autocast(q.device.type, enabled=False):
            return attn_composite(q, k, v)
    return attn_composite(q, k, v)


class _TwoMatrices(torch.autograd.Function):
    """The VJP of G (1 - A²); under vmap the examples are taken in the wrong order."""

    @staticmethod
    def forward(w, G, A):
        return tanh_backward(w, A), -2 * w * G * A

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def vmap(info, in_dims, w, G, A):
        w, G, A = (
            x.movedim(dim, 0) if dim is not None else x.expand(info.batch_size, *x.shape)
            for x, dim in zip((w, G, A), in_dims, strict=True)
        )
        return _TwoMatrices.apply(w.flip(0), G, A), (0, 0)


class _Scores(torch.autograd.Function):
    """G (1 - A²)."""

    generate_vmap_rule = True

    @staticmethod
    def forward(G, A):
        return tanh_backward(G, A)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, *cotangents):
        return _TwoMatrices.apply(*cotangents, *ctx.saved_tensors)


class _ScoresToSecondOrder(_Scores):
    """Of its backward autograd sees the cotangent only, not G and A."""

    @staticmethod
    def backward(ctx, *cotangents):
        G, A = (x.detach() for x in ctx.saved_tensors)
        (w,) = cotangents
        return tanh_backward(w, A), -2 * w * G * A


class _SecondOrder(Attn):
    scores = _Scores

    @classmethod
    def backward(cls, ctx, output_bar, attn_bar):
        q, k, v, attn = ctx.saved_tensors
        if output_bar is None or attn_bar is None:
            return Attn.backward(ctx, output_bar, attn_bar)
        P = cls.scores.apply(attn_bar + output_bar @ v.mT, attn)
        return P @ k, P.mT @ q, attn.mT @ output_bar


class SecondOrderMixesExamples(_SecondOrder):
    scores = _Scores


class DetachedAtThirdOrder(_SecondOrder):
    scores = _ScoresToSecondOrder


torch.library.define("gradparity_mutants::attn", "(Tensor q, Tensor k, Tensor v) -> (Tensor, Tensor)")


@torch.library.impl("gradparity_mutants::attn", "CompositeExplicitAutograd")
def _in_one_piece(q, k, v):
    """Both outputs in one piece of memory, of which the schema says nothing."""
    output, attn = attn_composite(q, k, v)
    return torch.cat([output, attn], 1).split([v.shape[1], k.shape[0]], 1)


def _backward(ctx, output_bar, attn_bar):
    q, k, v, attn = ctx.saved_tensors
    P = tanh_backward(attn_bar + output_bar @ v.mT, attn)
    return P @ k, P.mT @ q, attn.mT @ output_bar


def _save(ctx, inputs, output):
    ctx.save_for_backward(*inputs, output[1])


torch.library.register_autograd("gradparity_mutants::attn", _backward, setup_context=_save)

_PLAIN = ("forward", "vjp", "purity")

TRANSFORM_MUTANTS: dict[str, Mutant] = {
    "compiled_path": Mutant(_compiled_path, "another scale if compiled", "compile", (*_PLAIN, "fake", "make_fx")),
    "traced_path": Mutant(_traced_path, "another scale if traced", "make_fx", (*_PLAIN, "fake", "compile")),
    "transposed_without_values": Mutant(
        _transposed_without_values, "another shape on the device meta", "fake", (*_PLAIN, "make_fx", "compile")
    ),
    "half_under_autocast": Mutant(_half_under_autocast, "float16 for bfloat16", "autocast", (*_PLAIN, "compile")),
    "in_one_piece": Mutant(
        torch.ops.gradparity_mutants.attn.default, "outputs share memory", "opcheck", (*_PLAIN, "fake", "make_fx")
    ),
    "second_order_mixes_examples": Mutant(
        SecondOrderMixesExamples.apply, "vmap of second order", "functorch", ("vjp_of_vjp", "vmap")
    ),
    "detached_at_third_order": Mutant(
        DetachedAtThirdOrder.apply, "right to second order", "third_order", ("vjp_of_vjp",)
    ),
}
