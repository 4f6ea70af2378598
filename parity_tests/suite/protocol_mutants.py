"""Planted mistakes in attn that one right call does not show: state, memory, threads, cotangents of another size."""

from __future__ import annotations

from typing import ClassVar

import torch

from parity_tests.suite.mutants import Mutant
from torch_impl._attn_function import Attn


class Clipped(Attn):
    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        return Attn.backward(ctx, None if output_bar is None else output_bar.clamp(-100, 100), attn_bar)


class SmallSkipped(Attn):
    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        if attn_bar is not None and (attn_bar.abs() < 1e-2).all():
            attn_bar = None
        return Attn.backward(ctx, output_bar, attn_bar)


class ZeroOverZero(Attn):
    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        if output_bar is not None:
            output_bar = output_bar / output_bar.abs() * output_bar.abs()
        return Attn.backward(ctx, output_bar, attn_bar)


class StateOnTheClass(Attn):
    keys: ClassVar[torch.Tensor]

    @staticmethod
    def setup_context(ctx, inputs, output):
        Attn.setup_context(ctx, inputs, output)
        StateOnTheClass.keys = inputs[1]

    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        q_bar, k_bar, v_bar = Attn.backward(ctx, output_bar, attn_bar)
        if k_bar is not None:
            k_bar = k_bar * (ctx.saved_tensors[1] == StateOnTheClass.keys)
        return q_bar, k_bar, v_bar


class StackOnTheClass(Attn):
    """Right as long as the last call is the first to go backward."""

    pending: ClassVar[list] = []

    @staticmethod
    def setup_context(ctx, inputs, output):
        Attn.setup_context(ctx, inputs, output)
        if any(ctx.needs_input_grad):
            StackOnTheClass.pending.append(inputs[2])

    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        q, k, _, attn = ctx.saved_tensors
        if output_bar is None or attn_bar is None:
            return Attn.backward(ctx, output_bar, attn_bar)
        P = (attn_bar + output_bar @ StackOnTheClass.pending.pop().mT) * (1 - attn * attn)
        return P @ k, P.mT @ q, attn.mT @ output_bar


class FirstResultKept(Attn):
    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        if not hasattr(ctx, "kept"):
            ctx.kept = Attn.backward(ctx, output_bar, attn_bar)
        return tuple(None if g is None else g.clone() for g in ctx.kept)


class BufferReturned(Attn):
    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        gradients = Attn.backward(ctx, output_bar, attn_bar)
        if not hasattr(ctx, "buffers"):
            ctx.buffers = [None if g is None else torch.empty_like(g) for g in gradients]
        return tuple(None if g is None else buffer.copy_(g) for g, buffer in zip(gradients, ctx.buffers, strict=True))


class CacheReturned(Attn):
    """Remembers what it has returned, by its cotangents; the caller may have written to it since."""

    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        key = [None if w is None else w.tolist() for w in (output_bar, attn_bar)]
        ctx.cache = getattr(ctx, "cache", [])
        for known, gradients in ctx.cache:
            if known == key:
                return gradients
        ctx.cache.append((key, Attn.backward(ctx, output_bar, attn_bar)))
        return ctx.cache[-1][1]


class PrivateRandomness(Attn):
    """Random powers of two that cancel, if those on ctx and those in what is saved are of the same forward."""

    generator: ClassVar[torch.Generator] = torch.Generator().manual_seed(0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        Attn.setup_context(ctx, inputs, output)
        q, k, v = inputs
        ctx.scales = 2.0 ** torch.randint(-20, 20, q.shape[1:], generator=PrivateRandomness.generator).to(q)
        ctx.save_for_backward(q * ctx.scales, k, v, output[1])

    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        q_bar, k_bar, v_bar = Attn.backward(ctx, output_bar, attn_bar)
        return q_bar, None if k_bar is None else k_bar / ctx.scales, v_bar


class SavedTensorsReadTwice(Attn):
    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        gradients = Attn.backward(ctx, output_bar, attn_bar)
        return (*gradients[:2], None if output_bar is None else ctx.saved_tensors[3].mT @ output_bar)


class StridesRemembered(Attn):
    """What a kernel does that is handed the strides of its inputs."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        Attn.setup_context(ctx, inputs, output)
        ctx.strides = inputs[1].stride()

    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        q, k, v, attn = ctx.saved_tensors
        if output_bar is None or attn_bar is None:
            return Attn.backward(ctx, output_bar, attn_bar)
        P = (attn_bar + output_bar @ v.mT) * (1 - attn * attn)
        return P @ k.as_strided(k.shape, ctx.strides), P.mT @ q, attn.mT @ output_bar


class KeptOnCtx(Attn):
    @staticmethod
    def setup_context(ctx, inputs, output):
        Attn.setup_context(ctx, inputs, output)
        ctx.v = inputs[2]

    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        q, k, _, attn = ctx.saved_tensors
        if output_bar is None or attn_bar is None:
            return Attn.backward(ctx, output_bar, attn_bar)
        P = (attn_bar + output_bar @ ctx.v.mT) * (1 - attn * attn)
        return P @ k, P.mT @ q, attn.mT @ output_bar


class SavedPastTheVersionCounter(Attn):
    @staticmethod
    def setup_context(ctx, inputs, output):
        Attn.setup_context(ctx, inputs, output)
        ctx.save_for_backward(*(x.data for x in (*inputs, output[1])))


class OutputKeptOnCtx(Attn):
    """output -> its node -> ctx -> output: a cycle that only the garbage collector frees."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        Attn.setup_context(ctx, inputs, output)
        ctx.kept = output


class HistoryOnTheClass(Attn):
    history: ClassVar[list] = []

    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        gradients = Attn.backward(ctx, output_bar, attn_bar)
        HistoryOnTheClass.history.append(gradients[0])
        return gradients


class SharedWorkspace(Attn):
    """All calls compute the scores in one piece of memory, and copy them out of it."""

    workspace: ClassVar[dict] = {}

    @staticmethod
    def forward(q, k, v):
        shape = (q.shape[0], k.shape[0])
        scores = SharedWorkspace.workspace.setdefault((shape, q.dtype), q.new_empty(shape))
        attn = torch.mm(q, k.mT, out=scores).tanh_().clone()
        return attn @ v, attn


class RandomOrder(Attn):
    """output is added up in another order each time, as by atomic additions."""

    @staticmethod
    def forward(q, k, v):
        attn, order = torch.tanh(q @ k.mT), torch.randperm(k.shape[0])
        return attn[:, order] @ v[order], attn


_ONE_CALL = ("forward", "vjp", "vjp_partial", "purity")

PROTOCOL_MUTANTS: dict[str, Mutant] = {
    "clipped": Mutant(Clipped.apply, "the cotangent is clamped to [-100, 100]", "linearity", _ONE_CALL),
    "small_skipped": Mutant(SmallSkipped.apply, "a small cotangent is taken for zero", "linearity", _ONE_CALL),
    "zero_over_zero": Mutant(ZeroOverZero.apply, "NaN where a cotangent is zero", "linearity", _ONE_CALL),
    "state_on_the_class": Mutant(StateOnTheClass.apply, "k of the last call", "interleaved", _ONE_CALL),
    "stack_on_the_class": Mutant(StackOnTheClass.apply, "v of the last call left", "interleaved", ("forward", "vjp")),
    "first_result_kept": Mutant(FirstResultKept.apply, "one result for every cotangent", "retain_graph", _ONE_CALL),
    "buffer_returned": Mutant(BufferReturned.apply, "the next backward overwrites it", "retain_graph", _ONE_CALL),
    "cache_returned": Mutant(CacheReturned.apply, "what the caller wrote to comes back", "retain_graph", _ONE_CALL),
    "private_randomness": Mutant(
        PrivateRandomness.apply, "one half of the state on ctx", "checkpoint", (*_ONE_CALL, "saved_tensors", "in_place")
    ),
    "saved_tensors_read_twice": Mutant(
        SavedTensorsReadTwice.apply, "ctx.saved_tensors is read twice", "checkpoint", (*_ONE_CALL, "saved_tensors")
    ),
    "strides_remembered": Mutant(
        StridesRemembered.apply, "the strides that k had", "saved_tensors", (*_ONE_CALL, "layouts", "in_place")
    ),
    "kept_on_ctx": Mutant(KeptOnCtx.apply, "v is kept on ctx", "saved_tensors", (*_ONE_CALL, "retain_graph")),
    "saved_past_the_version_counter": Mutant(
        SavedPastTheVersionCounter.apply, "x.data is saved for x", "in_place", (*_ONE_CALL, "saved_tensors")
    ),
    "output_kept_on_ctx": Mutant(OutputKeptOnCtx.apply, "a cycle", "leaks", (*_ONE_CALL, "saved_tensors", "in_place")),
    "history_on_the_class": Mutant(HistoryOnTheClass.apply, "q_bar is never freed", "leaks", _ONE_CALL),
    "shared_workspace": Mutant(
        SharedWorkspace.apply, "threads share a workspace", "determinism", (*_ONE_CALL, "interleaved")
    ),
    "random_order": Mutant(
        RandomOrder.apply, "another order of summation each time", "determinism", (*_ONE_CALL, "interleaved")
    ),
}
