"""What the codegen makes of the yaml files, and that it leaves PyTorch's own codegen as it was."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from torchgen.packaged.autograd import gen_variable_type

import torch_impl
from torch_impl.native.codegen import HERE, generate


def test_every_formula_is_marked_with_its_line() -> None:
    yaml = (HERE / "derivatives.yaml").read_text().splitlines()
    generated = generate(HERE)["ops.cpp"].splitlines()
    marks = {i: int(found[1]) for i, text in enumerate(generated) if (found := re.match(r' *#line (\d+) "deriv', text))}
    assert len(marks) == 4
    for i, line in marks.items():
        assert generated[i + 1].strip() in yaml[line - 1]  # the formula itself
        assert generated[i + 2].strip() == f'#line {i + 4} "ops.cpp"'  # and back to the generated file


def test_nothing_is_registered_in_pytorch_itself() -> None:
    generated = generate(HERE)["ops.cpp"]
    assert set(re.findall(r"TORCH_LIBRARY(?:_IMPL)?\((\w+)", generated)) == {"gradparity"}
    assert "at::redispatch::" not in generated
    assert '"aten::' not in generated


def test_generating_changes_no_global_state() -> None:
    before = set(gen_variable_type.GRADIENT_IMPLEMENTED_FOR_COMPLEX)
    first = generate(HERE)
    assert set(gen_variable_type.GRADIENT_IMPLEMENTED_FOR_COMPLEX) == before
    assert "attn" not in before
    assert generate(HERE) == first


@pytest.mark.slow
def test_show_prints_what_is_compiled() -> None:
    command = [sys.executable, "-W", "error", "-m", "torch_impl.native.codegen", "--show"]
    shown = subprocess.run(
        command, cwd=Path(torch_impl.__file__).parents[1], capture_output=True, text=True, check=True
    ).stdout
    assert shown.strip() == generate(HERE)["ops.cpp"].strip()
    assert "struct TORCH_API AttnBackward0 : public TraceableFunction {" in shown
