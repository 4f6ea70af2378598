"""A compiler that does not compile, a cache that cannot be written, a build that takes its time."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from filelock import FileLock

from jax_ref.ffi import CompilerMissing, _build
from torch_impl.native import build
from torch_impl.native.build import ToolchainMissing, compiler_missing, how_far, library_path, load, toolchain_missing

from ._program import program

WAVE = Path(__file__).parents[1] / "torch_impl" / "wave"
needs_toolchain = pytest.mark.skipif(toolchain_missing() is not None, reason=f"compiles: {toolchain_missing()}")

BROKEN = {
    "/bin/false": "the C++ compiler /bin/false does not compile (exit code 1); name another in the environment",
    "'c++": "the environment variable CXX is no command (No closing quotation): 'c++",
    " ": "no C++ compiler ( is not on the PATH): install one",
    "no-such-compiler -O2": "no C++ compiler (no-such-compiler is not on the PATH): install one",
}


@pytest.mark.parametrize("command", BROKEN)
def test_a_compiler_that_does_not_compile(command: str) -> None:
    found = compiler_missing(command)
    assert found is not None
    assert found.startswith(BROKEN[command])


@needs_toolchain
def test_a_compiler_that_does() -> None:
    assert compiler_missing(build._compiler()) is None


@pytest.mark.parametrize("command", BROKEN)
def test_so_the_operators_are_not_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str) -> None:
    """A ToolchainMissing is a candidate that is not built, which a run may lack."""
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    monkeypatch.setenv("CXX", command)
    with pytest.raises(ToolchainMissing, match=r"^the native operators cannot be compiled here: "):
        load(WAVE)


@pytest.mark.parametrize("command", BROKEN)
def test_nor_are_the_kernels_of_jax(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", command)
    with pytest.raises(CompilerMissing, match=r"^the kernels of jax_ref.ffi cannot be compiled here: "):
        _build._compile(_build.SOURCES, _build.library_path(_build.SOURCES))


def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "file" / "extensions"))
    says = f"^the native operators cannot be compiled: {tmp_path}/file/extensions cannot .*TORCH_EXTENSIONS_DIR$"
    with pytest.raises(ToolchainMissing, match=says):
        load(WAVE)


def test_a_cache_of_jax_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if toolchain_missing() is not None:
        pytest.skip("there is no compiler, which is told first")
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(CompilerMissing, match=f"{tmp_path}/file/gradparity cannot be written .*XDG_CACHE_HOME"):
        _build._compile(_build.SOURCES, _build.library_path(_build.SOURCES))


# How far a build is.


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Of operators that are being compiled: one of three files is done."""
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    path = library_path(WAVE)
    staging = path.with_suffix(".build")
    staging.mkdir(parents=True)
    (staging / "process").write_text("4321")
    (staging / "build.ninja").write_text("".join(f"build {name}.o: compile {name}.cpp\n" for name in "abc"))
    (staging / "a.o").touch()
    return path


def test_how_far_a_build_is(library: Path) -> None:
    assert how_far(library, 31.4) == "1 of 3 files, 31 s"
    (library.with_suffix(".build") / "b.o").touch()
    assert how_far(library, 40.0) == "2 of 3 files, 40 s"


def test_how_far_a_build_is_that_has_not_begun(tmp_path: Path) -> None:
    assert how_far(tmp_path / "nothing.so", 2.0) == "2 s"


@pytest.mark.slow
def test_it_is_said_once_what_is_waited_for(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another process holds the lock; off a terminal one line says so, however long it takes."""
    other, mine = (FileLock(library.with_suffix(".lock")) for _ in range(2))
    with other:
        thread = threading.Thread(target=build._acquire, args=(mine, library, "mine"))
        thread.start()
        thread.join(2.5)
        assert thread.is_alive()
    thread.join(60)
    mine.release(force=True)
    assert capsys.readouterr().err == "waiting for process 4321, which compiles the native operators of mine\n"


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["CXX", "TORCH_EXTENSIONS_DIR"])
def test_a_run_goes_on_without_them(tmp_path: Path, broken: str) -> None:
    """As it does without a compiler: what is not built is told, and the rest is judged."""
    (tmp_path / "file").touch()
    folder = {"CXX": str(tmp_path), "TORCH_EXTENSIONS_DIR": str(tmp_path / "file" / "x")}[broken]
    options = ("--only", "forward", "--dtype", "float64", "--device", "cpu", "--json", "report.json")
    compiler = {"CXX": "/bin/false"} if broken == "CXX" else {}
    ran = program(tmp_path, "run", *options, TORCH_EXTENSIONS_DIR=folder, **compiler)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "attn_native, not built: the native operators cannot be compiled" in ran.stdout
    assert "All agree: 4 rows" in ran.stdout
    assert ran.stderr == ""
    assert {candidate["name"] for candidate in json.loads((tmp_path / "report.json").read_text())["not_built"]} == {
        "attn_native",
        "attn_native_implicit",
    }
