"""A case file with a fault in it, judged by the command line in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from typer.testing import CliRunner

from parity_tests.cli.app import app

HEAD = """\
import functools
import jax
import jax.numpy as jnp
import numpy as np
import torch
from parity_tests import OpSpec

"""
SINE = 'spec = OpSpec("sine", primal=jnp.sin, signature="(n)->(n)")\n'


class Ran(NamedTuple):
    """What a command did: its exit code, what it printed, and the JSON report; None if it wrote none."""

    code: int
    printed: str
    report: dict[str, Any] | None

    @property
    def below(self) -> str:
        """What is printed below the table; a line for each row comes above it."""
        return self.printed.rpartition("└")[2]

    @property
    def verdicts(self) -> dict[tuple[str, str], str]:
        """By candidate and check."""
        assert self.report is not None, self.printed
        return {(row["candidate"], row["check"]): row["verdict"] for row in self.report["rows"]}


def check(folder: Path, text: str, *options: str, only: str = "forward,vjp") -> Ran:
    """Write `text` to a case file, after some imports, and judge it in float64."""
    case, report = folder / "case.py", folder / "report.json"
    case.write_text(HEAD + text, encoding="utf-8")
    where = ("--json", str(report), "--failures", str(folder / "failures"))
    fast = ("--device", "cpu", "--dtype", "float64", "--only", only, "--no-isolate")
    ran = CliRunner().invoke(app, ["check", str(case), *where, *fast, *options], env={"COLUMNS": "300"})
    return Ran(ran.exit_code, ran.output, json.loads(report.read_text("utf-8")) if report.is_file() else None)
