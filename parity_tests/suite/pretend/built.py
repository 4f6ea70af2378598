"""The device "pretend" for other processes: compiled once, and found there by `import torch`.

This process must not have it: a process has one accelerator, for good, and all other tests are about the CPU.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shlex
import subprocess
import sys
from pathlib import Path

import torch
from filelock import FileLock
from torch.utils.cpp_extension import include_paths, library_paths

from parity_tests.suite.pretend.backend import LIBRARY
from torch_impl.native.build import _cache, _compiler

ROOT = Path(__file__).parents[3]
SOURCE = Path(__file__).with_name("pretend.cpp")
ENTRY_POINT = "[torch.backends]\npretend = parity_tests.suite.pretend.backend:register\n"


def run(*arguments: object, folder: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the device, in a folder; returns its output and exit code."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=folder,
        env=environment(**more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a process that has the device."""
    built = library()
    path = os.pathsep.join((str(ROOT), str(built.parent)))
    return {**os.environ, "PYTHONPATH": path, LIBRARY: str(built), "COLUMNS": "200", **more}


@functools.cache
def library() -> Path:
    """Return the compiled pretend.cpp, beside what makes a package of it that PyTorch finds; about 20 s, once."""
    compiler, text = shlex.split(_compiler()), SOURCE.read_text(encoding="utf-8")
    digest = hashlib.sha256(repr((text, torch.__version__, compiler)).encode()).hexdigest()[:16]
    folder = _cache() / f"gradparity_pretend_{digest}"
    package, made = folder / "pretend-0.dist-info", folder / "pretend.so"
    package.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock"):
        if made.exists():
            return made
        (package / "METADATA").write_text("Metadata-Version: 2.1\nName: pretend\nVersion: 0\n", encoding="utf-8")
        (package / "entry_points.txt").write_text(ENTRY_POINT, encoding="utf-8")
        includes = [f"-I{path}" for path in include_paths()]
        places = [flag for path in library_paths() for flag in (f"-L{path}", f"-Wl,-rpath,{path}")]
        command = [*compiler, "-shared", "-fPIC", "-std=c++20", "-O0", "-w", *includes, str(SOURCE)]
        staged = made.with_suffix(".part")
        subprocess.run([*command, "-o", str(staged), *places, "-ltorch_cpu", "-lc10"], check=True)
        staged.rename(made)
    return made
