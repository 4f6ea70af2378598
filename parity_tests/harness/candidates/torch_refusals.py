"""The errors by which PyTorch, or the author of a candidate, says "not supported": refusals, not mistakes."""

from __future__ import annotations

import dis
import re
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import torch

from parity_tests.harness.exceptions.defects import message_of

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
    (
        "has no fake kernel (torch.library.register_fake)",
        r"no fake impl (or Meta kernel )?registered|^UnsupportedOperatorException: (?!(aten|prims)\.)",
    ),
    ("goes through torch.func, which has no saved-tensor hooks yet", r"don't yet support saved tensor hooks"),
)
# Where PyTorch traces. The rest of torch/_functorch is torch.func, whose errors are mostly about what it was given.
_TRACERS = ("_dynamo/", "fx/", "_functorch/_aot_autograd/", "_functorch/aot_autograd.py", "_functorch/partitioners.py")
# What PyTorch cannot trace, for anybody: values that decide over shapes or branches, and code outside of PyTorch.
_UNTRACEABLE = (
    r"^InternalTorchDynamoError: ",
    r"^(DataDependentOutput|DynamicOutputShape|UnsupportedOperator|UnsupportedFakeTensor)Exception: ",
    r"\.numpy\(\) is not supported for tensor subclasses",
    r"can't convert meta device type tensor to numpy",
    r"Tensor\.item\(\) cannot be called on meta tensors",
    r"Cannot copy out of meta tensor",
    r"Cannot access data pointer of Tensor",
    r"unknown device type for autocast",
    r"vmap: It looks like you're",
    r"a correct data-independent implementation does not exist",
    r"vmap over torch\.\w+ isn't supported yet",
    r"Creating a new Tensor subclass .* already associated to a python object of type FakeTensor",
    r"from the 'Meta' backend",
)
# The same from C++ code that PyTorch does not dispatch, such as what pybind11 binds. In eager mode these words are said
# of memory that was freed, which is a mistake.
_WITHOUT_VALUES = (r"its data is not allocated yet",)
# What PyTorch's own operators lack: a kernel for a format, a fake kernel, forward mode, a derivative, a batching rule.
# PyTorch's derivatives.yaml quotes the name of what it has no derivative of; other operators come with their namespace.
_LACKING = (
    r"not implemented for '(Half|BFloat16|ComplexDouble|ComplexFloat)'",
    r"does not support (automatic differentiation for outputs with )?complex",
    r"Low precision dtypes not supported",
    r"Unsupported dtype (Half|BFloat16)",
    r"input tensor must be either float or double dtype",
    r"expected a tensor with 2 or more dimensions of float, double",
    r"Trying to use forward AD with .* that does not support it",
    r"derivative for ((aten|prims)::[\w.]+|'[^']+') is not implemented",
    r"(aten|prims)::[\w.]+: attempted to run this operator with Meta tensors",
    r"[Bb]atching rule not implemented|does not yet have a batching rule",
    r"batching rule (only supports|does not currently support)",
    r"vmap: ([Ww]e do not|Attempted to vmap over|Calling Tensor\.as_strided is not supported)",
    r"vmap: .* is not possible because there exists a Tensor",
    r"Batch norm got a batched tensor as input while the running_mean",
    r"[Cc]ould not find kernel for HigherOrderOperator|There was no rule registered for (HOP|HigherOrderOperator)",
)
# An operator of the author's without any derivative, or a kernel that is lacking altogether.
_REFUSED = (
    r"derivative for .* is not implemented",
    r"no autograd formula was registered",
    r"not implemented for '(Double|Float)'",
)
# Of a batch that is written to what is not batched, such as a module's buffer, add_ alone says no more than this.
_BATCH_ADDED_IN_PLACE = r"output with shape \[(.*)\] doesn't match the broadcast shape \[\d+, \1\]"
# Of a Triton kernel under TRITON_INTERPRET, which a GPU would launch without reading anything.
_TRITON_INTERPRETER = "triton/runtime/interpreter.py"
_OF_FAKE_TENSORS = r"on device \"meta\"|[Ff]ake ?[Tt]ensor"
_NAMES_GRAD_AND_BACKWARD = r"(?s)\A(?=.*\bgrad\b).*\.backward\(\)"
NESTED_FORWARD = (
    "PyTorch turns forward AD off while a torch.autograd.Function's jvp runs, so that a JVP of a JVP is silently wrong "
    "(pytorch/pytorch#197867)"
)


# PyTorch's words for two dtypes where it takes one.
_TWO_DTYPES = (
    r"same (scalar |d)type|expected scalar type|dtypes? .*match|to have the same .*type|should be the same|"
    r"equal to src\.dtype|mixed dtype|have dtype|arguments? .* dtype"
)


class Refused(Exception):
    """Raised when a candidate refuses a map with a clear error.

    Attributes:
        declared: True if its author declared this by PyTorch's own means, or PyTorch itself lacks something.
    """

    def __init__(self, reason: str, declared: bool) -> None:
        super().__init__(reason)
        self.declared = declared


class BackwardOnly(Refused):
    """Raised when a backward refuses `torch.autograd.grad` on purpose, in words that name `.backward()`.

    PyTorch's reentrant checkpoint does, and what is made like it: within its backward it runs another one, by which the
    gradients of what the forward closes over are accumulated, whatever `grad` was asked for.
    """


class BadOutput(TypeError):
    """Raised when a candidate returns something other than a tensor or a tuple of tensors, or too few or too many."""


class refusals:
    """Turn the errors by which PyTorch, or a candidate, says "not supported" into `Refused`.

    `without_values`: are all tensors fake, or on the device meta?
    """

    def __init__(self, without_values: bool = False) -> None:
        self._without_values = without_values

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind, error: BaseException | None, traceback) -> None:
        refusal = None if error is None else refusal_of(error, self._without_values)
        if refusal is not None:
            raise refusal from error


def has_two_dtypes(error: BaseException) -> bool:
    """True for an error by which PyTorch says that it takes no tensors of two dtypes together."""
    return isinstance(error, RuntimeError) and bool(re.search(_TWO_DTYPES, message_of(error)))


def refusal_of(error: BaseException, without_values: bool = False) -> Refused | None:
    """Return the `Refused` for an error that says "not supported", and None for any other error."""
    if not isinstance(error, Exception) or isinstance(error, BadOutput | Refused):
        return None
    named = f"{type(error).__name__}: {message_of(error)}"
    first_line = named.splitlines()[0]
    if re.search(_OF_FAKE_TENSORS, named) and any(file.endswith(_TRITON_INTERPRETER) for file, *_ in _frames(error)):
        return Refused("Triton's interpreter computes with values, which fake tensors do not have", declared=True)
    if isinstance(error, RuntimeError | TypeError):
        untraceable = (*_UNTRACEABLE, *_WITHOUT_VALUES) if without_values else _UNTRACEABLE
        if any(re.search(pattern, named) for pattern in _LACKING):
            return Refused(first_line, declared=True)
        for reason, pattern in _DECLARED:
            if re.search(pattern, named):
                return Refused(reason, declared=True)
        if any(re.search(pattern, named) for pattern in untraceable):
            return Refused(first_line, declared=True)
        if re.search(_NAMES_GRAD_AND_BACKWARD, named) and _instruction_that_raised(error) == "RAISE_VARARGS":
            return BackwardOnly(f"runs under .backward() only: {first_line}", declared=True)
        if re.search(_BATCH_ADDED_IN_PLACE, named) and _is_vmapped(error):
            return Refused(f"vmap: adds a batch to a tensor without one, in place: {first_line}", declared=True)
    tracer = _tracer_that_raised(error)
    if tracer is not None:
        return Refused(f"PyTorch's tracer gives up (torch/{tracer}): {first_line}", declared=True)
    if isinstance(error, NotImplementedError) or (
        isinstance(error, RuntimeError | TypeError) and any(re.search(pattern, named) for pattern in _REFUSED)
    ):
        return Refused(first_line, declared=False)
    return None


def _tracer_that_raised(error: Exception) -> str | None:
    """The file of PyTorch's tracer that an error comes from, relative to `torch`; None if it comes from elsewhere.

    The innermost frame tells: an error in the candidate's code has its own frame there while it is traced, too. Where
    that frame is in the middle of a call, the error is not the tracer's but that of C++ code that it has called for the
    candidate, such as a product of matrices that do not fit; and a TorchRuntimeError says that such a call failed.
    C++ code also runs where Python reads an attribute or applies an operator: what a compiled backward has saved is
    checked for writes in place when it is read. Of Python's own instructions only `raise` makes a RuntimeError.
    """
    instruction = _instruction_that_raised(error)
    if not instruction or type(error).__name__ == "TorchRuntimeError":
        return None
    *_, (file, _, _) = _frames(error)
    if instruction.startswith("CALL"):
        return None
    if isinstance(error, RuntimeError) and instruction not in ("RAISE_VARARGS", "RERAISE"):
        return None
    return file if file.startswith(_TRACERS) else None


def _instruction_that_raised(error: Exception) -> str:
    """The name of the instruction of the innermost frame of Python at which an error was raised; empty without one."""
    code, offset = next(((code, offset) for _, code, offset in reversed([*_frames(error)])), (None, 0))
    return "" if code is None else dis.opname[code.co_code[offset]]


def _is_vmapped(error: Exception) -> bool:
    """True for an error of code that `torch.func.vmap` calls with a batch, and that is no vmap rule of the author's."""
    files = [(file, code.co_name) for file, code, _ in _frames(error)]
    start = max((i for i, (file, _) in enumerate(files) if file == "_functorch/vmap.py"), default=None)
    return start is not None and all(name != "vmap" for _, name in files[start + 1 :])


def _frames(error: Exception) -> Iterator[tuple[str, CodeType, int]]:
    """The frames of an error, the innermost last: its file, relative to `torch` where it can be, code, instruction."""
    root, trace = Path(torch.__file__).parent, error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        path = Path(code.co_filename)
        yield path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path), code, trace.tb_lasti
        trace = trace.tb_next
