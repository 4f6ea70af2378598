"""How PyTorch, or the author of a candidate, says "not supported": the errors that are refusals and no mistakes."""

from __future__ import annotations

import re

# What the author of a `torch.autograd.Function` declares by leaving it out (or by marking it): a rule that was never
# written cannot be wrong; and what PyTorch cannot do for anybody. Each is known by PyTorch's own words.
_DECLARED = (
    (
        "has no jvp staticmethod, nor has anything that is compiled: AOTAutograd makes none",
        r"You must implement the jvp function for custom autograd\.Function",
    ),
    ("its backward is marked once_differentiable", r"marked with @once_differentiable"),
    ("has no setup_context staticmethod, so torch.func cannot use it", r"override the setup_context staticmethod"),
    ("has no vmap rule (generate_vmap_rule or a vmap staticmethod)", r"does not have vmap support"),
    ("is compiled: AOTAutograd has no double backward", r"aot_autograd does not currently support double backward"),
    ("was compiled before, with donated buffers, for one backward only", r"compiled with non-empty donated buffers"),
    ("has no fake kernel (torch.library.register_fake)", r"no fake impl registered"),
    ("goes through torch.func, which has no saved-tensor hooks yet", r"don't yet support saved tensor hooks"),
)
# What PyTorch cannot trace, for anybody: values that decide over shapes or branches, and code outside of PyTorch.
_UNTRACEABLE = (
    r"^(Unsupported|InternalTorchDynamoError|GuardOnDataDependentSymNode|PendingUnbackedSymbolNotFound): ",
    r"^(DataDependentOutput|DynamicOutputShape|UnsupportedOperator|UnsupportedFakeTensor)Exception: ",
    r"\.numpy\(\) is not supported for tensor subclasses",
    r"can't convert meta device type tensor to numpy",
    r"Tensor\.item\(\) cannot be called on meta tensors",
    r"Cannot copy out of meta tensor",
    r"Cannot access data pointer of Tensor",
    r"unknown device type for autocast",
    r"vmap: It looks like you're",
    r"using FX to symbolically trace a dynamo-optimized function",
    r"a correct data-independent implementation does not exist",
    r"from the 'Meta' backend",
)
# What PyTorch's own operators lack: a kernel for a format, forward mode, a derivative of a gradient, a batching rule.
_LACKING = (
    r"not implemented for '(Half|BFloat16|ComplexDouble|ComplexFloat)'",
    r"does not support (automatic differentiation for outputs with )?complex",
    r"Low precision dtypes not supported",
    r"Unsupported dtype (Half|BFloat16)",
    r"expected a tensor with 2 or more dimensions of float, double",
    r"Trying to use forward AD with .* that does not support it",
    r"derivative for (aten::|')\w+_backward'? is not implemented",
    r"Batching rule not implemented",
)
# An operator without any derivative, or a kernel that is lacking altogether.
_REFUSED = (
    r"derivative for .* is not implemented",
    r"no autograd formula was registered",
    r"not implemented for '(Double|Float)'",
)
NESTED_FORWARD = (
    "PyTorch turns forward AD off while a torch.autograd.Function's jvp runs, so that a JVP of a JVP is silently wrong "
    "(pytorch/pytorch#197867)"
)


class Refused(Exception):
    """The candidate refuses a map with a clear error.

    `declared`: its author said so, by PyTorch's own means, or it is PyTorch that lacks something.
    """

    def __init__(self, reason: str, declared: bool) -> None:
        super().__init__(reason)
        self.declared = declared


class BadOutput(TypeError):
    """The candidate returns something that is not a tensor or a tuple of tensors, or a wrong number of them."""


class refusals:
    """Turns the errors by which PyTorch, or a candidate, says "not supported" into `Refused`."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind, error: BaseException | None, traceback) -> None:
        refusal = None if error is None else refusal_of(error)
        if refusal is not None:
            raise refusal from error


def refusal_of(error: BaseException) -> Refused | None:
    """What an error says, if it says "not supported"."""
    if not isinstance(error, RuntimeError | TypeError) or isinstance(error, BadOutput):
        return None
    text = str(error)
    for reason, pattern in _DECLARED:
        if re.search(pattern, text):
            return Refused(reason, declared=True)
    named = f"{type(error).__name__}: {text}"
    first_line = named.splitlines()[0]
    if any(re.search(pattern, named) for pattern in (*_UNTRACEABLE, *_LACKING)):
        return Refused(first_line, declared=True)
    if isinstance(error, NotImplementedError) or any(re.search(pattern, text) for pattern in _REFUSED):
        return Refused(first_line, declared=False)
    return None
