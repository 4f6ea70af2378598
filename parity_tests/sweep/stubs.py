"""The types of `jax_ref.aten` and `jax_ref.functional`, whose names are made when they are imported: their stubs.

`python -m parity_tests.sweep.stubs` writes them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from jax_ref import aten, functional
from jax_ref._functional_table import MODES, REDUCTIONS, TABLE, parameter_of, signature
from jax_ref.aten._packets import overloads

_HEAD = "# Written by `python -m parity_tests.sweep.stubs`."
_LOCAL = {"Axes": "jax_ref.aten._axes", "Ints": "jax_ref.aten._arrays"}


def of_aten() -> str:
    """Return the stub of `jax_ref.aten`."""
    imported, written = [], []
    for packet, names in overloads(aten.OPERATORS).items():
        functions = [aten.OPERATORS[name] for name in names]
        declared = list(dict.fromkeys(_declared(packet, function) for function in functions))
        if len(declared) > 1:
            written += [f"@overload\n{each}" for each in declared]
        elif functions[0].__name__ == packet:
            imported.append(f"from {functions[0].__module__} import {packet} as {packet}")
        else:  # an import by another name is not exported
            written += declared
    families = sorted({aten.OPERATORS.family(name) for name in aten.OPERATORS})
    modules = [f"from jax_ref.aten import {family} as {family}" for family in families]
    registry = ["from jax_ref.aten._registry import Operators"]
    body = "\n".join([*written, "", "OPERATORS: Operators"])
    head = ["from typing import Any, overload", "", *_imports(body), *modules, *registry, *sorted(imported)]
    return "\n".join([_HEAD, "", *head, "", body, ""])


def of_functional() -> str:
    """Return the stub of `jax_ref.functional`."""
    written = []
    for name in dir(functional):
        written.append(_declared(name, _typed(name) if name in TABLE else getattr(functional, name)))
    body = "\n".join(written)
    return "\n".join([_HEAD, "", "from typing import Any, Literal", "", *_imports(body), "", body, ""])


def _typed(name: str) -> Callable[..., Any]:
    """A function with the parameters of a row, and the types that the operator has for them."""
    row = TABLE[name]
    operator = getattr(aten, row.operator or name)
    theirs = inspect.signature(operator).parameters
    parameters = []
    for each in signature(row).parameters.values():
        if each.name == "return_indices":
            annotation = "bool"
        elif each.name in ("reduction", "mode", "padding_mode") and each.default in ("mean", "bilinear", "zeros"):
            names = REDUCTIONS if each.name == "reduction" else MODES[each.name]
            annotation = f"Literal[{', '.join(map(repr, names))}]"
        else:
            annotation = theirs[parameter_of(row, each.name, operator)].annotation
        optional = each.default is None and not re.search(r"None|Maybe|Any", annotation)
        parameters.append(each.replace(annotation=f"{annotation} | None" if optional else annotation))

    def function() -> None: ...

    function.__doc__ = getattr(functional, name).__doc__
    returned = inspect.signature(operator).return_annotation
    if "return_indices" in signature(row).parameters:
        returned = "Any"  # one array or two
    function.__signature__ = inspect.Signature(parameters, return_annotation=returned)  # type: ignore[attr-defined]
    return function


def _declared(name: str, function: Callable[..., Any]) -> str:
    """A function without its body, as Python has it in a stub."""
    text = str(inspect.signature(function)).replace("jax.Array", "Array")
    text = re.sub(r": '((?:[^'\\]|\\.)*)'", r": \1", text)  # annotations, which are strings
    text = re.sub(r': "((?:[^"\\]|\\.)*)"', r": \1", text)
    text = re.sub(r"-> ['\"](.*)['\"]$", r"-> \1", text)
    text = re.sub(r"\bMaybe\b", "ArrayLike | None", text)
    text = re.sub(r"\bSizes\b", "Sequence[int]", text)
    text = re.sub(r"\bScales\b", "Sequence[float] | None", text)
    text = re.sub(r"\bScale\b", "float | None", text)
    text = re.sub(r"\bLengths\b", "ArrayLike | Sequence[int]", text)
    return f"def {name}{text}: ..."


def _imports(body: str) -> Iterator[str]:
    """The imports of the types that a stub names."""
    yield from ("from collections.abc import Sequence", "", "from jax import Array")
    yield from ("from jax.typing import ArrayLike, DTypeLike", "")
    for name, module in _LOCAL.items():
        if re.search(rf"\b{name}\b", body):
            yield f"from {module} import {name}"


STUBS: dict[str, Callable[[], str]] = {"jax_ref/aten/__init__.pyi": of_aten, "jax_ref/functional.pyi": of_functional}


def main() -> None:
    """Write the stubs beside the modules that they describe."""
    root = Path(__file__).parents[2]
    for path, text in STUBS.items():
        (root / path).write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
