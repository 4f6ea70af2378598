"""--watch: a change of a file that is judged, or that it uses, is judged by a new process."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from parity_tests.cli import watch as watching
from parity_tests.cli.app import app
from parity_tests.cli.interruption import Interruption
from parity_tests.cli.served import Served
from parity_tests.cli.sources.against_reference import against_reference
from parity_tests.cli.sources.apart import Apart
from parity_tests.cli.used_files import used_by
from parity_tests.cli.watch import Kept, _once, _round_by
from parity_tests.harness.isolation.imported import stamps
from parity_tests.suite.cli._square import FUNCTION, RIGHT, SPEC, WRONG, gradparity

ROOT = Path(__file__).resolve().parents[3]


def names(folder: Path, *files: str) -> set[str]:
    return {str(path.relative_to(folder)) for path in used_by([folder / name for name in files])}


def test_what_a_file_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    files = {
        "case.py": "import torch, helper\nfrom package.inner import f\nsources = ['kernel.cu', 'nosuch.cu', '.']\n",
        "helper.py": "def f():\n    import deep\n    from case import spec\n",
        "deep.py": "x = 'a' * 3 + '\\0' + 'b' * 5000\n",
        "unused.py": "",
        "kernel.cu": "import unused",
        "package/__init__.py": "",
        "package/inner.py": "from . import beside\nfrom .beside import x\nfrom ..above import y\nfrom .. import *\n",
        "package/beside.py": "def broken(:\n",
        "above.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert names(tmp_path, "case.py") == files.keys() - {"unused.py"}
    assert names(tmp_path, "deep.py", "unused.py", "gone.py") == {"deep.py", "unused.py", "gone.py"}


def test_every_kind_of_change_is_seen(tmp_path: Path):
    path, other = tmp_path / "case.py", tmp_path / "other.py"
    seen = [stamps([path])]

    def look() -> None:
        seen.append(stamps([path]))
        assert seen[-1] != seen[-2]

    path.write_text("1")
    look()
    os.utime(path, ns=(0, 0))
    look()
    other.write_text("2")  # an editor that writes beside it, and renames
    os.utime(other, ns=(0, 0))
    other.replace(path)
    look()
    path.unlink()
    look()


def test_a_round_is_started_as_the_watch_was():
    own = ["-P", "-m", "gradparity", "check", "--watch", "--", "-case.py"]
    expected = ["-P", "-m", "gradparity", "check", "--watch", "--no-watch", "--failed-first", "--", "-case.py"]
    assert _once(own) == expected


def test_what_is_installed_is_not_watched():
    result = gradparity("run", "--watch")
    assert result.exit_code == 2
    assert result.stderr == "gradparity: --watch: run judges what is installed, and no file of yours\n"


def kernel_in(folder: Path, gradient: str) -> tuple[str, ...]:
    """Write a kernel and its reference; returns the arguments that name them."""
    (folder / "kernel.py").write_text("import torch\n" + FUNCTION.format(gradient=gradient) + "\nf = Square.apply\n")
    (folder / "reference.py").write_text("def square(x):\n    return x * x\n")
    return (f"{folder / 'kernel.py'}:f", "--reference", f"{folder / 'reference.py'}:square", "--inputs", "x: (n,m)")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere no kernel is served")
@pytest.mark.parametrize(
    ("options", "is_served"),
    [
        (("--only", "forward,vjp"), True),
        ((), False),  # all checks
        (("--only", "vjp,vjp_of_vjp"), False),
        (("--only", "vjp", "--no-isolate"), False),
        (("--only", "vjp", "--untrusted"), False),
        (("--only", "vjp", "--stub", "nosuch"), False),
    ],
)
def test_processes_stay_if_what_is_asked_for_is_judged_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], is_served: bool
):
    seen = []

    def watch(files: object, interruption: object, kept: object) -> None:
        seen.append(kept is not None)
        raise KeyboardInterrupt

    monkeypatch.setattr(watching, "watch", watch)
    result = CliRunner().invoke(app, ["check", *kernel_in(tmp_path, "x"), "--watch", *options])
    assert (result.exit_code, seen) == (130, [is_served]), result.output


def test_a_case_file_is_judged_by_a_new_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    case, seen = tmp_path / "case.py", []
    case.write_text(RIGHT)

    def watch(files: object, interruption: object, kept: object) -> None:
        seen.append(kept)
        raise KeyboardInterrupt

    monkeypatch.setattr(watching, "watch", watch)
    assert CliRunner().invoke(app, ["check", str(case), "--watch", "--only", "vjp"]).exit_code == 130
    assert seen == [None]


def test_a_round_that_hangs_is_ended_by_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, interruption = tmp_path / "kernel.py", Interruption()
    path.write_text("1")
    before = stamps([path])
    monkeypatch.setattr(watching, "_PATIENCE", 0.0)

    def judge(arguments: object) -> None:
        path.write_text("2, as the user has mended it")
        until = time.monotonic() + 30
        while time.monotonic() < until:
            interruption.check()
            time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        _round_by(Kept(judge, interruption), before)
    assert not interruption.came
    monkeypatch.setattr(watching, "_PATIENCE", 60.0)
    _round_by(Kept(lambda arguments: time.sleep(0.5), interruption), before)  # which ends by itself
    assert not interruption.came


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere no kernel is served")
@pytest.mark.parametrize(("changed", "stays"), [("kernel.py", True), ("table.json", False), ("fast.py", False)])
def test_another_process_judges_by_another_reference(tmp_path: Path, changed: str, stays: bool):
    name, *_ = kernel_in(tmp_path, "x")
    reference = tmp_path / "reference.py"
    reference.write_text("import json\ntry:\n    import fast\nexcept ImportError:\n    square = open('table.json')\n")
    source = replace(
        against_reference(name, f"{reference}:square", "x: (n,m)", None, None), apart=Apart(1.0, (), forked=True)
    )
    with contextlib.closing(Served()) as served:
        pool = served.pool([source])
        assert served.pool([source]) is pool
        (tmp_path / changed).write_text("3")
        assert (served.pool([source]) is pool) is stays
        again = served.pool([source])
        assert served.pool([source]) is again


class Watch:
    """`gradparity check --watch` in a process, and what it prints."""

    def __init__(self, folder: Path, *judged: str) -> None:
        few = ("--only", "forward,vjp", "--dtype", "float64", "--device", "cpu", "-q", "--failures", "failures")
        self._log = folder / "log"
        environment = os.environ | {"XDG_CACHE_HOME": str(folder), "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
        # A shell may have it ignored, and what is ignored here would be ignored there.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with self._log.open("wb") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "gradparity", "check", *judged, *few, "--watch"],
                    cwd=folder,
                    env=environment,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        finally:
            signal.signal(signal.SIGINT, before)

    def until(self, pattern: str, seconds: float = 120) -> str:
        """All that is printed, once it has this."""
        end = time.monotonic() + seconds
        while not re.search(pattern, text := self._log.read_text(encoding="utf-8"), re.DOTALL):
            assert time.monotonic() < end, text
            assert self._process.poll() is None, text
            time.sleep(0.1)
        return text

    def interrupt(self) -> tuple[int, str]:
        """Ctrl-C: a signal to the whole group; returns the exit code, and what is printed."""
        os.killpg(self._process.pid, signal.SIGINT)
        return self._process.wait(60), self._log.read_text(encoding="utf-8")

    def end(self) -> None:
        """Leave no process."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[tuple[Watch, Path]]:
    """A watch over a case that imports its gradient from another file; that file."""
    (tmp_path / "gradient.py").write_text("factor = 1\n")
    case = tmp_path / "case.py"
    case.write_text(
        WRONG.replace("return x * output_bar", "return gradient.factor * x * output_bar", 1).replace(
            SPEC, "import gradient\n" + SPEC
        )
    )
    watch = Watch(tmp_path, str(case))
    yield watch, tmp_path / "gradient.py"
    watch.end()


@pytest.mark.slow
def test_a_change_of_an_imported_file_is_judged(watched: tuple[Watch, Path]):
    watch, gradient = watched
    first = watch.until("waiting for a change of case.py, gradient.py; Ctrl-C ends it")
    assert "1 of 3 rows do not pass" in first
    assert "All agree" not in first
    gradient.write_text("factor = 2\n")
    second = watch.until("All agree: 2 rows.*waiting for a change").removeprefix(first)
    assert "gradient.py changed: judging again\nfirst what failed in the last run: 1 row\n" in second
    gradient.write_text("factor = 3\n")
    watch.until("All agree: 2 rows.*gradient.py changed.*1 of 3 rows do not pass.*waiting for a change")
    code, text = watch.interrupt()
    assert code == 130
    assert text.endswith("; Ctrl-C ends it\ngradparity: interrupted\n")
    assert "Traceback" not in text


@pytest.mark.slow
def test_a_change_during_a_round_begins_another(watched: tuple[Watch, Path]):
    watch, gradient = watched
    time.sleep(1.5)  # it takes longer until PyTorch is imported
    gradient.write_text("factor = 2\n")
    text = watch.until("All agree: 2 rows.*waiting for a change")
    assert "rows do not pass" not in text
    code, _ = watch.interrupt()
    assert code == 130


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere no kernel is served")
def test_a_kernel_is_judged_by_processes_that_stay(tmp_path: Path):
    watch = Watch(tmp_path, *kernel_in(tmp_path, "x * output_bar"))
    try:
        first = watch.until("1 of 3 rows do not pass.*waiting for a change")
        kernel_in(tmp_path, "2 * x * output_bar")  # the reference is written again, too, with what it was
        second = watch.until("All agree: 2 rows.*waiting for a change").removeprefix(first)
        assert "first what failed in the last run: 1 row\n" in second
        (tmp_path / "kernel.py").write_text("import torch (\n")
        broken = watch.until("Nothing was judged.*waiting for a change").removeprefix(first + second)
        assert "kernel.py, line 1: SyntaxError" in broken
        kernel_in(tmp_path, "3 * x ** 2 * output_bar")
        for path in (tmp_path / "kernel.py", tmp_path / "reference.py"):  # another reference: its oracle is, too
            path.write_text(path.read_text().replace("x * x", "x ** 3"))
        watch.until("All agree: 2 rows.*All agree: 2 rows.*waiting for a change")
        code, text = watch.interrupt()
        assert (code, "Traceback" in text) == (130, False)
    finally:
        watch.end()
