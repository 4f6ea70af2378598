"""Modules made anew from an edited source."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType


def module_with(module: ModuleType, old: str, new: str, folder: Path) -> ModuleType:
    """A module with one piece of its source replaced; in a file, since Triton reads the source of a kernel itself."""
    assert module.__file__ is not None
    source = Path(module.__file__).read_text(encoding="utf-8")
    assert source.count(old) == 1, old
    path = folder / "edited.py"
    path.write_text(source.replace(old, new), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    edited = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(edited)
    return edited
