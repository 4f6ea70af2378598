"""Builds the operators of a folder at first use, once per version of its sources and of PyTorch, and loads them."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from filelock import FileLock, Timeout
from rich.console import Console
from rich.text import Text

from torch_impl.native.declarations import DERIVATIVES, NATIVE_FUNCTIONS, Declarations, read

HERE = Path(__file__).parent
OPENMP = ("-fopenmp",) if sys.platform == "linux" else ()  # what ATen's parallel loops are made of
FLOATS = ("-fno-math-errno", "-fno-trapping-math")  # or a loop with a comparison is not vectorised
CFLAGS = ("-O2", "-DNDEBUG", "-fvisibility=hidden", *FLOATS, *OPENMP, "-include", "ops.h")
# -z now: a function that is declared but not defined is an error at loading, not at its first call.
LDFLAGS = ("-Wl,-z,now",) if sys.platform == "linux" else ()

_PROGRAM = "#include <cstddef>\nint main() { return sizeof(std::size_t) == 0; }\n"
_KERNELS = "kernels_of_csrc.cpp"  # the file that includes those of csrc/
_PROCESS = "process"  # the file with the number of the process that compiles

_loaded: dict[str, Path] = {}  # namespace -> folder; the dispatcher takes each namespace once a process


class ToolchainMissing(RuntimeError):
    """Something outside this package that compiling needs is not here; the message says how to get it."""


class BuildError(RuntimeError):
    """The operators did not compile, or did not load; the message names the file, the line and the entry."""


def load(folder: str | os.PathLike[str] = HERE) -> None:
    """Make the operators of a folder callable as `torch.ops.<namespace>.<name>`; compiled first where that is due.

    Args:
        folder: holds native_functions.yaml, derivatives.yaml and csrc/.

    Raises:
        ToolchainMissing: it is not compiled yet, and a compiler, ninja or Python's headers are missing, or there is no
            folder for it.
        DeclarationError: one of the yaml files is wrong.
        BuildError: the C++ is wrong.
    """
    folder = Path(folder).resolve()
    namespace = _namespace(folder)
    if namespace in _loaded:
        if _loaded[namespace] != folder:
            raise BuildError(
                f"{folder}: the namespace {namespace} is taken by {_loaded[namespace]} in this process; use another one"
            )
        return
    library = library_path(folder)
    if not _exists(library):
        _compile(folder, namespace, library)
    else:
        torch.ops.load_library(library)
    _loaded[namespace] = folder


def library_path(folder: Path = HERE, cflags: Sequence[str] = CFLAGS) -> Path:
    """The file of the compiled operators of a folder; sources, flags and versions are part of its name."""
    generator = [HERE / "codegen.py", HERE / "declarations.py", *HERE.glob("templates/*")]
    inputs = [*folder.glob("*.yaml"), *folder.glob("csrc/*"), *generator]
    digest = hashlib.sha256()
    for part in (
        torch.__version__,
        torch.version.git_version,
        sysconfig.get_config_var("SOABI"),
        _compiler(),
        cflags,
        LDFLAGS,
    ):
        digest.update(repr(part).encode())
    for path in sorted(inputs):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    name = re.sub(r"\W", "_", f"gradparity_{folder.name}_{digest.hexdigest()[:16]}")
    return _cache() / name / f"{name}.so"


def toolchain_missing() -> str | None:
    """Return which tool or header is missing to compile the operators, and how to get it; None if none is."""
    if reason := compiler_missing(_compiler()):
        return reason
    with _ninja_on_path():
        if shutil.which("ninja") is None:
            return "no ninja: pip install ninja"
    headers = sysconfig.get_path("include")
    if not Path(headers, "Python.h").is_file():
        return f"no Python headers ({headers}/Python.h): Debian and Ubuntu: apt install python3-dev"
    return None


@functools.cache
def compiler_missing(command: str) -> str | None:
    """Why a C++ compiler, with its options, or behind a cache, does not compile, and what to do; None if it does."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        return f"the environment variable CXX is no command ({error}): {command}"
    if not words or shutil.which(words[0]) is None:
        return (
            f"no C++ compiler ({command.strip() and words[0]} is not on the PATH): install one (Debian and Ubuntu: "
            "apt install g++; Fedora: dnf install gcc-c++; macOS: xcode-select --install), or name yours in the "
            "environment variable CXX"
        )
    try:
        done = subprocess.run(
            [*words, "-x", "c++", "-fsyntax-only", "-"], input=_PROGRAM, capture_output=True, text=True, check=False
        )
    except OSError as error:
        return (
            f"the C++ compiler {command} does not run ({error.strerror}); name another in the environment variable CXX"
        )
    if done.returncode == 0:
        return None
    message = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return f"the C++ compiler {command} does not compile ({message}); name another in the environment variable CXX"


def _compiler() -> str:
    return os.environ.get("CXX") or "c++"


def _cache() -> Path:
    """The folder in which PyTorch keeps the extensions that it compiles."""
    if root := os.environ.get("TORCH_EXTENSIONS_DIR"):
        return Path(root)
    from torch.utils.cpp_extension import get_default_build_root  # slow to import, and most of the time not needed

    return Path(get_default_build_root())


def _namespace(folder: Path) -> str:
    """The namespace of the operators; where it is easily seen without parsing, since a compiled library loads fast."""
    path = folder / NATIVE_FUNCTIONS
    found = re.search(r"^- func: *(\w+)::", path.read_text(encoding="utf-8"), re.MULTILINE) if path.exists() else None
    return found[1] if found else read(folder).namespace


@contextlib.contextmanager
def _ninja_on_path() -> Iterator[None]:
    """The `ninja` package keeps its program in the virtual environment, which need not be activated."""
    try:
        from ninja import BIN_DIR
    except ImportError:
        yield
        return
    before = os.environ.get("PATH")
    os.environ["PATH"] = os.pathsep.join(filter(None, (before, BIN_DIR)))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PATH"]
        else:
            os.environ["PATH"] = before


def _exists(library: Path) -> bool:
    try:
        return library.exists()
    except OSError as error:
        raise _unwritable(library, error) from None


def _unwritable(library: Path, error: OSError) -> ToolchainMissing:
    return ToolchainMissing(
        f"the native operators cannot be compiled: {library.parents[1]} cannot be written ({error.strerror}); name "
        "another folder in the environment variable TORCH_EXTENSIONS_DIR"
    )


def _compile(folder: Path, namespace: str, library: Path) -> None:
    """Compile the operators, or wait until another process has, and load them."""
    lock = FileLock(library.with_suffix(".lock"))
    try:
        library.parent.mkdir(parents=True, exist_ok=True)
        # An operating-system lock: a process that is killed while it compiles does not leave it behind.
        _acquire(lock, library, namespace)
    except OSError as error:
        raise _unwritable(library, error) from None
    try:
        if library.exists():
            torch.ops.load_library(library)
        else:
            _compile_and_load(folder, namespace, library)
    finally:
        lock.release()


def _acquire(lock: FileLock, library: Path, namespace: str) -> None:
    """Hold the lock; if that takes a while, say who has it."""
    try:
        lock.acquire(timeout=1)
    except Timeout:
        line = f"waiting for {_holder(library)}, which compiles the native operators of {namespace}"
        with _progress(line, library):
            lock.acquire()


def _holder(library: Path) -> str:
    """The process that compiles a library, as it says itself."""
    try:
        return f"process {(_staging(library) / _PROCESS).read_text(encoding='utf-8')}"
    except OSError:  # it has only begun
        return "another process"


def _staging(library: Path) -> Path:
    """The folder in which a library is compiled."""
    return library.with_suffix(".build")


def how_far(library: Path, seconds: float) -> str:
    """How far a build is that has taken so long here, whoever does it: "2 of 5 files, 31 s"."""
    staging = _staging(library)
    try:
        total = len(re.findall(r"^build \S+\.o:", (staging / "build.ninja").read_text(encoding="utf-8"), re.MULTILINE))
        return f"{len(list(staging.glob('*.o')))} of {total} files, {seconds:.0f} s"
    except OSError:  # not begun, or already loaded
        return f"{seconds:.0f} s"


class _Moving:
    """A line that says how far a build is whenever it is drawn."""

    def __init__(self, line: str, library: Path) -> None:
        self._line, self._library, self._start = line, library, time.monotonic()

    def __rich__(self) -> Text:
        return Text(f"{self._line}: {how_far(self._library, time.monotonic() - self._start)}")


@contextlib.contextmanager
def _progress(line: str, library: Path) -> Iterator[None]:
    """While the block runs, a line that moves; off a terminal it stands still."""
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(_Moving(line, library)):
            yield
        return
    console.print(line, soft_wrap=True, highlight=False, markup=False)
    yield


def _compile_and_load(folder: Path, namespace: str, library: Path) -> None:
    """Generate, compile, load, and only then publish: whoever finds the library finds it whole."""
    if reason := toolchain_missing():
        raise ToolchainMissing(f"the native operators cannot be compiled here: {reason}")
    from torch.utils.cpp_extension import load as compile_and_load

    from torch_impl.native.codegen import generate

    generated = generate(folder)
    staging = _staging(library)
    try:
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
        (staging / _PROCESS).write_text(str(os.getpid()), encoding="utf-8")
        for name, text in (generated | {_KERNELS: _joined(folder)}).items():
            (staging / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise _unwritable(library, error) from None
    try:
        with _ninja_on_path(), _progress(f"compiling the native operators of {namespace}, about 20 s, once", library):
            compile_and_load(
                name=library.stem,
                sources=[str(staging / name) for name in ("ops.cpp", _KERNELS)],
                extra_include_paths=[str(staging), str(folder / "csrc")],
                extra_cflags=list(CFLAGS),
                extra_ldflags=list(LDFLAGS),
                build_directory=str(staging),
                is_python_module=False,
            )
    except (RuntimeError, OSError) as error:
        output, log = f"{error}\n{error.__cause__ or ''}", library.with_suffix(".log")
        try:
            log.write_text(output, encoding="utf-8")
        except OSError as full:  # so that the compiler had no room either
            raise _unwritable(library, full) from None
        explained = _explain(output, folder, read(folder), generated["ops.cpp"])
        raise BuildError(f"{explained}\nThe whole output is in {log}") from None
    os.replace(staging / library.name, library)
    shutil.rmtree(staging, ignore_errors=True)


def _joined(folder: Path) -> str:
    """One source of all those of csrc/, since the compiler reads PyTorch's headers, which takes longest, for each."""
    return "".join(f'#include "{path.as_posix()}"\n' for path in sorted((folder / "csrc").glob("*.cpp")))


def _explain(output: str, folder: Path, declarations: Declarations, generated: str) -> str:
    """The compiler's or the loader's complaint, in terms of the folder's own files."""
    if symbol := re.search(r"undefined symbol: (\w+)", output):
        return _explain_undefined(_demangled(symbol[1]), folder, declarations)
    blamed = []
    for line in output.splitlines():
        if found := re.match(rf"(?:.*/)?{DERIVATIVES}:(\d+):(?:\d+:)? (?:fatal )?error: (.*)", line):
            blamed.append(_explain_formula(int(found[1]), found[2], folder, declarations))
    if not blamed and (place := re.search(r"ops\.cpp:(\d+):(?:\d+:)? .*(?:error|required from here)", output)):
        message = re.search(r"error: (.*)", output)
        before = [line.strip() for line in generated.splitlines()[: int(place[1])]]
        marks = [re.match(rf'#line (\d+) "{DERIVATIVES}"', line) for line in before]
        if lines := [int(mark[1]) for mark in marks if mark]:
            blamed.append(_explain_formula(lines[-1], message[1] if message else "", folder, declarations))
    if not blamed:
        blamed = [line for line in output.splitlines() if re.search(r": (?:fatal )?error: ", line)]
    return "\n".join(dict.fromkeys(blamed[:5])) or output.strip()[-2000:]


def _explain_formula(line: int, message: str, folder: Path, declarations: Declarations) -> str:
    ((schema, names),) = [key for key, at in declarations.formula_lines.items() if at == line] or [("", ())]
    formula = (folder / DERIVATIVES).read_text(encoding="utf-8").splitlines()[line - 1].strip()
    return f"{folder / DERIVATIVES}:{line}: {schema}, {', '.join(names)}\n  {formula}\n  {message}"


def _explain_undefined(symbol: str, folder: Path, declarations: Declarations) -> str:
    if found := re.match(rf"{declarations.namespace}::native::(\w+)", symbol):
        for index in declarations.kernels.values():
            for f in declarations.functions:
                if f.func.name in index.index and index.index[f.func.name].kernel == found[1]:
                    return (
                        f"{f.loc}: {f.func}\n  no function in {folder / 'csrc'} is its kernel\n    {symbol}\n"
                        "  (with other arguments it is another function)"
                    )
    return f"{folder / 'csrc'}: declared, but not defined:\n  {symbol}"


def _demangled(symbol: str) -> str:
    if tool := shutil.which("c++filt"):
        return subprocess.run([tool, symbol], capture_output=True, text=True, check=False).stdout.strip() or symbol
    return symbol
