"""The settings of both frameworks under which numbers are comparable, applied for the length of a `with` block."""

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

from parity_tests.harness.numbers import left_behind

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
_PLATFORMS = {"cpu": "cpu", "cuda": "gpu"}  # JAX's, by PyTorch's names of the same devices
_RECOMPILES = 2**20
_SEED = 0x5EED_CAFE  # none that anybody gives
_ALLOCATIONS = 10_000  # between two collections of the youngest objects; Python's default is 700 or 2000


@contextlib.contextmanager
def pinned() -> Iterator[list[str]]:
    """Pin the numerical settings of both frameworks.

    These are float64 in JAX, full matmul precision in both frameworks, and one thread for torch and for NumPy. JAX runs
    on the CPU: the oracle needs no other device, whatever the candidate runs on.

    Python's garbage collector runs less often. All settings are restored when the block is left.

    Yields:
        the names of the functions that were replaced in the block, once it is left; see `left_behind.put_back`.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(pinned_jax())
        stack.enter_context(_put_back())
        stack.enter_context(torch.enable_grad())
        stack.enter_context(_one_torch_thread())
        stack.enter_context(_one_thread_of_numpy())
        stack.enter_context(_rare_collections())
        # PyTorch's first use of forward AD calls functions that it deprecates itself; that is no candidate's fault.
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", r"`torch\.jit\.\w+` is deprecated")
        # Dynamo warns about code that it inspects while it compiles; a graph break is no mistake either.
        warnings.filterwarnings("ignore", module=r"torch\._dynamo\.")
        # AOTAutograd looks for errors in backward with anomaly detection, which warns of what is then raised anyway.
        warnings.filterwarnings("ignore", r"Error detected in \w+Backward", UserWarning)
        # Without a batching rule PyTorch runs one example at a time, and warns about it at every call.
        warnings.filterwarnings("ignore", r"There is a performance drop because we have not yet", UserWarning)
        warnings.filterwarnings("ignore", r"The \.grad attribute of a Tensor that is not a leaf", UserWarning)
        for path, value in _TORCH_SWITCHES.items():
            stack.enter_context(_torch_switch(path, value))
        if "torch._dynamo" in sys.modules:  # otherwise nothing is compiled
            stack.enter_context(_patient_compiler())
        yield stack.enter_context(left_behind.put_back())  # the last, so that the others are left as they were entered


@contextlib.contextmanager
def pinned_jax(device: str = "cpu") -> Iterator[None]:
    """Pin the settings of JAX alone; they hold in the current thread only.

    JAX is kept from reserving most of a GPU's memory, if this block is the first to ask for its devices.

    Args:
        device: the device on which JAX runs, as PyTorch names it; `jax_missing` says that JAX has it.
    """
    kind, _, index = device.partition(":")
    with _environment("XLA_PYTHON_CLIENT_PREALLOCATE", "false"):
        where = jax.devices(_PLATFORMS[kind])[int(index or 0)]
        with jax.enable_x64(True), jax.default_matmul_precision("highest"), jax.default_device(where):
            yield


def settings() -> dict[str, object]:
    """Return the settings that `pinned` makes, for a report."""
    switches = {f"torch.backends.{path}": value for path, value in _TORCH_SWITCHES.items()}
    jax_settings = {"jax_enable_x64": True, "jax_default_matmul_precision": "highest"}
    return jax_settings | {"torch_num_threads": 1} | switches


@contextlib.contextmanager
def _put_back() -> Iterator[None]:
    """Restore the process-wide settings that a candidate may change, which could fail the next candidate."""
    before, level = _settings(), forward_ad._current_level
    try:
        yield
    finally:
        for name, (read, write) in _SETTINGS.items():
            if read() != before[name]:
                write(before[name])
        while forward_ad._current_level > level:
            forward_ad.exit_dual_level()


def _settings() -> dict[str, Any]:
    return {name: read() for name, (read, _) in _SETTINGS.items()}


@contextlib.contextmanager
def left() -> Iterator[dict[str, str]]:
    """Note the process-wide settings that code leaves changed: by name, what they are at the end of the block."""
    changed: dict[str, str] = {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        before = _settings() | {name: read() for name, read in _READ.items()}
        yield changed
        after = _settings() | {name: read() for name, read in _READ.items()}
    changed |= {name: str(value) for name, value in after.items() if value != before[name]}


def _flushes_denormals() -> bool:
    """Return whether this thread flushes subnormal numbers to zero; PyTorch has no getter for this setting."""
    return sys.float_info.min * 0.5 == 0.0


_Hooks = tuple[list[tuple[Callable, Callable]], str | None]


def _saved_tensors_hooks() -> _Hooks:
    """Return the active pairs of `torch.autograd.graph.saved_tensors_hooks`, the innermost last.

    The second result is the message with which `disable_saved_tensors_hooks` forbids them; None where they are allowed.
    """
    message = _autograd._saved_tensors_hooks_get_disabled_error_message()
    entered: list[tuple[Callable, Callable]] = []
    while (innermost := _autograd._top_saved_tensors_default_hooks(True)) is not None:
        entered.insert(0, innermost)
        _autograd._pop_saved_tensors_default_hooks()
    if entered:  # PyTorch shows the innermost hook only, so that all were removed to read them
        _set_saved_tensors_hooks((entered, message))
    return entered, message


def _set_saved_tensors_hooks(hooks: _Hooks) -> None:
    """Make these hooks the only active ones, or forbid hooks if there is a message."""
    entered, message = hooks
    while _autograd._top_saved_tensors_default_hooks(True) is not None:
        _autograd._pop_saved_tensors_default_hooks()
    _autograd._saved_tensors_hooks_enable()
    for pack, unpack in entered:
        _autograd._push_saved_tensors_default_hooks(pack, unpack)
    if message is not None:
        _autograd._saved_tensors_hooks_disable(message, fail_if_non_empty=False)


# The process-wide settings that a candidate may change, by the words for them: how each is read, and written.
_SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "the default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "whether algorithms are deterministic": (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
    ),
    "anomaly detection": (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    "whether subnormal numbers are flushed to zero": (_flushes_denormals, torch.set_flush_denormal),
    "the recursion limit": (sys.getrecursionlimit, sys.setrecursionlimit),
    "NumPy's handling of errors": (np.geterr, lambda before: np.seterr(**before)),
    "the hooks of saved tensors": (_saved_tensors_hooks, _set_saved_tensors_hooks),
}
# Others that PyTorch or the harness sets anew before each check.
_READ: dict[str, Callable[[], Any]] = {
    "whether gradients are recorded": torch.is_grad_enabled,
    "the seed of PyTorch's generator": torch.initial_seed,
}


@contextlib.contextmanager
def _patient_compiler() -> Iterator[None]:
    import torch._functorch.config

    # With this many samples Dynamo would reach its limit of recompilations and fall back to eager code, which would
    # then be judged instead. A second backward, which some checks run, is refused where buffers are donated.
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
    """Return the BLAS libraries of this process; cached, once without and once with SciPy's own."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:  # a checkout that is not installed: the limit only saves time
        return None
    return ThreadpoolController()


@contextlib.contextmanager
def _rare_collections() -> Iterator[None]:
    # XLA collects garbage whenever Python does, which takes up to a sixth of the time at Python's default threshold.
    youngest, *older = gc.get_threshold()
    gc.set_threshold(max(youngest, _ALLOCATIONS) if youngest else 0, *older)  # 0 means that collection is turned off
    try:
        yield
    finally:
        gc.set_threshold(youngest, *older)


@contextlib.contextmanager
def _torch_switch(path: str, value: object) -> Iterator[None]:
    *parents, name = path.split(".")
    owner = functools.reduce(getattr, parents, torch.backends)
    before = getattr(owner, name)
    if hasattr(owner, f"{name}_split_k"):  # the setting is a pair, and this name reads its first half only
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


@functools.cache
def jax_missing(kind: str) -> str | None:
    """Return why JAX does not run on a type of PyTorch's devices; None if it does."""
    if kind not in _PLATFORMS:
        return f"JAX {jax.__version__} is not used on {kind}"
    with _environment("XLA_PYTHON_CLIENT_PREALLOCATE", "false"):
        try:
            jax.devices(_PLATFORMS[kind])
        except RuntimeError as error:
            return f"JAX {jax.__version__} sees no GPU ({str(error).splitlines()[0]})"
    return None
