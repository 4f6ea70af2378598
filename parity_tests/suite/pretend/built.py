"""The device "pretend" for other processes: compiled once, and found there by `import torch`.

This process must not have it: a process has one accelerator, for good, and all other tests are about the CPU.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import torch
from filelock import FileLock
from torch.utils.cpp_extension import include_paths, library_paths

from torch_impl.native.build import _cache, _compiler

ROOT = Path(__file__).parents[3]
SOURCE, BACKEND = (Path(__file__).with_name(name) for name in ("pretend.cpp", "backend.py"))
ENTRY_POINT = "[torch.backends]\npretend = pretend_backend:register\n"


def run(*arguments: object, folder: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the device, in a folder; returns its output and exit code."""
    path = os.pathsep.join((str(ROOT), str(package())))
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200", **more},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@functools.cache
def package() -> Path:
    """Return the folder with the package of the device, compiled in about 20 s, once.

    Its name is that of installed packages, which a solution's process is given, too.
    """
    compiler = shlex.split(_compiler())
    parts = SOURCE.read_bytes(), BACKEND.read_bytes(), ENTRY_POINT, torch.__version__, compiler
    digest = hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
    folder = _cache() / f"gradparity_pretend_{digest}" / "site-packages"
    described, made = folder / "pretend-0.dist-info", folder / "pretend.so"
    described.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name("lock")):
        if made.exists():
            return folder
        (described / "METADATA").write_text("Metadata-Version: 2.1\nName: pretend\nVersion: 0\n", encoding="utf-8")
        (described / "entry_points.txt").write_text(ENTRY_POINT, encoding="utf-8")
        shutil.copyfile(BACKEND, folder / "pretend_backend.py")
        includes = [f"-I{path}" for path in include_paths()]
        places = [flag for path in library_paths() for flag in (f"-L{path}", f"-Wl,-rpath,{path}")]
        command = [*compiler, "-shared", "-fPIC", "-std=c++20", "-O0", "-w", *includes, str(SOURCE)]
        staged = made.with_suffix(".part")
        subprocess.run([*command, "-o", str(staged), *places, "-ltorch_cpu", "-lc10"], check=True)
        staged.rename(made)
    return folder
