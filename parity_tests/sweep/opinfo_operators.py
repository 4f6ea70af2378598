"""Which operators the samples of each OpInfo call, so that those of the others need not be recorded to look for one.

To find this out, the samples of all OpInfos have to be recorded, which takes minutes, and it only changes with PyTorch.
So it is kept beside this module; after a change of PyTorch's version, or of what is recorded, it is made anew:

    python -m parity_tests.sweep.record_opinfos
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

FILE = Path(__file__).with_suffix(".json")


def operators_of(opinfo: str, dtype: str) -> frozenset[str] | None:
    """Return the operators with a derivative, "aten::sum.dim_IntList", that the samples of an OpInfo call.

    Args:
        opinfo: its name with its variant, such as "linalg.norm" or "std_mean.unbiased".
        dtype: of the samples, "float64" or "complex128".

    Returns:
        The operators, or None if the file is of another version of PyTorch, or knows no such OpInfo.
    """
    content = _content()
    if content["torch"] != version():
        return None
    names = content[dtype].get(opinfo)
    return None if names is None else frozenset(f"aten::{name}" for name in names)


def as_json(operators: Mapping[tuple[str, str], frozenset[str]]) -> str:
    """Return the content of the file, a line for each OpInfo: the operators that its samples of a dtype call."""
    lines = [f'{{\n"torch": "{version()}"']
    for of in sorted({dtype for _, dtype in operators}):
        names = {opinfo: sorted(operators[opinfo, of]) for opinfo, dtype in sorted(operators) if dtype == of}
        plain = {opinfo: [name.removeprefix("aten::") for name in each] for opinfo, each in names.items()}
        rows = ",\n".join(f"{json.dumps(opinfo)}: {json.dumps(each)}" for opinfo, each in plain.items())
        lines.append(f'"{of}": {{\n{rows}\n}}')
    return ",\n".join(lines) + "\n}\n"


def version() -> str:
    """Return PyTorch's version without what its builds for different devices add: "2.13.0" of "2.13.0+cpu"."""
    return str(torch.__version__).partition("+")[0]


@functools.cache
def _content() -> dict[str, Any]:
    return json.loads(FILE.read_text(encoding="utf-8"))
