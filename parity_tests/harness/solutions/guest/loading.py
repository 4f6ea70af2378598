"""The solution itself: its file is run, and one name in it is called."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import SourceFileLoader
from operator import attrgetter
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import torch


class Missing(Exception):
    """Raised where a file defines no such name."""


class NotMade(Exception):
    """Raised where a class cannot be called; its cause says why."""


class Loaded:
    """A name in a file: a function of tensors, an `autograd.Function`, or a class of modules, of which one is made."""

    def __init__(self, path: str, name: str, made: tuple[Sequence[Any], int] | None) -> None:
        """Run the file; `made`: for a class the arguments, by default none, and the seed after which it is made."""
        self.module: torch.nn.Module | None = None
        self._lock = threading.Lock()
        try:
            found = attrgetter(name)(_run(Path(path)))
        except AttributeError as error:
            raise Missing(name) from error
        if not callable(found):
            raise Missing(name)
        if isinstance(found, type) and issubclass(found, torch.autograd.Function):
            found = found.apply
        elif made is not None or isinstance(found, type):
            arguments, seed = made or ((), 0)
            torch.manual_seed(seed)
            try:
                found = found(*arguments)
            except BaseException as error:  # sys.exit(), too
                raise NotMade from error
            if not callable(found):
                raise TypeError(f"{name} makes something that cannot be called: {type(found).__name__}")
        if isinstance(found, torch.nn.Module):
            self.module = found
        self._call: Callable = found

    def parameters(self) -> Mapping[str, torch.Tensor]:
        """The parameters of a module, by name."""
        return {} if self.module is None else dict(self.module.named_parameters())

    def __call__(
        self, args: Sequence[Any], params: Mapping[str, Any], names: Sequence[str] | None, training: bool
    ) -> Any:
        """Call it; the last arguments stand for the parameters of these names, by default of all."""
        module = self.module
        if module is None:
            return self._call(*args, **params)
        if names is None:  # all of them, if there are so many arguments
            names = [name for name, _ in module.named_parameters()]
            taken = inspect.signature(module.forward).parameters.values()
            required = sum(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD for p in taken)
            names = names if len(args) - len(names) >= required else []
        count = len(args) - len(names)
        own = {name: p.detach() for name, p in module.named_parameters() if name not in names}
        given = dict(zip(names, args[count:], strict=True))
        buffers = {name: _copied(buffer, args) for name, buffer in module.named_buffers()}
        with self._lock:  # PyTorch puts the parameters into the one module
            if module.training != training:
                module.train(training)
            return torch.func.functional_call(module, own | given | buffers, tuple(args[:count]), dict(params))


def _copied(buffer: torch.Tensor, args: Sequence[Any]) -> torch.Tensor:
    """A copy of a buffer where the inputs are, and in their format, unless it holds integers; each call has its own."""
    inputs = [x for x in args if isinstance(x, torch.Tensor)]
    like = next((x for x in inputs if x.is_floating_point() or x.is_complex()), buffer)
    dtype = buffer.dtype
    if buffer.is_floating_point():
        dtype = like.dtype.to_real()
    elif buffer.is_complex():
        dtype = like.dtype.to_complex()
    return buffer.detach().to(like.device, dtype, copy=True)


def _run(path: Path) -> ModuleType:
    name = f"gradparity_case_{path.stem}"
    loader = _FromSource(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses and pickle look it up
    sys.path.insert(0, str(path.parent))  # so that it can import its neighbours, as a script can
    loader.exec_module(module)
    return module


class _FromSource(SourceFileLoader):
    """Compiles the source each time: bytecode may be that of an older version."""

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the source as it is now."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


_KINDS = (ValueError, IndexError, RuntimeError, AssertionError, ZeroDivisionError)  # by which it may refuse an axis


def description(error: BaseException) -> dict[str, Any]:
    """Describe an exception as data: its type, what it may be taken for, its message, and where it was raised."""
    made = isinstance(error, NotMade)
    error = (error.__cause__ or error) if made else error
    try:
        message = str(error)
    except Exception:  # its own __str__
        message = "an exception that has no text"
    kinds = [kind.__name__ for kind in _KINDS if isinstance(error, kind)]
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_own(frame.filename)]
    place = f"at {Path(own[-1].filename).name}:{own[-1].lineno}, in {own[-1].name}" if own else ""
    line = error.lineno if isinstance(error, SyntaxError) else own[-1].lineno if own else None
    text = (error.msg or "") if isinstance(error, SyntaxError) else message
    return {
        "type": type(error).__name__[:80],
        "kind": kinds[0] if kinds else "",
        "message": text.encode("utf-8", "replace").decode()[:4000],
        "place": place[:300],
        "line": line,
        "missing": isinstance(error, Missing),
        "made": made,
    }


_FOREIGN = (
    str(Path(__file__).resolve().parent),
    str(Path(torch.__file__).parent),
    str(Path(importlib.util.__file__).parent),
    "<",
)


def _is_own(file: str) -> bool:
    return not file.startswith(_FOREIGN)
