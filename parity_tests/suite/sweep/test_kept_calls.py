"""What was recorded is read as it was written, and a file of another version, or half a file, is not read."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest
import torch

from parity_tests.sweep import kept_calls
from parity_tests.sweep.calls import record_opinfo
from parity_tests.sweep.kept_calls import KeptCalls, as_bytes, root
from parity_tests.sweep.recorded_calls import RecordedCall

WANTED = frozenset({"aten::f"})


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path):
    before = jax.config.values["jax_compilation_cache_dir"]
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    kept_calls.folder_name.cache_clear()
    yield
    jax.config.update("jax_compilation_cache_dir", before)
    kept_calls.folder_name.cache_clear()


EVERYTHING = {
    "array": np.array([[0.0, -0.0], [np.inf, np.nan]]),
    "number": np.array(1 + 2j),
    "empty": np.zeros((0, 3)),
    "integers": np.array([1, 2]),
    "list": [np.ones(2), None, np.zeros(1)],
    "dtype": np.dtype("complex64"),
    "values": [1, 0.1, -0.0, float("inf"), True, "mean", 2 - 3j, None],
}


def a_call(**arguments: object) -> RecordedCall:
    return RecordedCall("aten::f", arguments, (np.ones(3), None, [np.zeros(2)]), "here")


def same(x: object, y: object) -> bool:
    if isinstance(x, np.ndarray):
        return isinstance(y, np.ndarray) and x.dtype == y.dtype and x.tobytes() == y.tobytes() and x.shape == y.shape
    if isinstance(x, list | tuple):
        return type(x) is type(y) and len(x) == len(y) and all(map(same, x, y))
    return type(x) is type(y) and repr(x) == repr(y)


def test_calls_are_read_as_they_were_written():
    KeptCalls(WANTED).write("unit", [a_call(**EVERYTHING), a_call()])
    kept = KeptCalls(WANTED).read("unit")
    assert kept is not None
    assert [(call.name, call.source) for call in kept] == 2 * [("aten::f", "here")]
    assert all(same(value, kept[0].arguments[name]) for name, value in EVERYTHING.items())
    assert same(kept[0].results, a_call().results)
    assert KeptCalls(WANTED).names("unit") == WANTED


@pytest.mark.parametrize("changed", ["torch", "numpy", "the operators", "the code"])
def test_a_file_of_another_version_is_not_read(changed, monkeypatch, tmp_path):
    (code := tmp_path / "code.py").write_text("a way to record")
    KeptCalls(WANTED, (code,)).write("unit", [a_call()])
    assert KeptCalls(WANTED, (code,)).read("unit") is not None
    wanted = WANTED
    if changed == "torch":
        monkeypatch.setattr(torch, "__version__", "0.0")
    elif changed == "numpy":
        monkeypatch.setattr(np, "__version__", "0.0")
    elif changed == "the code":
        code.write_text("another way to record")
    else:
        wanted = WANTED | {"aten::g"}
    kept_calls.folder_name.cache_clear()
    assert KeptCalls(wanted, (code,)).read("unit") is None
    assert KeptCalls(wanted, (code,)).names("unit") is None


def _file() -> Path:
    return next(root().rglob("*.npz"))


DAMAGES = {
    "half of it": lambda data: data[: len(data) // 2],
    "nothing": lambda data: b"",
    "text": lambda data: b"not an archive",
    "other bytes": lambda data: data[:60] + bytes(40) + data[100:],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_recorded_again(damage):
    first = record_opinfo("sinh", "float64")
    _file().write_bytes(DAMAGES[damage](_file().read_bytes()))
    again = record_opinfo("sinh", "float64")
    assert [call.name for call in again] == [call.name for call in first] != []
    assert all(same(dict(x.arguments)["self"], dict(y.arguments)["self"]) for x, y in zip(first, again, strict=True))
    assert _file().read_bytes() == as_bytes(first)


def test_what_a_killed_process_was_about_to_write_is_not_read(monkeypatch):
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", killed)
    with pytest.raises(KeyboardInterrupt):
        KeptCalls(WANTED).write("unit", [a_call()])
    assert KeptCalls(WANTED).read("unit") is None


def test_what_is_kept_is_not_recorded_again(monkeypatch):
    first = record_opinfo("sinh", "float64")
    monkeypatch.setattr("parity_tests.sweep.calls.recorded_calls", None)
    assert len(record_opinfo("sinh", "float64")) == len(first)


def test_without_a_folder_to_write_to_nothing_is_lost(tmp_path):
    (tmp_path / "gradparity-calls").write_text("a file where the folder would be")
    assert record_opinfo("sinh", "float64")


def test_folders_of_the_newest_versions_only_are_left(monkeypatch):
    for version in range(5):
        monkeypatch.setattr(torch, "__version__", str(version))
        kept_calls.folder_name.cache_clear()
        KeptCalls(WANTED).write("unit", [a_call()])
    assert len(list(root().iterdir())) == 3
    assert KeptCalls(WANTED).read("unit") is not None
