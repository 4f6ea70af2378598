"""The modules whose forward runs, by their paths."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook


class Modules:
    """Knows in which module the code runs, in its context."""

    def __init__(self) -> None:
        self._names: dict[nn.Module, str] = {}
        self._running: list[str] = []

    @property
    def path(self) -> str:
        """The path of the innermost module, such as "Model.blocks.1"; empty outside of all."""
        return self._running[-1] if self._running else ""

    def __enter__(self) -> Modules:
        """Follow the modules from now on."""
        self._hooks = (
            register_module_forward_pre_hook(self._begin),
            register_module_forward_hook(self._end, always_call=True),
        )
        return self

    def __exit__(self, *error: object) -> None:
        """Follow them no more."""
        for hook in self._hooks:
            hook.remove()

    def _begin(self, module: nn.Module, _: Any) -> None:
        if module not in self._names:
            root = type(module).__name__
            for name, part in module.named_modules():
                self._names.setdefault(part, f"{root}.{name}" if name else root)
        self._running.append(self._names[module])

    def _end(self, *_: Any) -> None:
        if self._running:
            self._running.pop()
