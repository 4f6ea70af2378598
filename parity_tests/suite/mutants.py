"""Planted mistakes in attn: right but for one thing, each with the check that must catch it, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.autograd import forward_ad

from torch_impl._attn_function import Attn

tanh_backward = torch.ops.aten.tanh_backward


@dataclass(frozen=True)
class Mutant:
    """A wrong implementation of attn.

    Attributes:
        call: the implementation.
        mistake: what is wrong with it.
        caught_by: the check that is there to catch it.
        passes: checks that it must pass, which shows that it is the one named that is needed.
        dtype: the dtype to judge it in.
    """

    call: Callable
    mistake: str
    caught_by: str
    passes: tuple[str, ...] = ("forward",)
    dtype: str = "float64"


class _Altered(Attn):
    """attn_function with its gradients altered: a mutant overrides `alter`, which has P, (9), and the gradients."""

    @staticmethod
    def alter(ctx, output_bar, attn_bar, q_bar, k_bar, v_bar):
        raise NotImplementedError

    @classmethod
    def backward(cls, ctx, output_bar, attn_bar):
        gradients = Attn.backward(ctx, output_bar, attn_bar)
        if None in gradients:
            return gradients
        return cls.alter(ctx, output_bar, attn_bar, *gradients)


class AttnBarDropped(Attn):
    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        return Attn.backward(ctx, output_bar, None if output_bar is not None else attn_bar)


class OutputBarDropped(Attn):
    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        return Attn.backward(ctx, None if attn_bar is not None else output_bar, attn_bar)


class OrForAnd(Attn):
    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        if output_bar is None or attn_bar is None:
            return None, None, None
        return Attn.backward(ctx, output_bar, attn_bar)


class UndefinedDereferenced(Attn):
    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        return Attn.backward(ctx, output_bar, attn_bar + 0)


class ReshapedForTransposed(_Altered):
    @staticmethod
    def alter(ctx, output_bar, attn_bar, q_bar, k_bar, v_bar):
        attn = ctx.saved_tensors[3]
        return q_bar, k_bar, attn.reshape(attn.shape[1], attn.shape[0]) @ output_bar


class WrongPower(Attn):
    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        q, k, v, attn = ctx.saved_tensors
        if output_bar is None or attn_bar is None:
            return Attn.backward(ctx, output_bar, attn_bar)
        P = (attn_bar + output_bar @ v.mT) * (1 - attn)
        return P @ k, P.mT @ q, attn.mT @ output_bar


class SignFlipped(_Altered):
    @staticmethod
    def alter(ctx, output_bar, attn_bar, q_bar, k_bar, v_bar):
        return q_bar, -k_bar, v_bar


class Halved(_Altered):
    @staticmethod
    def alter(ctx, output_bar, attn_bar, q_bar, k_bar, v_bar):
        return q_bar, k_bar / 2, v_bar


class LikeAnotherInput(_Altered):
    @staticmethod
    def alter(ctx, output_bar, attn_bar, q_bar, k_bar, v_bar):
        rows = min(q_bar.shape[0], k_bar.shape[0])
        filled = torch.zeros_like(q_bar)
        filled[:rows] = k_bar[:rows]
        return q_bar, filled, v_bar


class CotangentWritten(Attn):
    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        gradients = Attn.backward(ctx, output_bar, attn_bar)
        if attn_bar is not None:
            attn_bar.zero_()
        return gradients


class InputWritten(Attn):
    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        gradients = Attn.backward(ctx, output_bar, attn_bar)
        ctx.saved_tensors[1].data.zero_()  # through .data, which autograd's version counter does not see
        return gradients


class StatefulBackward(Attn):
    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        ctx.calls = getattr(ctx, "calls", 0) + 1
        gradients = Attn.backward(ctx, output_bar, attn_bar)
        return tuple(None if g is None else g * ctx.calls for g in gradients)


class SavedIntermediate(Attn):
    """1 - attn² is neither input nor output, so double backward does not see that it depends on q and k."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.set_materialize_grads(False)
        Attn.setup_context(ctx, inputs, output)
        ctx.derivative = 1 - output[1].detach() ** 2

    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        q, k, v, attn = ctx.saved_tensors
        if output_bar is None or attn_bar is None:
            return Attn.backward(ctx, output_bar, attn_bar)
        P = (attn_bar + output_bar @ v.mT) * ctx.derivative
        return P @ k, P.mT @ q, attn.mT @ output_bar


class WrongWhenBothAreDefined(Attn):
    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        gradients = Attn.backward(ctx, output_bar, attn_bar)
        if output_bar is None or attn_bar is None:
            return gradients
        return tuple(None if g is None else 2 * g for g in gradients)


class StridesIgnored(Attn):
    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        if output_bar is not None and not output_bar.is_contiguous():
            n, e = output_bar.shape
            if output_bar.untyped_storage().nbytes() >= output_bar.element_size() * n * e:
                output_bar = output_bar.as_strided((n, e), (e, 1), 0)
        return Attn.backward(ctx, output_bar, attn_bar)


class WrongForExpanded(Attn):
    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        gradients = Attn.backward(ctx, output_bar, attn_bar)
        if output_bar is not None and 0 in output_bar.stride() and output_bar.numel() > 0:
            return tuple(None if g is None else g / output_bar.shape[0] for g in gradients)
        return gradients


class TailRowsLeftOut(_Altered):
    @staticmethod
    def alter(ctx, output_bar, attn_bar, q_bar, k_bar, v_bar):
        blocks = min(q_bar.shape[0], 32)
        return (torch.cat([q_bar[:blocks], 0 * q_bar[blocks:]])), k_bar, v_bar


class NarrowAccumulator(Attn):
    """Adds up in the storage format: exact enough in float64, not in bfloat16."""

    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        q_bar, k_bar, v_bar = Attn.backward(ctx, output_bar, attn_bar)
        if output_bar is not None and v_bar is not None:
            attn = ctx.saved_tensors[3]
            v_bar = torch.zeros_like(v_bar)
            for row, cotangent in zip(attn, output_bar, strict=True):
                v_bar = v_bar + torch.outer(row, cotangent)
        return q_bar, k_bar, v_bar


class ComputedInFloat32(Attn):
    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        gradients = Attn.backward(ctx, output_bar, attn_bar)
        return tuple(None if g is None else g.float().to(g.dtype) for g in gradients)


class Clamped(Attn):
    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        return Attn.backward(ctx, None if output_bar is None else output_bar.clamp(-1, 1), attn_bar)


class AbsoluteCotangent(Attn):
    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        return Attn.backward(ctx, output_bar, None if attn_bar is None else attn_bar.abs())


class NanOnEmpty(_Altered):
    @staticmethod
    def alter(ctx, output_bar, attn_bar, q_bar, k_bar, v_bar):
        attn = ctx.saved_tensors[3]
        return q_bar + 0 * attn.mean(), k_bar, v_bar


class OneAsksForAnother(Attn):
    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        gradients = Attn.backward(ctx, output_bar, attn_bar)
        return gradients if ctx.needs_input_grad[0] else (None, None, gradients[2])


class JvpWithoutQ(Attn):
    @staticmethod
    def jvp(ctx, q_dot, k_dot, v_dot):
        return Attn.jvp(ctx, None, k_dot, v_dot)


class JvpWithoutV(Attn):
    @staticmethod
    def jvp(ctx, q_dot, k_dot, v_dot):
        return Attn.jvp(ctx, q_dot, k_dot, None)


class JvpScaled(Attn):
    @staticmethod
    def jvp(ctx, q_dot, k_dot, v_dot):
        return tuple(2 * t for t in Attn.jvp(ctx, q_dot, k_dot, v_dot))


class JvpDetached(Attn):
    """Right to first order; reverse over forward sees constants."""

    @staticmethod
    def jvp(ctx, q_dot, k_dot, v_dot):
        q, k, v, attn = ctx.saved_tensors
        q_dot, k_dot, v_dot = (
            torch.zeros_like(x) if x_dot is None else x_dot
            for x, x_dot in zip((q, k, v), (q_dot, k_dot, v_dot), strict=True)
        )
        T = q_dot @ k.mT + q @ k_dot.mT
        attn_dot = (1 - attn.detach() ** 2) * T
        return attn_dot @ v + attn @ v_dot, attn_dot


class BackwardDetached(Attn):
    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        gradients = Attn.backward(ctx, output_bar, attn_bar)
        return tuple(None if g is None else g - (g - g.detach()) for g in gradients)


class BackwardDropsTangents(Attn):
    """Right in every reverse order; forward over reverse loses the tangent of the saved output."""

    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        q, k, v, attn = ctx.saved_tensors
        if output_bar is None or attn_bar is None:
            return Attn.backward(ctx, output_bar, attn_bar)
        attn = forward_ad.unpack_dual(attn).primal if forward_ad._current_level >= 0 else attn
        P = tanh_backward(attn_bar + output_bar @ v.mT, attn)
        return P @ k, P.mT @ q, attn.mT @ output_bar


class OverwrittenInForwardMode(Attn):
    """P overwrites G whenever gradients are off, also while forward mode still needs G."""

    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        q, k, v, attn = ctx.saved_tensors
        if torch.is_grad_enabled() or output_bar is None or attn_bar is None:
            return Attn.backward(ctx, output_bar, attn_bar)
        G = attn_bar + output_bar @ v.mT
        P = G.addcmul_(G, attn, value=-1).addcmul_(G, attn)
        return P @ k, P.mT @ q, attn.mT @ output_bar


class VmapMixesExamples(Attn):
    generate_vmap_rule = False

    @staticmethod
    def vmap(info, in_dims, q, k, v):
        batch = [
            x.movedim(dim, 0) if dim is not None else x.expand(info.batch_size, *x.shape)
            for x, dim in zip((q, k, v), in_dims, strict=True)
        ]
        results = [Attn.apply(a, b, batch[2][0]) for a, b in zip(batch[0], batch[1], strict=True)]
        output, attn = (torch.stack(ys) for ys in zip(*results, strict=True))
        return (output, attn), (0, 0)


class DividedByAttn(Attn):
    """Right but where an entry of attn is 0."""

    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        q_bar, k_bar, v_bar = Attn.backward(ctx, output_bar, attn_bar)
        attn = ctx.saved_tensors[3]
        return q_bar if q_bar is None else q_bar * (attn / attn).prod(1, keepdim=True), k_bar, v_bar


class InfiniteSlopeOfNothing(Attn):
    """Right to first order everywhere: it adds 0 * sqrt(|attn|)."""

    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        q_bar, k_bar, v_bar = Attn.backward(ctx, output_bar, attn_bar)
        attn = ctx.saved_tensors[3]
        return q_bar if q_bar is None else q_bar + 0 * attn.abs().sqrt().sum(1, keepdim=True), k_bar, v_bar


class OneBitMore(Attn):
    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        q_bar, k_bar, v_bar = Attn.backward(ctx, output_bar, attn_bar)
        return q_bar if q_bar is None else torch.nextafter(q_bar, 2 * q_bar), k_bar, v_bar


def _sigmoid_for_tanh(q, k, v):
    attn = torch.sigmoid(q @ k.mT)
    return attn @ v, attn


def _unscaled_output(q, k, v):
    attn = torch.tanh(q @ k.mT)
    return attn @ v / max(1, k.shape[0]), attn


def _second_derivative_only(q, k, v):
    S = q @ k.mT
    attn = torch.tanh(S) + (S - S.detach()) ** 2 / 2  # the value and the first derivative of the square are zero
    return attn @ v, attn


_FIRST = ("forward", "vjp", "jvp")

MUTANTS: dict[str, Mutant] = {
    "sigmoid_for_tanh": Mutant(_sigmoid_for_tanh, "another activation", "forward", ()),
    "unscaled_output": Mutant(_unscaled_output, "a mean where a sum is meant", "forward", ()),
    "attn_bar_dropped": Mutant(
        AttnBarDropped.apply, "the second cotangent is dropped", "vjp", ("forward", "vjp_partial")
    ),
    "output_bar_dropped": Mutant(
        OutputBarDropped.apply, "the first cotangent is dropped", "vjp", ("forward", "vjp_partial")
    ),
    "or_for_and": Mutant(OrForAnd.apply, "`or` for `and` on undefined cotangents", "vjp_partial", _FIRST),
    "undefined_dereferenced": Mutant(
        UndefinedDereferenced.apply, "an undefined cotangent is used", "vjp_partial", _FIRST
    ),
    "reshaped_for_transposed": Mutant(ReshapedForTransposed.apply, "reshape(m, n) for a transpose", "vjp"),
    "wrong_power": Mutant(WrongPower.apply, "1 - a for 1 - a²", "vjp", ("forward", "jvp")),
    "sign_flipped": Mutant(SignFlipped.apply, "the sign of k_bar", "vjp"),
    "halved": Mutant(Halved.apply, "a factor 1/2 in k_bar", "vjp"),
    "like_another_input": Mutant(LikeAnotherInput.apply, "k_bar is allocated like q", "vjp"),
    "clamped": Mutant(Clamped.apply, "the cotangent is clamped to [-1, 1]", "vjp"),
    "absolute_cotangent": Mutant(AbsoluteCotangent.apply, "|g| for g", "vjp"),
    "wrong_when_both_are_defined": Mutant(
        WrongWhenBothAreDefined.apply, "wrong only when both cotangents are defined", "vjp", ("forward", "vjp_partial")
    ),
    "tail_rows_left_out": Mutant(TailRowsLeftOut.apply, "the rows beyond the last block of 32 are zero", "vjp"),
    "nan_on_empty": Mutant(NanOnEmpty.apply, "a mean over an empty axis", "vjp"),
    "computed_in_float32": Mutant(ComputedInFloat32.apply, "float64 gradients computed in float32", "vjp"),
    "narrow_accumulator": Mutant(NarrowAccumulator.apply, "v_bar adds up in bfloat16", "vjp", dtype="bfloat16"),
    "divided_by_attn": Mutant(DividedByAttn.apply, "0 / 0 where attn is 0", "points", ("forward", "vjp_partial")),
    "infinite_slope_of_nothing": Mutant(
        InfiniteSlopeOfNothing.apply, "0 * infinity where attn is 0", "points_second_order", ("vjp_of_vjp", "points")
    ),
    "one_bit_more": Mutant(OneBitMore.apply, "the last bit of q_bar", "exact", (*_FIRST, "points")),
    "one_asks_for_another": Mutant(OneAsksForAnother.apply, "k_bar only if q asks", "input_subsets", _FIRST),
    "strides_ignored": Mutant(StridesIgnored.apply, "a strided cotangent read as contiguous", "layouts", _FIRST),
    "wrong_for_expanded": Mutant(WrongForExpanded.apply, "wrong for stride-0 cotangents", "layouts", _FIRST),
    "cotangent_written": Mutant(CotangentWritten.apply, "a cotangent is written to", "purity", _FIRST),
    "input_written": Mutant(InputWritten.apply, "an input is written to", "purity", _FIRST),
    "stateful_backward": Mutant(StatefulBackward.apply, "the second backward differs", "purity", _FIRST),
    "saved_intermediate": Mutant(SavedIntermediate.apply, "1 - a² is saved", "vjp_of_vjp", _FIRST),
    "backward_detached": Mutant(BackwardDetached.apply, "a detached gradient", "vjp_of_vjp", _FIRST),
    "backward_drops_tangents": Mutant(
        BackwardDropsTangents.apply, "the saved output loses its tangent", "jvp_of_vjp", (*_FIRST, "vjp_of_vjp")
    ),
    "overwritten_in_forward_mode": Mutant(
        OverwrittenInForwardMode.apply, "G is overwritten in forward mode", "jvp_of_vjp", (*_FIRST, "vjp_of_vjp")
    ),
    "jvp_without_q": Mutant(JvpWithoutQ.apply, "the term q_dot kᵀ is missing", "jvp", ("forward", "vjp")),
    "jvp_without_v": Mutant(JvpWithoutV.apply, "the term A v_dot is missing", "jvp", ("forward", "vjp")),
    "jvp_scaled": Mutant(JvpScaled.apply, "the JVP is twice the VJP's transpose", "adjoint", ("forward", "vjp")),
    "jvp_detached": Mutant(JvpDetached.apply, "1 - a² is detached in the JVP", "vjp_of_jvp", (*_FIRST, "vjp_of_vjp")),
    "second_derivative_only": Mutant(_second_derivative_only, "the second derivative only", "jvp_of_jvp", _FIRST),
    "vmap_mixes_examples": Mutant(VmapMixesExamples.apply, "vmap uses the first example's v for all", "vmap", _FIRST),
}
