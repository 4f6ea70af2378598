"""Signs that a solution does not compute its results itself. They are the solution's own word: it could forge them."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import threading
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

_LOOKED_AT = frozenset(("torch", "numpy", "time", "math", "random", "gc", "triton", "builtins", "statistics"))
_CLASSES = (torch.Tensor, torch.nn.Module, torch.autograd.Function, torch.nn.Parameter)
_TORCH = str(Path(torch.__file__).parent)
_NO_RESULTS = ("__init__", "get_inputs", "get_init_inputs")  # functions of a problem that compute none
_TOOL = 4  # of sys.monitoring
_MOST = 20  # of each kind that are named


class Operators(TorchDispatchMode):
    """Notes each operator of ATen of a name that is called."""

    def __init__(self, name: str, calls: list[str]) -> None:
        super().__init__()
        self._name, self._calls = name, calls

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Note a call, and make it."""
        if func.namespace == "aten" and plain_name(func.overloadpacket.__name__) == self._name:
            self._calls.append(f"operator aten.{self._name}")
        return func(*args, **(kwargs or {}))


class Functions(TorchFunctionMode):
    """Notes each function of a name that is called, such as one that PyTorch decomposes before it is an operator."""

    def __init__(self, name: str, calls: list[str]) -> None:
        super().__init__()
        self._name, self._calls = name, calls

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Note a call, and make it."""
        packet = getattr(func, "overloadpacket", func)
        if plain_name(getattr(packet, "__name__", "")) == self._name:
            self._calls.append(f"operator aten.{self._name}")
        return func(*args, **(kwargs or {}))


def plain_name(name: str) -> str:
    """Return the name of an operator without the underscores of its variant in place, or of its own kernel."""
    return name.strip("_")


class Watch:
    """Watches what a solution calls, and what it puts in the place of PyTorch's functions.

    Args:
        file: the file of the reference, whose code must not run; None if it cannot be reached.
        operator: the name of the operator of ATen that must not be called.
    """

    def __init__(self, file: str | None, operator: str | None) -> None:
        self._file, self._operator = file, None if operator is None else plain_name(operator)
        self._calls: list[str] = []
        self._of_reference: dict[str, bool] = {}
        self._before = {
            place: (kind, {key: value for key, value in attributes.items() if callable(value)})
            for place, (kind, attributes) in _snapshot().items()
        }
        self._lost, self._settings = False, _settings()
        if file is not None:
            self._install()

    def _install(self) -> None:
        monitoring = getattr(sys, "monitoring", None)
        if monitoring is not None:  # of all threads
            monitoring.use_tool_id(_TOOL, "gradparity")
            monitoring.register_callback(_TOOL, monitoring.events.PY_START, self._started)
            monitoring.set_events(_TOOL, monitoring.events.PY_START)
            return
        threading.setprofile(self._profiled)
        sys.setprofile(self._profiled)

    def _started(self, code: types.CodeType, offset: int) -> Any:
        return None if self._note(code) else sys.monitoring.DISABLE  # type: ignore[attr-defined]

    def _profiled(self, frame: types.FrameType, event: str, argument: object) -> None:
        if event == "call":
            self._note(frame.f_code)

    def _note(self, code: types.CodeType) -> bool:
        """Whether code is a function of the reference's file, under whatever name; if so, it is noted."""
        file = code.co_filename
        if file not in self._of_reference:
            self._of_reference[file] = os.path.realpath(file) == self._file
        counts = bool(code.co_flags & inspect.CO_OPTIMIZED) and code.co_name not in _NO_RESULTS
        if self._of_reference[file] and counts and len(self._calls) < _MOST:
            owner, _, method = code.co_qualname.partition(".")
            self._calls.append(f"class {owner}" if method else f"function {owner}")
        return self._of_reference[file]

    @contextlib.contextmanager
    def calling(self, backward: bool = False) -> Iterator[None]:
        """A block in which the solution is called; the backward of an operator may well call another one."""
        with contextlib.ExitStack() as stack:
            if self._operator is not None and not backward:
                stack.enter_context(Functions(self._operator, self._calls))
                stack.enter_context(Operators(self._operator, self._calls))
                stack.enter_context(self._in_threads(self._operator))
            yield
        self._lost = self._lost or self._is_lost()

    @contextlib.contextmanager
    def _in_threads(self, operator: str) -> Iterator[None]:
        """A block in which the threads that are started are watched, too."""
        before, calls = threading.Thread.run, self._calls

        def run(self: threading.Thread) -> None:
            with Functions(operator, calls), Operators(operator, calls):
                before(self)

        threading.Thread.run = run
        try:
            yield
        finally:
            threading.Thread.run = before

    def _is_lost(self) -> bool:
        if self._file is None:
            return False
        monitoring = getattr(sys, "monitoring", None)
        if monitoring is not None:
            return monitoring.get_tool(_TOOL) != "gradparity" or not monitoring.get_events(_TOOL)
        lost = sys.getprofile() != self._profiled and threading.current_thread() is threading.main_thread()
        if lost:
            self._install()
        return lost

    def facts(self) -> dict[str, Any]:
        """Return the signs that were seen since the last time."""
        calls, self._calls[:] = [*dict.fromkeys(self._calls)][:_MOST], []
        lost, self._lost = self._lost, False
        modes = torch._C._len_torch_function_stack() if hasattr(torch._C, "_len_torch_function_stack") else 0
        other = [f"{name} {value}" for name, value in _settings().items() if value != self._settings[name]]
        replaced = _replaced(self._before)[:_MOST]
        return {"calls": calls, "replaced": replaced, "lost": lost, "modes": modes, "settings": other}


def _settings() -> dict[str, object]:
    """Return the settings that a solution must leave as they are: the code that imports it computes with them, too."""
    return {"grad_enabled": torch.is_grad_enabled(), "default_dtype": torch.get_default_dtype()}


Places = Mapping[str, tuple[type, Mapping[str, object]]]


def _snapshot() -> Places:
    """Return the attributes of modules and classes that many use."""
    found: dict[str, tuple[type, Mapping[str, object]]] = {}
    for name, module in list(sys.modules.items()):
        if isinstance(module, types.ModuleType) and name.partition(".")[0] in _LOOKED_AT:
            found[name] = type(module), dict(vars(module))
    for each in _CLASSES:
        found[f"{each.__module__}.{each.__qualname__}"] = type(each), dict(vars(each))
    return found


def _replaced(before: Places) -> list[str]:
    """The names, such as "torch.allclose", that stand for something else now."""
    now, found = _snapshot(), []
    for place, (kind, attributes) in before.items():
        kind_now, attributes_now = now.get(place, (kind, attributes))
        if kind_now is not kind:
            found.append(place)
        for key, value in attributes.items():
            other = attributes_now.get(key, value)
            if other is not value and not _is_pytorchs(other) and not key.startswith(("__doc", "__dict", "__weak")):
                found.append(f"{place}.{key}")
    return sorted(found)


def _is_pytorchs(value: object) -> bool:
    """Whether a function is of PyTorch's own code, which replaces a few when it first needs them."""
    return type(value) is types.FunctionType and value.__code__.co_filename.startswith(_TORCH)
