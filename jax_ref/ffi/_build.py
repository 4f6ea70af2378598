"""Compiles the kernels at first use, once per version of their source and of jaxlib, and registers them with JAX."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

import jax
import jaxlib.version

SOURCES = Path(__file__).parent / "csrc"
KERNELS = ("gradparity_attn_forward", "gradparity_attn_backward")
# Multiply and add in one rounding, as GCC does by default and Clang only within an expression.
FLAGS = ("-std=c++17", "-O3", "-ffp-contract=fast", "-shared", "-fPIC")

_IMPOSSIBLE = "the kernels of jax_ref.ffi cannot be compiled here"
_INSTEAD = "or take jax_ref.attn, which needs none"

_lock = threading.Lock()


class CompilerMissing(RuntimeError):
    """There is no C++ compiler here, or no folder for what it makes; the message says how to get one."""


class BuildError(RuntimeError):
    """The kernels did not compile, or did not load; the message is the compiler's."""


def targets(sources: Path = SOURCES) -> tuple[str, str]:
    """The names under which JAX knows the kernels, forward and backward; compiled and registered first if need be.

    `sources`: the folder of their source.

    Raises:
        CompilerMissing: they are not compiled yet, and there is no compiler.
        BuildError: they do not compile or do not load.
    """
    with _lock:
        return _registered(sources)


@functools.cache
def _registered(sources: Path) -> tuple[str, str]:
    path = library_path(sources)
    if not path.exists():
        _compile(sources, path)
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise BuildError(f"the kernels of jax_ref.ffi do not load: {error}") from None
    names = tuple(f"{kernel}_{path.stem}" for kernel in KERNELS)
    for name, kernel in zip(names, KERNELS, strict=True):
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(library, kernel)), platform="cpu")
    forward, backward = names
    return forward, backward


def library_path(sources: Path) -> Path:
    """The file of the compiled kernels; source, compiler, jaxlib and machine are part of its name."""
    digest = hashlib.sha256()
    for part in (jaxlib.version.__version__, platform.system(), platform.machine(), _compiler(), FLAGS):
        digest.update(repr(part).encode())
    for path in sorted(sources.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "gradparity" / f"{digest.hexdigest()[:16]}.so"


def _compiler() -> str:
    return os.environ.get("CXX") or "c++"


def _working_compiler() -> list[str]:
    """The compiler with its options, or behind a cache.

    Raises:
        CompilerMissing: there is none, or it compiles nothing.
    """
    try:
        compiler = shlex.split(_compiler())
    except ValueError as error:
        raise CompilerMissing(
            f"{_IMPOSSIBLE}: the environment variable CXX is no command ({error}); {_INSTEAD}"
        ) from None
    if not compiler or shutil.which(compiler[0]) is None:
        raise CompilerMissing(
            f"{_IMPOSSIBLE}: no C++ compiler ({compiler[0] if compiler else 'CXX'} is not on the PATH). Install one "
            "(Debian and Ubuntu: apt install g++; Fedora: dnf install gcc-c++; macOS: xcode-select --install), or name "
            f"yours in the environment variable CXX; {_INSTEAD}"
        )
    command = [*compiler, "-x", "c++", "-fsyntax-only", "-"]
    done = subprocess.run(command, input="int main() {}\n", capture_output=True, text=True, check=False)
    if done.returncode != 0:
        message = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise CompilerMissing(f"{_IMPOSSIBLE}: the C++ compiler {_compiler()} does not compile ({message}); {_INSTEAD}")
    return compiler


def _compile(sources: Path, path: Path) -> None:
    """Compile, and only then publish: whoever finds the library finds it whole, whoever else compiles it, too."""
    compiler = _working_compiler()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = tempfile.TemporaryDirectory(dir=path.parent)
    except OSError as error:
        raise CompilerMissing(
            f"{_IMPOSSIBLE}: {path.parent} cannot be written ({error.strerror}); name another in the environment "
            f"variable XDG_CACHE_HOME; {_INSTEAD}"
        ) from None
    with folder:
        made = Path(folder.name) / path.name
        # -isystem: the warnings of JAX's headers are not ours
        command = [*compiler, *FLAGS, "-isystem", jax.ffi.include_dir(), str(sources / "attn.cpp"), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            errors = [line for line in done.stderr.splitlines() if re.search(r": (?:fatal )?error: ", line)]
            shown = "\n".join(errors[:5]) or done.stderr.strip()[-2000:]
            raise BuildError(f"the kernels of jax_ref.ffi do not compile ({shlex.join(command)}):\n{shown}")
        os.replace(made, path)
