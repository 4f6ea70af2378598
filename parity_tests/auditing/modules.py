"""The modules whose forward runs, by their paths."""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook


class Modules:
    """Knows in which module the code runs, in its context.

    Attributes:
        hooks: what PyTorch calls before and after each forward.
    """

    def __init__(self) -> None:
        self._names: dict[nn.Module, str] = {}
        self._owners: dict[int, str] = {}  # by the identities of their parameters and buffers
        self._running: list[str] = []
        self.hooks = self._begin, self._end

    @property
    def path(self) -> str:
        """The path of the innermost module, such as "Model.blocks.1"; empty outside of all."""
        return self._running[-1] if self._running else ""

    def path_of(self, tensors: Sequence[Tensor]) -> str:
        """The path of the module that has all parameters and buffers among these; if there are none, of the innermost.

        A module that is compiled itself calls no hook.
        """
        owners = [self._owners[id(x)].split(".") for x in tensors if id(x) in self._owners]
        shared = itertools.takewhile(lambda parts: len(set(parts)) == 1, zip(*owners, strict=False))
        return ".".join(part for part, *_ in shared) if owners else self.path

    def __enter__(self) -> Modules:
        """Follow the modules from now on."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", "Using `torch.compile.module.` when there are global hooks")  # ours
            stack.enter_context(register_module_forward_pre_hook(self._begin))
            stack.enter_context(register_module_forward_hook(self._end, always_call=True))
            self._registered = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        """Follow them no more."""
        self._registered.close()

    def _begin(self, module: nn.Module, _: Any) -> None:
        if torch.compiler.is_compiling():  # else the compiled code would have the names in it
            return
        module = getattr(module, "_orig_mod", module)  # of what torch.compile returns
        if module not in self._names:
            root = type(module).__name__
            for name, part in module.named_modules():
                self._names.setdefault(part, f"{root}.{name}" if name else root)
                for x in (*part.parameters(recurse=False), *part.buffers(recurse=False)):
                    self._owners.setdefault(id(x), self._names[part])
        self._running.append(self._names[module])

    def _end(self, *_: Any) -> None:
        if not torch.compiler.is_compiling() and self._running:
            self._running.pop()
