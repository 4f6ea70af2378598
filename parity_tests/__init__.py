"""Judge PyTorch derivatives by an independent JAX oracle.

The names stand in `__init__.pyi`, a line each. They load what they need when they are first used, so that pytest, which
imports every plugin, stays fast.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil


def _modules() -> dict[str, str]:
    """The module of each public name, as the stub beside this file says."""
    stub = pkgutil.get_data(__name__, "__init__.pyi")
    imports = [s for s in ast.parse(stub or b"").body if isinstance(s, ast.ImportFrom)]
    return {name.name: str(s.module) for s in imports for name in s.names}


_MODULES = _modules()


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *_MODULES]
