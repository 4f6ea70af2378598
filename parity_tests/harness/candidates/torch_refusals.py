"""The errors by which PyTorch, or the author of a candidate, says "not supported": refusals, not mistakes."""

from __future__ import annotations

import dis
import os
import re
from collections.abc import Iterator
from pathlib import Path
from traceback import walk_tb
from types import CodeType, GeneratorType, TracebackType

import torch

from parity_tests.harness.candidates.inplace_writes import WRITTEN
from parity_tests.harness.candidates.reasons import Reason
from parity_tests.harness.candidates.reasons import Refused as Refused
from parity_tests.harness.exceptions.defects import message_of
from parity_tests.harness.exceptions.from_solution import FromSolution

# What the author of a `torch.autograd.Function` declares by leaving it out (or by marking it): a rule that was never
# written cannot be wrong; and what PyTorch cannot do for anybody. Each is known by PyTorch's own words, in the order of
# these lines, and told in ours where there are any, else in PyTorch's. `reasons.py` has what each of them excuses.
_HALF = r"(Half|BFloat16|ComplexDouble|ComplexFloat)"
_WORDS: tuple[tuple[Reason, str, tuple[str, ...]], ...] = (
    (
        Reason.FORMAT,
        "",
        (
            rf"not implemented for '{_HALF}'",
            r"does not support (automatic differentiation for outputs with )?complex",
            r"Low precision dtypes not supported",
            r"Unsupported dtype (Half|BFloat16)",
            r"input tensor must be either float or double dtype",
            r"expected a tensor with 2 or more dimensions of float, double",
        ),
    ),
    (Reason.NO_FORWARD_MODE, "", (r"Trying to use forward AD with .* that does not support it",)),
    # PyTorch's derivatives.yaml quotes the name of what it has no derivative of; other operators have their namespace.
    (Reason.NO_DERIVATIVE, "", (r"derivative for ((aten|prims)::[\w.]+|'[^']+') is not implemented",)),
    (Reason.NO_META_KERNEL, "", (r"(aten|prims)::[\w.]+: attempted to run this operator with Meta tensors",)),
    (
        Reason.NO_BATCHING_RULE,
        "",
        (
            r"[Bb]atching rule not implemented|does not yet have a batching rule",
            r"batching rule (only supports|does not currently support)",
            r"vmap: ([Ww]e do not|Attempted to vmap over|Calling Tensor\.as_strided is not supported)",
            r"vmap: It looks like you're",
            r"vmap: .* is not possible because there exists a Tensor",
            r"vmap over torch\.\w+ isn't supported yet",
            r"Batch norm got a batched tensor as input while the running_mean",
        ),
    ),
    (Reason.INTERNAL, "", (r"INTERNAL ASSERT FAILED at ",)),
    (
        Reason.NO_RULE_OF_HIGHER_ORDER,
        "",
        (
            r"[Cc]ould not find kernel for HigherOrderOperator",
            r"There was no rule registered for (HOP|HigherOrderOperator)",
        ),
    ),
    (
        Reason.NO_JVP,
        "defines no jvp staticmethod, and AOTAutograd generates none",
        (r"You must implement the jvp function for custom autograd\.Function",),
    ),
    (
        Reason.NO_SECOND_DERIVATIVE,
        "its backward is a Function without a backward",
        (r"You must implement either the backward or vjp method",),
    ),
    (Reason.ONCE_DIFFERENTIABLE, "its backward is marked once_differentiable", (r"marked with @once_differentiable",)),
    (
        Reason.NO_SETUP_CONTEXT,
        "has no setup_context staticmethod, so torch.func cannot use it",
        (r"override the setup_context staticmethod",),
    ),
    (
        Reason.NO_VMAP_RULE,
        "has no vmap rule (generate_vmap_rule or a vmap staticmethod)",
        (r"does not have vmap support",),
    ),
    (
        Reason.COMPILED_ONCE,
        "is compiled: AOTAutograd has no double backward",
        (r"aot_autograd does not currently support double backward",),
    ),
    (
        Reason.DONATED_BUFFERS,
        "was compiled before, with donated buffers, for one backward only",
        (r"compiled with non-empty donated buffers",),
    ),
    (
        Reason.NO_FAKE_KERNEL,
        "has no fake kernel (torch.library.register_fake)",
        (r"no fake impl (or Meta kernel )?registered|^UnsupportedOperatorException: (?!(aten|prims)\.)",),
    ),
    (
        Reason.SAVED_TENSOR_HOOKS,
        "goes through torch.func, which has no saved-tensor hooks yet",
        (r"don't yet support saved tensor hooks",),
    ),
    # What PyTorch cannot trace, for anybody: values that decide over shapes or branches, and code outside of PyTorch.
    (
        Reason.UNTRACEABLE,
        "",
        (
            r"^InternalTorchDynamoError: ",
            r"^(DataDependentOutput|DynamicOutputShape|UnsupportedOperator|UnsupportedFakeTensor)Exception: ",
            r"can't convert meta device type tensor to numpy",
            r"Tensor\.item\(\) cannot be called on meta tensors",
            r"Cannot copy out of meta tensor",
            r"unknown device type for autocast",
            r"a correct data-independent implementation does not exist",
            r"Creating a new Tensor subclass .* already associated to a python object of type FakeTensor",
            r"from the 'Meta' backend",
            r"autograd_registration_check: NYI devices other than",  # of torch.library.opcheck
        ),
    ),
    (
        Reason.WITHOUT_VALUES,
        "",
        (r"\.numpy\(\) is not supported for tensor subclasses", r"Cannot access data pointer of Tensor"),
    ),
)
# The same from C++ code that PyTorch does not dispatch, such as what pybind11 binds. In eager mode these words are said
# of memory that was freed, which is a mistake.
_NOT_ALLOCATED = (Reason.WITHOUT_VALUES, "", (r"its data is not allocated yet",))
# An operator of the author's without any derivative, or a kernel that is lacking altogether.
_REFUSED = (
    r"derivative for .* is not implemented",
    r"no autograd formula was registered",
    r"not implemented for '(Double|Float)'",
)
_FORMATS = {"Half": "float16", "BFloat16": "bfloat16", "ComplexDouble": "complex128", "ComplexFloat": "complex64"}
_FORMATS_OF_A_KIND = {"complex": ("complex128", "complex64"), "Low precision": ("bfloat16", "float16")}
# Where PyTorch traces. The rest of torch/_functorch is torch.func, whose errors are mostly about what it was given.
_TRACERS = ("_dynamo/", "fx/", "_functorch/_aot_autograd/", "_functorch/aot_autograd.py", "_functorch/partitioners.py")
# Functions of PyTorch that raise what their caller says: `torch._check(x.ndim == 2, lambda: "...")`.
_RAISES_FOR_ITS_CALLER = ("__init__.py", ("_check", "_assert"))
# Instructions by which an exception of Python's code comes about, or is thrown into a generator. At any other one it
# comes out of code in C++ that the line calls.
_OF_PYTHON = ("RAISE_VARARGS", "RERAISE", "YIELD_VALUE", "RETURN_GENERATOR", "RESUME", "SEND", "CLEANUP_THROW")
# Of a batch that is written to what is not batched, such as a module's buffer, add_ alone says no more than this.
_BATCH_ADDED_IN_PLACE = r"output with shape \[(.*)\] doesn't match the broadcast shape \[\d+, \1\]"
# Of a Triton kernel under TRITON_INTERPRET, which a GPU would launch without reading anything.
_TRITON_INTERPRETER = "triton/runtime/interpreter.py"
_OF_FAKE_TENSORS = r"on device \"meta\"|[Ff]ake ?[Tt]ensor"
# Of a batch that is not one any more.
_ESCAPED = r"escaped from inside a function being vmapped"
_CHECKPOINT = "utils/checkpoint.py"
_CHECKPOINTS = str(Path(torch.__file__).parent / _CHECKPOINT)
_NAMES_GRAD_AND_BACKWARD = r"(?s)\A(?=.*\bgrad\b).*\.backward\(\)"
CHECKPOINTED = "goes through torch.utils.checkpoint, which runs the forward again without tangents and batches"
NESTED_FORWARD = (
    "PyTorch turns forward AD off while a torch.autograd.Function's jvp runs, so that a JVP of a JVP is silently wrong "
    "(pytorch/pytorch#197867)"
)
# What a backward may do while gradients are not recorded only, by PyTorch's words where it is to be differentiated.
_UNRECORDED = {
    WRITTEN: "writes in place to what its own derivative needs",
    r"functions with out=\.\.\. arguments don't support automatic differentiation": "calls a function with out=",
    r"[Cc]an't call numpy\(\) on Tensor that requires grad": "hands a tensor to NumPy",
}


# PyTorch's words for two dtypes where it takes one.
_TWO_DTYPES = (
    r"same (scalar |d)type|expected scalar type|dtypes? .*match|to have the same .*type|should be the same|"
    r"equal to src\.dtype|mixed dtype|have dtype|arguments? .* dtype"
)


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
        self._process = os.getpid()

    def __exit__(self, kind, error: BaseException | None, traceback) -> None:
        if os.getpid() != self._process:  # a child that the call has forked, which would judge everything again
            os._exit(1)
        _leave_checkpoints(traceback)
        refusal = None if error is None else refusal_of(error, self._without_values)
        if refusal is not None:
            raise refusal from error


def _leave_checkpoints(traceback: TracebackType | None) -> None:
    """Leave each `torch.utils.checkpoint` of which an error has come out, the innermost first.

    PyTorch 2.11 leaves it when its generator is collected, which the error keeps alive. Until then its saved-tensor
    hooks are on, and afterwards it takes off those of whatever runs.
    """
    frames = [frame for frame, _ in walk_tb(traceback) if frame.f_code.co_filename == _CHECKPOINTS]
    for frame in reversed(frames):
        opened = frame.f_locals.get("gen")
        if isinstance(opened, GeneratorType):
            opened.close()


def has_two_dtypes(error: BaseException) -> bool:
    """True for an error by which PyTorch says that it takes no tensors of two dtypes together."""
    return says(error, _TWO_DTYPES)


def says(error: BaseException, pattern: str) -> bool:
    """True for a RuntimeError with such words that are PyTorch's own: code of the candidate's does not raise it."""
    return (
        isinstance(error, RuntimeError)
        and bool(re.search(pattern, message_of(error)))
        and not is_raised_by_python_outside_of(error, Path(torch.__file__).parent)
    )


def why_unrecorded(error: BaseException) -> str | None:
    """Return what in a backward PyTorch refuses to differentiate, by its own words; None for any other error."""
    return next((what for words, what in _UNRECORDED.items() if says(error, words)), None)


def refusal_of(error: BaseException, without_values: bool = False) -> Refused | None:
    """Return the `Refused` for an error that says "not supported", and None for any other error."""
    if not isinstance(error, Exception) or isinstance(error, BadOutput | Refused | FromSolution):
        return None
    named = f"{type(error).__name__}: {message_of(error)}"
    first_line = named.splitlines()[0]
    if re.search(_OF_FAKE_TENSORS, named) and any(file.endswith(_TRITON_INTERPRETER) for file, *_ in _frames(error)):
        text = "Triton's interpreter computes with values, which fake tensors do not have"
        return Refused(text, Reason.WITHOUT_VALUES)
    if is_raised_by_python_outside_of(error, Path(torch.__file__).parent):  # whatever it says
        if isinstance(error, RuntimeError | TypeError) and re.search(_NAMES_GRAD_AND_BACKWARD, named):
            return BackwardOnly(f"runs under .backward() only: {first_line}", Reason.BACKWARD_ONLY)
        return Refused(first_line, Reason.OWN) if isinstance(error, NotImplementedError) else None
    if isinstance(error, RuntimeError | TypeError):
        for reason, text, patterns in (*_WORDS, _NOT_ALLOCATED) if without_values else _WORDS:
            found = next(filter(None, (re.search(pattern, named) for pattern in patterns)), None)
            if found is not None:
                return Refused(text or first_line, reason, _formats(found) if reason is Reason.FORMAT else ())
        if re.search(_NAMES_GRAD_AND_BACKWARD, named) and _instruction_that_raised(error) == "RAISE_VARARGS":
            return BackwardOnly(f"runs under .backward() only: {first_line}", Reason.BACKWARD_ONLY)
        if re.search(_BATCH_ADDED_IN_PLACE, named) and _is_vmapped(error):
            text = f"vmap: adds a batch to a tensor without one, in place: {first_line}"
            return Refused(text, Reason.NO_BATCHING_RULE)
    if re.search(_ESCAPED, named) and any(file == _CHECKPOINT for file, *_ in _frames(error)):
        return Refused(f"{CHECKPOINTED}: {first_line}", Reason.CHECKPOINTED)
    tracer = _tracer_that_raised(error)
    if tracer is not None:
        return Refused(f"PyTorch's tracer gives up (torch/{tracer}): {first_line}", Reason.UNTRACEABLE)
    if isinstance(error, NotImplementedError) or (
        isinstance(error, RuntimeError | TypeError) and any(re.search(pattern, named) for pattern in _REFUSED)
    ):
        return Refused(first_line, Reason.OWN)
    return None


def _formats(found: re.Match[str]) -> tuple[str, ...]:
    """The formats that PyTorch's words are about: all but float64 and float32 if they name none."""
    named = next(((_FORMATS[group],) for group in found.groups() if group in _FORMATS), None)
    of_a_kind = (kind for word, kind in _FORMATS_OF_A_KIND.items() if word in found.group())
    return named or next(of_a_kind, tuple(_FORMATS.values()))


def is_raised_by_python_outside_of(error: Exception, framework: Path) -> bool:
    """Return whether code of the candidate's raises an exception itself, be it through a function of PyTorch's.

    The innermost frame tells. Where C++ code of the framework's raises it, that frame is at the instruction that calls
    this, and where the framework's Python does, it lies in its folder. What is caught and raised again keeps its
    innermost frame.
    """
    frames, (helpers, names) = [*_frames(error)], _RAISES_FOR_ITS_CALLER
    by_helper = False
    while frames and frames[-1][0] == helpers and frames[-1][1].co_name.startswith(names):
        frames.pop()
        by_helper = True
    if not frames:
        return False
    _, code, offset = frames[-1]
    inside = Path(code.co_filename).is_relative_to(framework)
    return not inside and (by_helper or dis.opname[code.co_code[offset]] in _OF_PYTHON)


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
