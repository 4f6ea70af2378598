"""Modules that stand for those that are not built here, so that a file that imports them can be read."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_loading = False  # whether files are read, which may decorate their functions with what is missing


class NotBuiltHere(RuntimeError):
    """Raised where code that runs calls a stub."""


class _Missing:
    """A name in a stub: what is made of it while files are read is missing, too, and then it raises if it is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> _Missing:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Missing(f"{self._name}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> _Missing:
        return self._used("()")

    def __getitem__(self, key: Any) -> _Missing:
        return self._used("[]")

    def __mro_entries__(self, bases: tuple) -> tuple[type, ...]:
        return ()

    def _used(self, how: str) -> _Missing:
        if not _loading:
            root = self._name.partition(".")[0]
            raise NotBuiltHere(
                f"{self._name} is not here: --stub stands for {root}; run this where {root} is installed"
            )
        return _Missing(f"{self._name}{how}")


class _Stub(ModuleType):
    def __getattr__(self, name: str) -> _Missing:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Missing(f"{self.__name__}.{name}")


class _Finder(MetaPathFinder, Loader):
    """Finds stubs for these modules and all that is in them."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """The stub, also of a package that one of them is in."""
        inside = any(fullname == name or fullname.startswith(f"{name}.") for name in self._names)
        around = any(name.startswith(f"{fullname}.") for name in self._names)
        return ModuleSpec(fullname, self, is_package=True) if inside or around else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """An empty one."""
        return _Stub(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""


def check_stubs(names: Sequence[str]) -> None:
    """Refuse names of modules that are there.

    Raises:
        ValueError: one is installed, or is no name of a module.
    """
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise ValueError(
                f"--stub {name}: no name of a module; write it as in the import, such as selective_scan_cuda"
            )
        if not isinstance(sys.modules.get(name), _Stub) and _is_installed(name):
            raise ValueError(f"--stub {name}: is installed, and a stub stands for what is missing; leave it out")


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # of the package that it is in
        return False


@contextlib.contextmanager
def stubbed(names: Sequence[str]) -> Iterator[None]:
    """Within this, files can be read that import these modules; nobody else sees them after it."""
    global _loading
    before, finder = _loading, _Finder(names)
    sys.meta_path.append(finder)
    _loading = True
    try:
        yield
    finally:
        _loading = before
        sys.meta_path.remove(finder)
        for name in [name for name, module in sys.modules.items() if isinstance(module, _Stub)]:
            del sys.modules[name]
