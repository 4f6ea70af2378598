"""Functions that save in every way there is: some keep a value that is neither input nor output."""

from __future__ import annotations

import functools

import torch

Function = torch.autograd.Function
TABLE = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
LATEST: dict[str, torch.Tensor] = {}


# right


class SavesInput(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, y_bar):
        (x,) = ctx.saved_tensors
        return y_bar * torch.cos(x)


class SavesOutputByAnotherName(Function):
    @staticmethod
    def forward(ctx, x):
        t = torch.tanh(x)
        result = t
        kept = result
        ctx.save_for_backward(kept)
        return t

    @staticmethod
    def backward(ctx, y_bar):
        (a,) = ctx.saved_tensors
        b = a
        return y_bar * (1 - b * b)


class NewStyle(Function):
    @staticmethod
    def forward(x):
        return torch.exp(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.scale = 1.0

    @staticmethod
    def backward(ctx, y_bar):
        return y_bar * ctx.saved_tensors[0] * ctx.scale


class TwoOutputs(Function):
    @staticmethod
    def forward(x):
        s = torch.sin(x)
        return s * x, s

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        _, s = output
        ctx.save_for_backward(x, s)

    @staticmethod
    def backward(ctx, y_bar, s_bar):
        x, s = ctx.saved_tensors
        return y_bar * s + (y_bar * x + s_bar) * torch.cos(x)


class SavesMask(Function):
    """A step function has the derivative zero, so that it may be kept."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x, x > 0)
        return torch.where(x > 0, x * x, 3 * x)

    @staticmethod
    def backward(ctx, y_bar):
        x, mask = ctx.saved_tensors
        return torch.where(mask, 2 * x, torch.full_like(x, 3.0)) * y_bar


class KeepsShape(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.shape, ctx.size = x.shape, len(x)
        return x.sum() / len(x)

    @staticmethod
    def backward(ctx, y_bar):
        return (y_bar / ctx.size).expand(ctx.shape)


class ComputesAgain(Function):
    """The intermediate is used where no gradients are recorded."""

    @staticmethod
    def forward(ctx, x):
        c = torch.cos(x)
        ctx.save_for_backward(x)
        ctx.c = c
        return torch.sin(x)

    @staticmethod
    def backward(ctx, y_bar):
        (x,) = ctx.saved_tensors
        if torch.is_grad_enabled():  # noqa: SIM108 (that is another case)
            c = torch.cos(x)
        else:
            c = ctx.c
        return y_bar * c


class ComputesAgainInOneLine(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x, torch.cos(x))
        return torch.sin(x)

    @staticmethod
    def backward(ctx, y_bar):
        x, c = ctx.saved_tensors
        return y_bar * (torch.cos(x) if torch.is_grad_enabled() else c)


class SavedAndNotUsed(Function):
    @staticmethod
    def forward(ctx, x):
        c = torch.cos(x)
        ctx.save_for_backward(x, c)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, y_bar):
        x, _ = ctx.saved_tensors
        return y_bar * torch.cos(x)


class Dirty(Function):
    """Written to and returned: what is saved is the output."""

    @staticmethod
    def forward(ctx, x):
        y = x.clone()
        y.sigmoid_()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, y_bar):
        (y,) = ctx.saved_tensors
        return y_bar * y * (1 - y)


class UsesTable(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(TABLE * x)

    @staticmethod
    def backward(ctx, y_bar):
        (x,) = ctx.saved_tensors
        return y_bar * TABLE * torch.cos(TABLE * x)


class ExtraOutput(Function):
    """The fix that is suggested: the intermediate as one more output, with its own gradient."""

    @staticmethod
    def forward(ctx, x):
        s, c = torch.sin(x), torch.cos(x)
        ctx.save_for_backward(s, c)
        return s, c

    @staticmethod
    def backward(ctx, s_bar, c_bar):
        s, c = ctx.saved_tensors
        return s_bar * c - c_bar * s


def _slope(x):
    return torch.cos(x)


class CallsHelpers(Function):
    @staticmethod
    def forward(ctx, *inputs):
        _keep(ctx, *inputs)
        return torch.sin(inputs[0])

    @staticmethod
    def backward(ctx, *y_bars):
        return tuple(y_bar * _slope(x) for x, y_bar in zip(ctx.saved_tensors, y_bars, strict=True))


class AnyNumberOfInputs(Function):
    @staticmethod
    def forward(*inputs):
        return torch.sin(inputs[0])

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, *y_bars):
        return y_bars[0] * torch.cos(ctx.saved_tensors[0])


def _keep(ctx, *tensors):
    ctx.save_for_backward(*tensors)


# wrong


class SavesIntermediate(Function):
    @staticmethod
    def forward(ctx, x):
        slope = torch.cos(x)
        ctx.save_for_backward(slope)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, y_bar):
        (slope,) = ctx.saved_tensors
        return y_bar * slope


class KeepsOnCtx(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.slope = torch.cos(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, y_bar):
        return y_bar * ctx.slope


class InSetupContext(Function):
    @staticmethod
    def forward(x):
        return torch.tanh(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, 1 - output * output)

    @staticmethod
    def backward(ctx, y_bar):
        _, slope = ctx.saved_tensors
        return slope * y_bar


class Closure(Function):
    @staticmethod
    def forward(ctx, x):
        slope = torch.cos(x)

        def pull(y_bar):
            return y_bar * slope

        ctx.pull = pull
        return torch.sin(x)

    @staticmethod
    def backward(ctx, y_bar):
        return ctx.pull(y_bar)


def _times(slope, y_bar):
    return slope * y_bar


class Partial(Function):
    @staticmethod
    def forward(ctx, x):
        slope = torch.cos(x)
        ctx.pull = functools.partial(_times, slope)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, y_bar):
        return ctx.pull(y_bar)


class Global(Function):
    @staticmethod
    def forward(ctx, x):
        LATEST["slope"] = torch.cos(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, y_bar):
        return y_bar * LATEST["slope"]


class Unpacked(Function):
    @staticmethod
    def forward(ctx, x):
        (s, c), n = (torch.sin(x), torch.cos(x)), len(x)
        ctx.save_for_backward(x, *(s, c))
        ctx.n = n
        return s * x

    @staticmethod
    def backward(ctx, y_bar):
        x, *others = ctx.saved_tensors
        _, c = others
        return y_bar * (torch.sin(x) + x * c)


class Renamed(Function):
    @staticmethod
    def forward(ctx, x):
        a = torch.cos(x)
        b = a
        ctx.save_for_backward(b)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, y_bar):
        saved = ctx.saved_tensors
        d = saved[0]
        return y_bar * d


class Detached(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.detach())
        return torch.sin(x)

    @staticmethod
    def backward(ctx, y_bar):
        (x,) = ctx.saved_tensors
        return y_bar * torch.cos(x)


class DetachedInBackward(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, y_bar):
        (x,) = ctx.saved_tensors
        return y_bar * torch.cos(x.detach())


class NoGrad(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, y_bar):
        (x,) = ctx.saved_tensors
        with torch.no_grad():
            slope = torch.cos(x)
        return y_bar * slope


class Filled(Function):
    """Made with the shape of x alone, and then filled with values of it."""

    @staticmethod
    def forward(ctx, x):
        slope = torch.empty_like(x)
        torch.cos(x, out=slope)
        ctx.save_for_backward(slope)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, y_bar):
        (slope,) = ctx.saved_tensors
        return y_bar * slope


class Number(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.total = x.sum().item()
        return x * x.sum()

    @staticmethod
    def backward(ctx, y_bar):
        (x,) = ctx.saved_tensors
        return y_bar * ctx.total + (y_bar * x).sum()


class InOneBranch(Function):
    @staticmethod
    def forward(ctx, x):
        if x.numel() > 2:  # noqa: SIM108 (that is another case)
            kept = torch.cos(x)
        else:
            kept = x
        ctx.save_for_backward(kept)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, y_bar):
        (kept,) = ctx.saved_tensors
        return y_bar * (kept if kept.numel() > 2 else torch.cos(kept))


class OtherStep(Function):
    """Where it must be fine is where nothing is recorded, and not where it is."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.c = torch.cos(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, y_bar):
        (x,) = ctx.saved_tensors
        if not torch.is_grad_enabled():
            return y_bar * torch.cos(x)
        return y_bar * ctx.c


RIGHT = {
    "an input": SavesInput,
    "an output by another name": SavesOutputByAnotherName,
    "setup_context": NewStyle,
    "two outputs": TwoOutputs,
    "a mask": SavesMask,
    "a shape": KeepsShape,
    "computed again": ComputesAgain,
    "computed again, in one line": ComputesAgainInOneLine,
    "not used": SavedAndNotUsed,
    "written to and returned": Dirty,
    "a table": UsesTable,
    "one more output": ExtraOutput,
    "helpers": CallsHelpers,
    "any number of inputs": AnyNumberOfInputs,
}

AGAIN = "save x and compute it in the backward"

WRONG = {
    "save_for_backward": (SavesIntermediate, "slope", AGAIN),
    "ctx attribute": (KeepsOnCtx, "ctx.slope", AGAIN),
    "setup_context": (InSetupContext, "slope", AGAIN),
    "closure": (Closure, "slope", AGAIN),
    "partial": (Partial, "slope", AGAIN),
    "global": (Global, "LATEST", "ctx.save_for_backward"),
    "unpacked": (Unpacked, "c", AGAIN),
    "renamed": (Renamed, "d", AGAIN),
    "detached": (Detached, "x", "save x itself"),
    "detached in the backward": (DetachedInBackward, "x.detach()", "leave it in the graph"),
    "no_grad": (NoGrad, "slope", "leave it in the graph"),
    "filled": (Filled, "slope", AGAIN),
    "number": (Number, "ctx.total", AGAIN),
    "in one branch": (InOneBranch, "kept", AGAIN),
    "where gradients are recorded": (OtherStep, "ctx.c", AGAIN),
}
