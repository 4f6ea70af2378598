"""`--stub`: a file is read although it imports what is not installed, and whatever needs that says so."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from parity_tests.cli.app import app
from parity_tests.cli.sources.stubs import NotBuiltHere, check_stubs, stubbed

SCAN = """
import torch
import not_built_scan
import not_built.language as nl
from not_built.runtime import Kernel


@not_built_scan.jit(blocks=4)
def kernel(pointer, BLOCK: nl.constexpr):
    pass


class Own(Kernel):
    pass


def built(x):
    return not_built_scan.forward(x)


def fallback(x):
    return torch.cumsum(x, -1)


def wrong(x):
    return torch.cumsum(x, -1) * 1.01


def reference(x):
    return x @ torch.ones(x.shape[-1], x.shape[-1], dtype=x.dtype).triu()
"""
STUBS = ("--stub", "not_built_scan", "--stub", "not_built")
OPTIONS = ("--only", "vjp", "--dtype", "float64", "--device", "cpu", "--no-isolate", "--quick")


def judged(path: Path, name: str, *options: str) -> tuple[int, str]:
    given = ("--reference", f"{path}:reference", "--inputs", "x: (n,d)", *options, *OPTIONS)
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["check", f"{path}:{name}", *given])
    return result.exit_code, " ".join(result.output.split())


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    path = tmp_path / "scan.py"
    path.write_text(SCAN, encoding="utf-8")
    return path


def test_the_error_names_the_option(scan: Path) -> None:
    code, said = judged(scan, "fallback")
    assert code == 2
    assert "if nothing that is judged calls it, --stub not_built_scan stands for it" in said


@pytest.mark.slow
def test_right_and_wrong_code_beside_what_is_missing(scan: Path) -> None:
    code, said = judged(scan, "fallback", *STUBS)
    assert code == 0, said
    code, said = judged(scan, "wrong", *STUBS)
    assert code == 1, said
    assert "--stub not_built_scan --stub not_built" in said
    code, said = judged(scan, "built", *STUBS)
    assert code == 1, said
    assert "not_built_scan.forward is not here" in said


def test_nobody_else_sees_a_stub() -> None:
    before = [*sys.meta_path]
    with stubbed(["not_built.inner"]):
        inner = importlib.import_module("not_built.inner.deeper")
        assert inner.f(1)[2](3)
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("not_built.other")
    assert sys.meta_path == before
    assert not any(name.startswith("not_built") for name in sys.modules)
    with pytest.raises(NotBuiltHere, match=r"not_built\.inner\.deeper\.f is not here"):
        inner.f(1)


@pytest.mark.parametrize(
    ("name", "says"), [("torch", "is installed"), ("torch.nn", "is installed"), ("a-b", "no name of a module")]
)
def test_what_needs_no_stub_is_refused(name: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        check_stubs([name])
