"""A name that a file lacks is told by its text; one that it may define by other means is left to running it."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity_tests.cli.sources.names_in_file import why_not_in

DEFINED = "def norm(x): ...\n\nclass Right: ...\n"


@pytest.mark.parametrize(
    ("text", "name", "told"),
    [
        (DEFINED, "norm", ""),
        (DEFINED, "Right.apply", ""),
        (DEFINED, "nrom", "has no nrom (did you mean 'norm'?); it defines norm, Right"),
        (DEFINED, "Rihgt.apply", "has no Rihgt.apply (did you mean 'Right'?); it defines norm, Right"),
        ("scale = 2\n", "scal", "has no scal (did you mean 'scale'?)"),
        ("", "norm", "has no norm"),
        ("".join(f"def f{i}(): ...\n" for i in range(13)), "g", "has no g"),
        ("from kernels import norm\n", "norm", ""),
        ("import kernels as norm\n", "norm", ""),
        ("for norm in range(3): ...\n", "norm", ""),
        ("with open('x') as norm: ...\n", "norm", ""),
        ("from kernels import *\n", "norm", ""),
        ("globals().update(made())\n", "norm", ""),
        ("def __getattr__(name): ...\n", "norm", ""),
        ("import sys\nsetattr(sys.modules[__name__], 'no' + 'rm', max)\n", "norm", ""),
        ("sys.modules[__name__].__dict__['no' + 'rm'] = max\n", "norm", ""),
        ("exec(code)\n", "norm", ""),
        ("def (:\n", "norm", ""),
        ("# -*- coding: none -*-\n", "norm", ""),
    ],
)
def test_a_name_and_a_text(tmp_path: Path, text: str, name: str, told: str):
    file = tmp_path / "kernel.py"
    file.write_text(text)
    assert why_not_in(file, name) == told


def test_a_file_that_cannot_be_read_is_left_to_others(tmp_path: Path):
    assert why_not_in(tmp_path / "missing.py", "norm") == ""
    (tmp_path / "kernel.py").write_bytes(b"\xff\xfe\x00")
    assert why_not_in(tmp_path / "kernel.py", "norm") == ""
