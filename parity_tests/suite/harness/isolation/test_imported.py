"""A module that has changed since it was imported is known by its file, wherever that lies."""

from __future__ import annotations

import importlib
import os
import sys
import time
from pathlib import Path

import pytest

from parity_tests.harness.isolation.imported import imported, stamps


def test_a_module_that_changes_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "module_that_changes.py"
    file.write_text("X = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    os.utime(file, ns=(0, time.time_ns() - 10**9))
    began = time.time_ns()
    monkeypatch.setitem(sys.modules, "module_that_changes", importlib.import_module("module_that_changes"))
    known = imported({}, began)
    assert known[file] is not None
    assert stamps(known) == known
    file.write_text("X = 2\n")
    assert {path for path, stamp in stamps(known).items() if known[path] != stamp} == {file}
    assert imported(known, began) == known, "a process imports a module once"
    assert imported({}, began)[file] is None, "who knows which of both was read"
    assert not any("site-packages" in str(path) for path in known)
