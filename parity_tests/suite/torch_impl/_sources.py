"""Sources of the native operator's kernels, compiled by themselves: as they are, or with a mistake planted in them."""

from __future__ import annotations

import ctypes
import shlex
import subprocess
from pathlib import Path

from torch.utils.cpp_extension import include_paths, library_paths

from torch_impl.native.build import CFLAGS, HERE, _compiler

CSRC = HERE / "csrc"
FLAGS = [flag for flag in CFLAGS if flag not in ("-include", "ops.h", "-fvisibility=hidden")]


def source(name: str) -> str:
    """The text of a file of csrc/."""
    return (CSRC / name).read_text(encoding="utf-8")


def planted(text: str, old: str, new: str) -> str:
    """The text with the one place where `old` is changed."""
    assert text.count(old) == 1, old
    return text.replace(old, new)


def library(folder: Path, sources: dict[str, str]) -> ctypes.CDLL:
    """A library of sources, by the names that the compiler shall know them by, built in a folder of its own."""
    for name, text in sources.items():
        (folder / name).write_text(text, encoding="utf-8")
    made = folder / "library.so"
    includes = [f"-I{path}" for path in (CSRC, *include_paths())]
    places = [flag for path in library_paths() for flag in (f"-L{path}", f"-Wl,-rpath,{path}")]
    command = [*shlex.split(_compiler()), "-shared", "-fPIC", "-std=c++20", *FLAGS, *includes]
    paths = [str(folder / name) for name in sources]
    subprocess.run([*command, *paths, "-o", str(made), *places, "-ltorch_cpu", "-lc10"], check=True)
    return ctypes.CDLL(str(made))
