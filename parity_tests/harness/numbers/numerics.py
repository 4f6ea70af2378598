"""What both frameworks must be told before their numbers can be compared, for the length of a `with` block."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import torch
from torch._C import _autograd
from torch.autograd import forward_ad

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

# Every PyTorch switch that lets a float32 product run in TF32 or bfloat16, or a 16-bit product add up in 16 bits.
_TORCH_SWITCHES: dict[str, object] = {
    "cuda.matmul.fp32_precision": "ieee",
    "cudnn.conv.fp32_precision": "ieee",
    "cudnn.rnn.fp32_precision": "ieee",
    "mkldnn.matmul.fp32_precision": "ieee",
    "mkldnn.conv.fp32_precision": "ieee",
    "mkldnn.rnn.fp32_precision": "ieee",
    "cuda.matmul.allow_fp16_reduced_precision_reduction": False,
    "cuda.matmul.allow_bf16_reduced_precision_reduction": False,
    "cuda.matmul.allow_fp16_accumulation": False,
}
_RECOMPILES = 2**20
_ALLOCATIONS = 10_000  # between two collections of the youngest objects; Python's default is 700 or 2000


@contextlib.contextmanager
def pinned(device: str = "cpu") -> Iterator[None]:
    """float64 in JAX, full matmul precision in both frameworks, one thread of torch and of NumPy, and JAX on
    `device` ("cpu" or "cuda").

    Python's garbage collector runs less often. JAX is kept from reserving most of a GPU's memory, if this block is the
    first to use the GPU. Everything is as before when the block is left.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(_environment("XLA_PYTHON_CLIENT_PREALLOCATE", "false"))
        stack.enter_context(pinned_jax(device))
        stack.enter_context(_put_back())
        stack.enter_context(torch.enable_grad())
        stack.enter_context(_one_torch_thread())
        stack.enter_context(_one_thread_of_numpy())
        stack.enter_context(_rare_collections())
        # PyTorch's first use of forward AD calls what PyTorch deprecates; no candidate should be blamed for it.
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", r"`torch\.jit\.\w+` is deprecated")
        # So does Dynamo, of what it looks at while it compiles; a graph that it breaks is no mistake either.
        warnings.filterwarnings("ignore", module=r"torch\._dynamo\.")
        # AOTAutograd looks for errors in backward with anomaly detection, which warns of what is then raised anyway.
        warnings.filterwarnings("ignore", r"Error detected in \w+Backward", UserWarning)
        # What PyTorch lacks a batching rule for, it does one example at a time, and advises of it at every call.
        warnings.filterwarnings("ignore", r"There is a performance drop because we have not yet", UserWarning)
        warnings.filterwarnings("ignore", r"The \.grad attribute of a Tensor that is not a leaf", UserWarning)
        for path, value in _TORCH_SWITCHES.items():
            stack.enter_context(_torch_switch(path, value))
        if "torch._dynamo" in sys.modules:  # else nothing is compiled
            stack.enter_context(_patient_compiler())
        yield


@contextlib.contextmanager
def pinned_jax(device: str) -> Iterator[None]:
    """JAX's part of it, which holds in this thread alone."""
    where = jax.devices("gpu" if device == "cuda" else "cpu")[0]
    with jax.enable_x64(True), jax.default_matmul_precision("highest"), jax.default_device(where):
        yield


def settings() -> dict[str, object]:
    """What `pinned` sets, for the record."""
    switches = {f"torch.backends.{path}": value for path, value in _TORCH_SWITCHES.items()}
    jax_settings = {"jax_enable_x64": True, "jax_default_matmul_precision": "highest"}
    return jax_settings | {"torch_num_threads": 1} | switches


@contextlib.contextmanager
def _put_back() -> Iterator[None]:
    """What a candidate changes for the whole process is put back, or the next one would be blamed for it."""
    settings: list[tuple[Callable[[], Any], Callable[[Any], object]]] = [
        (torch.get_default_dtype, torch.set_default_dtype),
        (_default_device, torch.set_default_device),
        (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
        (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
        (_flushes_denormals, torch.set_flush_denormal),
        (sys.getrecursionlimit, sys.setrecursionlimit),
        (np.geterr, lambda before: np.seterr(**before)),
        (_saved_tensors_hooks, _set_saved_tensors_hooks),
    ]
    before = [read() for read, _ in settings]
    level = forward_ad._current_level
    try:
        yield
    finally:
        for (read, write), value in zip(settings, before, strict=True):
            if read() != value:
                write(value)
        while forward_ad._current_level > level:
            forward_ad.exit_dual_level()


def _flushes_denormals() -> bool:
    """Does this thread take numbers below the normal ones for zero? PyTorch does not tell."""
    return sys.float_info.min * 0.5 == 0.0


_Hooks = tuple[list[tuple[Callable, Callable]], str | None]


def _saved_tensors_hooks() -> _Hooks:
    """The pairs of `torch.autograd.graph.saved_tensors_hooks` that are entered, the innermost last.

    And the message by which `disable_saved_tensors_hooks` forbids them; None where they may be entered.
    """
    message = _autograd._saved_tensors_hooks_get_disabled_error_message()
    entered: list[tuple[Callable, Callable]] = []
    while (innermost := _autograd._top_saved_tensors_default_hooks(True)) is not None:
        entered.insert(0, innermost)
        _autograd._pop_saved_tensors_default_hooks()
    if entered:  # PyTorch shows the innermost only, and the others when those within have left
        _set_saved_tensors_hooks((entered, message))
    return entered, message


def _set_saved_tensors_hooks(hooks: _Hooks) -> None:
    """Have these entered and no others, or forbidden."""
    entered, message = hooks
    while _autograd._top_saved_tensors_default_hooks(True) is not None:
        _autograd._pop_saved_tensors_default_hooks()
    _autograd._saved_tensors_hooks_enable()
    for pack, unpack in entered:
        _autograd._push_saved_tensors_default_hooks(pack, unpack)
    if message is not None:
        _autograd._saved_tensors_hooks_disable(message, fail_if_non_empty=False)


def _default_device() -> torch.device | None:
    """The device that was set as default, if one was; `torch.get_default_device` does not tell."""
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return None if context is None else context.device


@contextlib.contextmanager
def _patient_compiler() -> Iterator[None]:
    import torch._functorch.config

    # So many samples are compiled anew so often that Dynamo would give up, and what is not compiled be judged; and what
    # is compiled may be asked for a second backward, which PyTorch refuses where buffers are donated.
    limits = torch._dynamo.config.patch(recompile_limit=_RECOMPILES, accumulated_recompile_limit=_RECOMPILES)
    with limits, torch._functorch.config.patch(donated_buffer=False):
        yield


@contextlib.contextmanager
def _one_torch_thread() -> Iterator[None]:
    # The samples are small: more threads gain nothing, and on a busy machine they wait for each other (4x, measured).
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _one_thread_of_numpy() -> contextlib.AbstractContextManager[object]:
    # The error bounds multiply small matrices. A second thread gains nothing, and waits busily: an operator that
    # multiplies matrices took three times as much CPU time (measured).
    libraries = _libraries("scipy.linalg" in sys.modules)
    return contextlib.nullcontext() if libraries is None else libraries.limit(limits=1, user_api="blas")


@functools.cache
def _libraries(with_scipy: bool) -> ThreadpoolController | None:
    """The BLAS libraries of this process, which are looked for again when SciPy has loaded its own."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:  # in a checkout that is not installed: then it only takes longer
        return None
    return ThreadpoolController()


@contextlib.contextmanager
def _rare_collections() -> Iterator[None]:
    # JAX has XLA collect, too, whenever Python does, which takes up to a sixth of the time at Python's own threshold.
    youngest, *older = gc.get_threshold()
    gc.set_threshold(max(youngest, _ALLOCATIONS) if youngest else 0, *older)  # 0: somebody has turned it off
    try:
        yield
    finally:
        gc.set_threshold(youngest, *older)


@contextlib.contextmanager
def _torch_switch(path: str, value: object) -> Iterator[None]:
    *parents, name = path.split(".")
    owner = functools.reduce(getattr, parents, torch.backends)
    before = getattr(owner, name)
    if hasattr(owner, f"{name}_split_k"):  # a pair, of which this name reads the first half only
        before = (before, getattr(owner, f"{name}_split_k"))
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ.setdefault(name, value)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)  # a candidate may have emptied the environment


def cuda_missing() -> str | None:
    """Why CUDA cannot be judged here; None where both frameworks see a GPU."""
    if not torch.cuda.is_available():
        return f"PyTorch {torch.__version__} sees no CUDA device"
    with _environment("XLA_PYTHON_CLIENT_PREALLOCATE", "false"):
        try:
            jax.devices("gpu")
        except RuntimeError as error:
            return f"JAX {jax.__version__} sees no GPU ({str(error).splitlines()[0]})"
    return None
