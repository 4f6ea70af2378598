"""Files for `gradparity replay` that anybody may have written: one line, exit code 2, and nothing in them is run."""

from __future__ import annotations

import io
import json
import pickle
import re
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from parity_tests.cli.app import app
from parity_tests.harness.judging.plan import shrinking_for
from parity_tests.harness.specs.samples import Sample
from parity_tests.suite.faults._run import SINE, check

Arrays = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def failure(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The .npz of a wrong gradient, beside its case."""
    folder = tmp_path_factory.mktemp("found")
    text = (
        "class Wrong(torch.autograd.Function):\n"
        "    @staticmethod\n    def forward(ctx, x):\n        ctx.save_for_backward(x)\n        return torch.sin(x)\n"
        "    @staticmethod\n    def backward(ctx, w):\n        return -w * torch.cos(*ctx.saved_tensors)\n"
        "candidate = Wrong.apply\n"
    )
    with shrinking_for(60.0):
        assert check(folder, SINE + text, only="vjp").code == 1
    (path,) = (folder / "failures").glob("*.npz")
    return path


def replay(path: Path, *options: str) -> tuple[int, str, str]:
    """The exit code, what is printed as the result, and what is printed beside it."""
    ran = CliRunner().invoke(app, ["replay", str(path), *options], env={"COLUMNS": "300"})
    return ran.exit_code, ran.stdout, ran.stderr


def spoilt(failure: Path, folder: Path, change: Callable[[dict[str, Any], Arrays], Any]) -> Path:
    """The failure with its facts, or arrays, changed; or with what `change` returns for facts."""
    with np.load(failure) as data:
        arrays = dict(data)
    facts = json.loads(str(arrays.pop("facts")))
    returned = change(facts, arrays)
    path = folder / "spoilt.npz"
    np.savez(path, facts=np.array(json.dumps(facts if returned is None else returned)), **arrays)
    return path


def refused(path: Path, *options: str) -> str:
    """The one line that a replay ends with; nothing else may be printed."""
    code, out, err = replay(path, *options)
    assert (code, out) == (2, ""), out
    (line,) = [line for line in err.splitlines() if not line.startswith("gradparity: running ")]
    assert line.startswith(f"gradparity: {path}: ")
    assert "pickle" not in line
    return line.removeprefix(f"gradparity: {path}: ")


def _without(name: str) -> Callable[[dict[str, Any], Arrays], None]:
    def change(facts: dict[str, Any], arrays: Arrays) -> None:
        del facts[name]

    return change


def _with(**changes: Any) -> Callable[[dict[str, Any], Arrays], None]:
    return lambda facts, arrays: facts.update(changes)


FACTS = [
    (lambda facts, arrays: [1, 2], "not a failure that gradparity has written (its facts are a list where an object"),
    (lambda facts, arrays: "text", "not a failure that gradparity has written (its facts are a str where an object"),
    (_without("format"), "is of format None, this version of gradparity reads 1"),
    (_with(format=99), "is of format 99, this version of gradparity reads 1"),
    (_with(format={"a": 1}), "is of format {'a': 1}, this version of gradparity reads 1"),
    *[
        (_without(name), f"its facts have no {name!r}")
        for name in ("op", "candidate", "check", "dtype", "device", "sizes", "seed", "given", "versions", "case")
    ],
    (_with(position="first"), "'position' in its facts must be a number, and is 'first'"),
    (_with(seed=-1), "'seed' in its facts must be a number or null, and is -1"),
    (_with(seed=True), "'seed' in its facts must be a number or null, and is True"),
    (_with(sizes=[4]), "'sizes' in its facts must be an object, and is [4]"),
    (_with(sizes={"n": "x" * 1000}), "the size of 'n' in its facts must be a number, and is 'xxxxxxxx"),
    (_with(sizes={}), "does not fit the spec sine: it has no size of the axis n"),
    (_with(sizes={"n": 7}), "does not fit the spec sine: x has the shape (1,), not (7,)"),
    (_with(versions=["1"]), "'versions' in its facts must be an object, and is ['1']"),
    (_with(case=3), "'case' in its facts must be text or null, and is 3"),
    (_with(origin=[1]), "'origin' in its facts must be an object or null, and is [1]"),
    (_with(origin={"kernel": 3}), "'kernel' of the origin in its facts must be text, and is 3"),
    (
        _with(case=None, origin={"kernel": "/no/such.py:f", "reference": "/no/such.py:g"}),
        "its kernel /no/such.py no longer exists; write a case file, and say so: --case FILE",
    ),
    (_with(case="\x1b[31m/case.py"), "the name of its case, '\\x1b[31m/case.py', is no name of a file"),
    (_with(case="case\0.py"), "the name of its case, 'case\\x00.py', is no name of a file"),
    (_with(case="/no/such/case.py"), "its case /no/such/case.py no longer exists; say where it is: --case FILE"),
    (lambda facts, arrays: arrays.clear(), "does not fit the spec sine(x): it has none of its inputs"),
]


@pytest.mark.parametrize(("change", "message"), FACTS, ids=[message for _, message in FACTS])
def test_facts_that_cannot_be_used(failure, tmp_path, monkeypatch, change, message):
    monkeypatch.chdir(failure.parent.parent)
    assert refused(spoilt(failure, tmp_path, change)).startswith(message)


def test_names_that_are_not_known(failure, tmp_path, monkeypatch):
    monkeypatch.chdir(failure.parent.parent)
    for change in ("candidate", "check", "dtype", "device"):
        path = spoilt(failure, tmp_path, _with(**{change: "\x1b[31mother"}))
        code, out, err = replay(path)
        assert (code, out) == (2, "")
        expected = (
            "device \\x1b[31mother cannot be judged here"
            if change == "device"
            else f"unknown {change} '\\x1b[31mother'"
        )
        assert expected in err
        assert "\x1b" not in err


def test_versions_that_are_not_known_are_told(failure, tmp_path, monkeypatch):
    monkeypatch.chdir(failure.parent.parent)
    path = spoilt(failure, tmp_path, _with(versions={"torch": 3, "cobol": "1959"}))
    code, out, _ = replay(path)
    assert code == 1
    assert "skipped: the failure was found with torch 3; this is " in out
    assert "skipped: the failure was found with cobol 1959; it plays no part here" in out


def test_arrays_of_other_shapes_are_no_disagreement(failure, tmp_path, monkeypatch):
    monkeypatch.chdir(failure.parent.parent)
    path = spoilt(failure, tmp_path, lambda facts, arrays: arrays.update({"drawn.output_bar 0": np.ones((2, 2))}))
    code, out, _ = replay(path)
    assert code == 2
    assert "the array 'output_bar 0' has the shape (2, 2), expected (1,)" in out


# Files that are no failures.


def _zipped(*members: tuple[str, bytes]) -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of two members with one name
        for name, data in members:
            archive.writestr(name, data)
    return memory.getvalue()


def _npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def _saved(x: np.ndarray, **options: Any) -> bytes:
    memory = io.BytesIO()
    np.save(memory, x, **options)
    return memory.getvalue()


class Runs:
    """Whoever unpickles it writes a file."""

    def __reduce__(self):
        """As pickle asks for it."""
        return Path.touch, (Path("it-was-run"),)


CLAIM = "{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000000,), }"
FILES = [
    ("empty", b"", "it is no whole .npz file: File is not a zip file"),
    ("text", b"text", "it is no whole .npz file: File is not a zip file"),
    ("pickled", pickle.dumps(Runs()), "it is no whole .npz file: File is not a zip file"),
    ("a single array", _saved(np.ones(3)), "it is no whole .npz file: File is not a zip file"),
    ("no arrays", _zipped(), "it has no facts about a failure"),
    ("other arrays", _zipped(("x.npy", _saved(np.ones(3)))), "it has no facts about a failure"),
    ("no array", _zipped(("facts.txt", b"{}")), "'facts.txt' in it is no array"),
    ("twice", _zipped(("x.npy", _saved(np.ones(3))), ("x.npy", _saved(np.ones(3)))), "two of its arrays have one name"),
    ("objects", _zipped(("x.npy", _saved(np.array([Runs()])))), "'x.npy' in it holds Python objects, not numbers"),
    ("records", _zipped(("x.npy", _saved(np.zeros(2, "i4,f4")))), "'x.npy' in it holds "),
    ("facts as numbers", _zipped(("facts.npy", _saved(np.ones(3)))), "its facts are no text"),
    ("facts as a list", _zipped(("facts.npy", _saved(np.array(["{}", "{}"])))), "its facts are no text"),
    ("no JSON", _zipped(("facts.npy", _saved(np.array("{")))), "its facts are no JSON"),
    ("deep JSON", _zipped(("facts.npy", _saved(np.array("[" * 100_000)))), "its facts are no JSON"),
    ("no header", _zipped(("x.npy", b"abc")), "'x.npy' in it has no header of an array"),
    (
        "another header",
        _zipped(("x.npy", _npy("__import__('os').getpid()"))),
        "'x.npy' in it has no header of an array",
    ),
    ("73 TiB", _zipped(("x.npy", _npy(CLAIM))), "'x.npy' in it claims 72.8 TiB, and has "),
    (
        "a negative size",
        _zipped(("x.npy", _npy(CLAIM.replace("10000000000000", "-1")))),
        "'x.npy' in it has the shape (-1,)",
    ),
    ("cut off", _zipped(("x.npy", _npy(CLAIM.replace("10000000000000", "9"), b"\0" * 8))), "'x.npy' in it "),
]


@pytest.mark.parametrize(("data", "message"), [f[1:] for f in FILES], ids=[f[0] for f in FILES])
def test_files_that_are_no_failures(tmp_path, monkeypatch, data, message):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "file.npz"
    path.write_bytes(data)
    assert refused(path).startswith(f"not a failure that gradparity has written ({message}")
    assert not Path("it-was-run").exists()


def test_a_failure_that_is_cut_off(failure, tmp_path):
    path = tmp_path / "file.npz"
    for count in (10, 100, failure.stat().st_size - 30):
        path.write_bytes(failure.read_bytes()[:count])
        assert refused(path).startswith("not a failure that gradparity has written (it is no whole .npz file: ")


def test_a_directory_that_claims_more_than_there_may_be(tmp_path):
    """Before any array is looked at."""
    data = bytearray(_zipped(("x.npy", _saved(np.ones(3))), ("y.npy", _saved(np.ones(3)))))
    entry = -1
    while (entry := data.find(b"PK\x01\x02", entry + 1)) >= 0:
        data[entry + 24 : entry + 28] = struct.pack("<I", 0xFFFFFFFE)
    path = tmp_path / "file.npz"
    path.write_bytes(data)
    told = "not a failure that gradparity has written (it claims 8 GiB; 4 GiB are the most that is read)"
    assert refused(path) == told


@pytest.mark.slow
def test_a_small_file_that_claims_much(tmp_path: Path):
    """Half a megabyte of zeros is half a gigabyte, and would be held."""
    header = _npy(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({2**26},), }}")
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as member:
        member.write(header)
        for _ in range(2**9):
            member.write(bytes(2**20))
    assert path.stat().st_size < 2**20
    assert re.search(r"it claims 512 MiB, packed in \d+ KiB, which numbers of a failure never are", refused(path))


def test_a_folder_and_a_missing_file(tmp_path):
    assert refused(tmp_path) == "is a directory; give a file"
    assert refused(tmp_path / "nothing.npz") == "no such file"


# The case that a failure names is somebody else's.


def test_a_case_outside_of_the_current_folder_is_not_run(failure, tmp_path, monkeypatch):
    case = tmp_path / "theirs" / "case.py"
    case.parent.mkdir()
    case.write_text("from pathlib import Path\nPath(__file__).with_name('it-was-run').touch()\n")
    path = spoilt(failure, tmp_path, _with(case=str(case)))
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    line = refused(path)
    assert line == (
        f"its case {case} is outside of the current folder, and would be run; if it is yours, say so: --case {case}"
    )
    assert not case.with_name("it-was-run").exists()
    replay(path, "--case", str(case))
    assert case.with_name("it-was-run").exists()


def test_a_link_leads_out_of_the_current_folder(failure, tmp_path, monkeypatch):
    case = tmp_path / "theirs.py"
    case.write_text("raise SystemExit('it was run')\n")
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    Path("case.py").symlink_to(case)
    assert "is outside of the current folder" in refused(spoilt(failure, tmp_path, _with(case="case.py")))


def test_which_file_is_run_is_said(failure, monkeypatch):
    case = failure.parent.parent / "case.py"
    monkeypatch.chdir(case.parent)
    code, out, err = replay(failure)
    assert code == 1
    assert err == f"gradparity: running {case}, which {failure} names\n"
    assert "sine: Wrong disagrees with the oracle" in out


@pytest.mark.usefixtures("shrinking")
def test_the_command_that_a_failure_ends_with_names_a_case_elsewhere(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    ran = check(tmp_path, SINE + "candidate = torch.cos\n", only="forward")
    (line,) = (line for line in ran.printed.splitlines() if line.startswith("  replay "))
    assert line.endswith(f".npz --case {tmp_path}/case.py")
    monkeypatch.chdir(tmp_path)
    ran = check(tmp_path, SINE + "candidate = torch.cos\n", only="forward")
    (line,) = (line for line in ran.printed.splitlines() if line.startswith("  replay "))
    assert line.endswith(".npz")


def test_a_sample_of_other_arrays_refuses_them():
    sample = Sample("x", "", {}, ((2,),), (), 0, given={"w": np.ones(3)})
    with pytest.raises(ValueError, match=r"^the array 'w' has the shape \(3,\), expected \(2,\)$"):
        sample.draw("w", (2,))
