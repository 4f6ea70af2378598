"""A script in PyTorch that prints one number of a derivative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from parity_tests.sweep.cases import Case

_LARGEST = 64  # numbers of all arguments that are written out

# By mode: from `f`, `x` (the inputs) and what else the map takes, the tuple `found` of its results.
_MODES = {
    "vjp": "found = torch.func.vjp(f, *x)[1](w)",
    "jvp": "found = torch.func.jvp(f, x, t)[1]",
    "vjp_of_vjp": (
        "count = len(x)\n"
        "gradients = lambda *a: torch.func.vjp(f, *a[:count])[1](a[count:])\n"
        "found = torch.func.vjp(gradients, *x, *w)[1](t)"
    ),
    "jvp_of_vjp": (
        "count = len(x)\n"
        "gradients = lambda *a: torch.func.vjp(f, *a[:count])[1](a[count:])\n"
        "found = torch.func.jvp(gradients, (*x, *w), t)[1]"
    ),
    "vjp_of_jvp": (
        "count = len(x)\n"
        "tangents = lambda *a: torch.func.jvp(f, a[:count], a[count:])[1]\n"
        "found = torch.func.vjp(tangents, *x, *w)[1](t)"
    ),
    "jvp_of_jvp": (
        "count = len(x)\n"
        "tangents = lambda *a: torch.func.jvp(f, a[:count], a[count:])[1]\n"
        "found = torch.func.jvp(tangents, (*x, *w), t)[1]"
    ),
    "vjp_of_vjp_of_vjp": (
        "count = len(x)\n"
        "first = lambda *a: torch.func.vjp(f, *a[:count])[1](a[count:])\n"
        "second = lambda *a: torch.func.vjp(first, *a[:-count])[1](a[-count:])\n"
        "found = torch.func.vjp(second, *x, *w)[1](t)"
    ),
}


def repro(case: Case, mode: str, arguments: Sequence[np.ndarray], index: int, place: tuple[int, ...]) -> str:
    """Return a script that prints the number at a place of a result; "" if the arguments are too many to write out."""
    fixed = {key: value for key, value in case.call.arguments.items() if not _is_moved(case, key)}
    numbers = [*arguments, *(value for value in fixed.values() if isinstance(value, np.ndarray))]
    if sum(x.size for x in numbers) > _LARGEST:
        return ""
    count, base = len(case.inputs), case.map(mode).base
    given = ", ".join(_argument(case, key, fixed) for key in case.call.arguments)
    chosen = ", ".join(f"results[{i}]" for i in case.results.values())
    packet, _, overload = case.entry.name.partition(".")
    if mode in ("vjp", "jvp"):
        parts = {"x": arguments[:count], "w" if mode == "vjp" else "t": arguments[count:]}
    else:
        parts = {"x": arguments[:count], "w": arguments[count:base], "t": arguments[base:]}
    lines = [
        "import torch",
        "from torch import inf, nan, tensor",
        "",
        "def f(*inputs):",
        f"    results = torch.ops.aten.{packet}.{overload or 'default'}({given})",
        "    results = results if isinstance(results, tuple | list) else (results,)",
        f"    return ({chosen},)",
        "",
        *(f"{name} = ({', '.join(map(_text, values))},)" for name, values in parts.items()),
        _MODES[mode],
        f"print(found[{index}]{list(place) if place else ''})",
    ]
    return "\n".join(lines) + "\n"


def _is_moved(case: Case, key: str) -> bool:
    return any(name.partition("[")[0] == key for name in case.inputs)


def _argument(case: Case, key: str, fixed: dict[str, Any]) -> str:
    if key in fixed:
        return f"{key}={_text(fixed[key])}"
    names = list(case.inputs)
    if key in names:
        written = case.entry.in_place and key == case.entry.argument_names[0]
        return f"{key}=inputs[{names.index(key)}]{'.clone()' if written else ''}"
    items = [f"inputs[{i}]" for i, name in enumerate(names) if name.partition("[")[0] == key]
    return f"{key}=[{', '.join(items)}]"


def _text(value: Any) -> str:
    """The value as an expression of Python."""
    if isinstance(value, np.ndarray):
        return f"tensor({value.tolist()!r}, dtype=torch.{value.dtype})"
    if isinstance(value, np.dtype):
        return f"torch.{value}"
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    return repr(value)
