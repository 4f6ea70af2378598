"""Building at first use: the cache's key, several processes at once, a missing compiler, and errors in the C++."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import torch_impl
from parity_tests.suite.rotation import rotating
from torch_impl.native import build, codegen
from torch_impl.native.build import BuildError, ToolchainMissing, library_path, load, toolchain_missing

ROOT = Path(torch_impl.__file__).parents[1]
WAVE = Path(__file__).parent / "wave"

needs_toolchain = pytest.mark.skipif(toolchain_missing() is not None, reason=f"compiles: {toolchain_missing()}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of wave/ in a namespace of its own, to be changed."""
    target = tmp_path / "copy"
    shutil.copytree(WAVE, target)
    for path in target.rglob("*.*"):
        path.write_text(path.read_text().replace("gradparity_wave", "gradparity_copy"))
    return target


def replace(path: Path, old: str, new: str) -> None:
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))


def start(code: str, cache: Path, **environment: str) -> subprocess.Popen[str]:
    """Python, in a process (and a process group) of its own, with this cache of extensions."""
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "TORCH_EXTENSIONS_DIR": str(cache), "PYTHONPATH": str(ROOT), **environment},
        cwd=cache.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_another_name_for_another_source(folder: Path) -> None:
    names = {library_path(folder)}
    assert library_path(folder) in names  # the same again
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        path.write_text(path.read_text() + "\n")
        names.add(library_path(folder))
    assert len(names) == 1 + 3


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [
        ("torch", "__version__", "2.99"),
        ("torch.version", "git_version", "0"),
    ],
)
def test_another_name_for_other_versions(
    monkeypatch: pytest.MonkeyPatch, folder: Path, owner: str, name: str, value: object
) -> None:
    before = library_path(folder)
    monkeypatch.setattr(f"{owner}.{name}", value)
    assert library_path(folder) != before


def test_another_name_for_other_flags(folder: Path) -> None:
    assert library_path(folder, cflags=("-O3",)) != library_path(folder)


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "cache"))
    with pytest.raises(ToolchainMissing, match=r"no C\+\+ compiler \(no-such-compiler .* apt install g\+\+"):
        load(folder)


def test_no_ninja(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiler = tmp_path / "c++"
    compiler.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setitem(sys.modules, "ninja", None)
    assert toolchain_missing() == "no ninja: pip install ninja"


def test_no_python_headers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(build.shutil, "which", lambda tool: tool)
    monkeypatch.setattr(build.sysconfig, "get_path", lambda name: str(tmp_path))
    assert str(toolchain_missing()).startswith(f"no Python headers ({tmp_path}/Python.h): ")


def test_the_path_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.environ["PATH"]
    with build._ninja_on_path():
        assert os.environ["PATH"] != before
        assert shutil.which("ninja")
    assert os.environ["PATH"] == before
    monkeypatch.delenv("PATH")
    with build._ninja_on_path():
        pass
    assert "PATH" not in os.environ


@pytest.mark.slow
def test_importing_builds_and_loads_nothing(tmp_path: Path) -> None:
    code = "import sys, torch, torch_impl; print(torch.ops.loaded_libraries, 'torch_impl.native.build' in sys.modules)"
    process = start(code, tmp_path / "cache")
    assert process.communicate()[0] == "set() False\n"
    assert not (tmp_path / "cache").exists()


@pytest.mark.slow
@needs_toolchain
def test_a_cached_library_loads_fast_and_without_a_compiler(tmp_path: Path) -> None:
    torch_impl.attn_native  # noqa: B018 (compiled, if it was not)
    code = """
import time, torch
start = time.perf_counter()
import torch_impl
torch_impl.attn_native
print(time.perf_counter() - start)
"""
    cache = library_path().parents[1]
    seconds = [float(start(code, cache, PATH="").communicate()[0]) for _ in range(3)]
    assert min(seconds) < 1


@pytest.mark.slow
@rotating(4, turn=3)
def test_a_run_without_a_compiler(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    arguments = ["run", "--only", "vjp", "--dtype", "float64", "--json", str(report)]
    code = f"from parity_tests.cli.app import app; app({arguments!r})"
    process = start(code, tmp_path / "cache", CXX="no-such-compiler", COLUMNS="200")
    output, _ = process.communicate()
    assert process.returncode == 0, output
    assert output.count("not built") == 4  # two cells, two reasons
    assert "attn_native, not built: the native operators cannot be compiled here: no C++ compiler" in output
    assert "All agree: 4 rows" in output
    assert '"name": "attn_native"' in report.read_text()


@pytest.mark.slow
@rotating(4, turn=2)
@needs_toolchain
def test_several_processes_compile_once_what_a_killed_one_has_begun(tmp_path: Path, folder: Path) -> None:
    code = f"""
import pathlib, torch
from torch_impl.native.build import load
load(pathlib.Path({str(folder)!r}))
print(torch.ops.gradparity_copy.halved(torch.ones(1)).item())
"""
    cache = tmp_path / "cache"
    killed = start(code, cache)
    while not list(cache.glob("*/*.build/build.ninja")):
        assert killed.poll() is None
        time.sleep(0.1)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert not list(cache.glob("*/*.so"))

    processes = [start(code, cache) for _ in range(2)]
    outputs, errors = zip(*[process.communicate() for process in processes], strict=True)
    assert outputs == ("0.5\n",) * 2, errors
    # After it how far it is, now and then; before it what PyTorch warns of while it is imported.
    begins = re.compile(r"^(?:compiling|waiting) .*", re.MULTILINE)
    beginnings = sorted(begins.findall(error)[0] for error in errors)
    assert [line.split()[0] for line in beginnings] == ["compiling", "waiting"]
    assert beginnings[0] == "compiling the native operators of gradparity_copy, about 20 s, once"
    assert all(line.endswith(", which compiles the native operators of gradparity_copy") for line in beginnings[1:])
    assert len(list(cache.glob("*/*.so"))) == 1
    assert not list(cache.glob("*/*.build"))


KERNELS = "csrc/kernels.cpp"
# What is replaced by what in which file, and what the error says; {folder} is the operators' folder.
ERRORS = {
    "an unknown function and an unknown name": (
        [
            ("derivatives.yaml", "(self * scale).cos()", "gradparity_copy::cosine(self * scale)"),
            ("derivatives.yaml", "self: grad.mm(", "self: grand.mm("),
        ],
        [
            r"{folder}/derivatives.yaml:2: scaled_sin\(.*\) -> Tensor, self\n  self: grad .*\n  .*cosine",
            r"{folder}/derivatives.yaml:\d+: mm\(.*\) -> Tensor, self\n  self: grand.*\n  .*grand",
        ],
    ),
    "a function that is not defined": (
        [
            (KERNELS, "at::mul(self, 0.5)", "half(self)"),
            (KERNELS, "at::Tensor halved", "at::Tensor half(const at::Tensor& self);\n\nat::Tensor halved"),
        ],
        [r"declared, but not defined:\n  gradparity_copy::native::half\(at::Tensor const&\)"],
    ),
    "a kernel with other arguments": (
        [(KERNELS, "halved(const at::Tensor& self)", "halved(const at::Tensor& self, bool up)")],
        [r"{folder}/native_functions.yaml:\d+: halved\(.*\n  no function in {folder}/csrc is its kernel"],
    ),
    "a kernel with another result": (
        [(KERNELS, "at::Tensor halved(", "double halved(")],
        [r"{folder}/csrc/kernels.cpp:\d+:\d+: error: .*halved"],
    ),
}


# What GNU's compiler and PyTorch's loader print of the three errors whose builds are soak tests.
PRINTED = {
    "a function that is not defined": (
        "Could not load this library: x.so: undefined symbol: _ZN15gradparity_copy6native4halfERKN2at6TensorE"
    ),
    "a kernel with other arguments": (
        "Could not load this library: x.so: undefined symbol: _ZN15gradparity_copy6native6halvedERKN2at6TensorE"
    ),
    "a kernel with another result": (
        "In file included from {folder}/csrc/kernels.cpp:1:\n"
        "{folder}/csrc/kernels.cpp:31:8: error: ambiguating new declaration of 'double gradparity_copy::native::halved"
        "(const at::Tensor&)'\n   31 | double halved(const at::Tensor& self) {{\n"
    ),
}


@pytest.mark.skipif(shutil.which("c++filt") is None, reason="the names of functions need c++filt")
@pytest.mark.parametrize("error", PRINTED)
def test_explanation_of_what_was_printed(folder: Path, error: str) -> None:
    changes, says = ERRORS[error]
    for name, old, new in changes:
        replace(folder / name, old, new)
    printed = PRINTED[error].format(folder=folder)
    message = build._explain(printed, folder, build.read(folder), codegen.generate(folder)["ops.cpp"])
    for pattern in says:
        assert re.search(pattern.format(folder=re.escape(str(folder))), message), message


@needs_toolchain
@pytest.mark.parametrize(
    "error",
    [pytest.param(error, marks=pytest.mark.soak if error in PRINTED else pytest.mark.slow) for error in ERRORS],
)
def test_error_in_the_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path, error: str) -> None:
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "cache"))
    changes, says = ERRORS[error]
    for name, old, new in changes:
        replace(folder / name, old, new)
    with pytest.raises(BuildError) as raised:
        load(folder)
    message = str(raised.value)
    for pattern in says:
        assert re.search(pattern.format(folder=re.escape(str(folder))), message), message
    assert len(message.splitlines()) <= 16  # and not pages of the compiler's
    log = Path(message.rsplit(" ", 1)[1])
    assert log.is_file()
    assert not list(log.parent.glob("*.so"))
