"""`gradparity` as a user starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from typer.testing import CliRunner, Result

from parity_tests.cli.app import app

ROOT = Path(__file__).parents[3]
SPEC = """\
import os
import re
import signal
import time

import jax.numpy as jnp
import torch
from parity_tests import OpSpec

spec = OpSpec("square", primal=lambda x: x * x, signature="(n,m)->(n,m)")
"""
RIGHT = SPEC + "candidate = torch.square\n"
WRONG = SPEC + "candidate = lambda x: 1.5 * x * x\n"
FEW = ("--only", "forward", "--dtype", "float64", "--device", "cpu")


def case(folder: Path, text: str) -> Path:
    """A case file."""
    path = folder / "case.py"
    path.write_text(text, encoding="utf-8")
    return path


def here(*arguments: object, **environment: str) -> Result:
    """In this process, which takes no time to start."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200", **environment})


def environment(**more: str) -> Mapping[str, str]:
    """Of another process."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200", **more}


def command(*arguments: object) -> list[str]:
    """In another process."""
    return [sys.executable, "-m", "parity_tests", *map(str, arguments)]


def program(folder: Path, *arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
    """In another process, in a folder; its output and exit code."""
    return subprocess.run(
        command(*arguments),
        cwd=folder,
        env=environment(**more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def started(folder: Path, *arguments: object) -> subprocess.Popen[str]:
    """In another process, in a folder and a process group of its own, for whoever sends it signals."""
    return subprocess.Popen(
        command(*arguments),
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
