"""Reads native_functions.yaml and derivatives.yaml, as PyTorch's codegen does; an error names file, line and entry."""

from __future__ import annotations

import contextlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torchgen
import yaml
from torchgen.api.autograd import DifferentiabilityInfo
from torchgen.gen import LineLoader, parse_native_yaml_struct, parse_tags_yaml
from torchgen.model import BackendIndex, DispatchKey, FunctionSchema, NativeFunction, SchemaKind, Variant
from torchgen.packaged.autograd.gen_inplace_or_view_type import VIEW_FUNCTIONS
from torchgen.packaged.autograd.gen_trace_type import MANUAL_AUTOGRAD_AND_TRACER, MANUAL_BACKEND
from torchgen.packaged.autograd.gen_variable_type import DONT_REQUIRE_DERIVATIVE
from torchgen.packaged.autograd.load_derivatives import create_differentiability_info

NATIVE_FUNCTIONS = "native_functions.yaml"
DERIVATIVES = "derivatives.yaml"
_SPECIAL = {*VIEW_FUNCTIONS, *DONT_REQUIRE_DERIVATIVE, *MANUAL_AUTOGRAD_AND_TRACER, *MANUAL_BACKEND}
_TAGS = Path(torchgen.__file__).parent / "packaged/ATen/native/tags.yaml"


class DeclarationError(ValueError):
    """An entry of native_functions.yaml or derivatives.yaml is wrong; the message begins with file:line."""


@dataclass(frozen=True)
class Declarations:
    """The operators, kernels and formulas of the two files as torchgen's objects, and the lines of the entries.

    `entry_lines` maps a schema to the line of its entry in derivatives.yaml, `formula_lines` a schema and the names on
    the left of a formula to that formula's line; `complex_names` are the operators whose entry says `complex: True`.
    """

    folder: Path
    namespace: str
    functions: list[NativeFunction]
    kernels: Mapping[DispatchKey, BackendIndex]
    derivatives: dict[FunctionSchema, dict[str, DifferentiabilityInfo]]
    entry_lines: dict[FunctionSchema, int]
    formula_lines: dict[tuple[FunctionSchema, tuple[str, ...]], int]
    complex_names: frozenset[str]

    def blamed_on(self, function: NativeFunction) -> contextlib.AbstractContextManager[None]:
        """Raise any error inside as a `DeclarationError` at this operator's entry in derivatives.yaml."""
        return _blamed_on(self.folder / DERIVATIVES, self.entry_lines.get(function.func, 1), str(function.func))


def read(folder: Path) -> Declarations:
    """The declarations of an operator's folder.

    Raises:
        DeclarationError: a file is missing or is not YAML, or an entry is not one that this codegen can serve.
    """
    functions, kernels = _read_native_functions(folder / NATIVE_FUNCTIONS)
    return Declarations(
        folder, functions[0].namespace, functions, kernels, *_read_derivatives(folder / DERIVATIVES, functions)
    )


def _read_native_functions(path: Path) -> tuple[list[NativeFunction], Mapping[DispatchKey, BackendIndex]]:
    functions: list[NativeFunction] = []
    for entry in _entries(path, "func"):
        with _blamed_on(path, entry.line, entry.label):
            (function,), _ = parse_native_yaml_struct([entry.values], parse_tags_yaml(str(_TAGS)), path=str(path))
            _check_supported(function)
            if functions and function.namespace != functions[0].namespace:
                raise ValueError(
                    f"its namespace is {function.namespace}, that of the operators above is {functions[0].namespace}; "
                    "one folder has one namespace"
                )
            if function.func.name in (f.func.name for f in functions):
                raise ValueError(f"{function.func.name} is declared twice")
            functions.append(function)
    if not functions:
        raise DeclarationError(f"{path}:1: declares no operator")
    entries = [entry.values for entry in _entries(path, "func")]
    with _blamed_on(path, 1, "the operators together"):
        return parse_native_yaml_struct(entries, parse_tags_yaml(str(_TAGS)), path=str(path))


def _check_supported(f: NativeFunction) -> None:
    if f.namespace == "aten":
        raise ValueError("it has no namespace; write `func: my_namespace::name(...)`")
    if f.func.kind() is not SchemaKind.functional or f.is_view_op:
        raise ValueError(
            "it writes to an argument or returns a view of one, for which PyTorch generates further kernels; "
            "only functional operators are served here"
        )
    if Variant.method in f.variants:
        raise ValueError("`variants: method` needs a change to at::Tensor; only functions are served here")
    if str(f.func.name.name) in _SPECIAL:
        raise ValueError(
            f"PyTorch's codegen makes an exception of operators named {f.func.name.name}, in any namespace; "
            "choose another name"
        )
    if f.structured or f.structured_delegate or f.manual_kernel_registration:
        raise ValueError("structured kernels and manual_kernel_registration belong to PyTorch's own build")


def _read_derivatives(
    path: Path, functions: list[NativeFunction]
) -> tuple[
    dict[FunctionSchema, dict[str, DifferentiabilityInfo]],
    dict[FunctionSchema, int],
    dict[tuple[FunctionSchema, tuple[str, ...]], int],
    frozenset[str],
]:
    by_signature: dict[FunctionSchema, list[NativeFunction]] = defaultdict(list)
    for f in functions:
        by_signature[f.func.signature()].append(f)
    by_schema = {str(f.func): f for f in functions}
    derivatives, entry_lines, formula_lines, complex_names, op_counter = {}, {}, {}, set(), Counter[str]()
    for entry in _entries(path, "name"):
        values = {key: value for key, value in entry.values.items() if key != "__line__"}
        with _blamed_on(path, entry.line, entry.label):
            if "dispatch" in values:
                raise ValueError("a formula for each dispatch key is not served here; remove `dispatch`")
            f = by_schema.get(values["name"])
            if f is None:
                declared = "\n  ".join(by_schema)
                raise ValueError(f"no such schema in {NATIVE_FUNCTIONS}, which declares\n  {declared}")
            if not f.is_abstract:
                raise ValueError(
                    f"{f.func.name} has a formula here, but no dispatch section in {NATIVE_FUNCTIONS}: without one it "
                    "is CompositeImplicitAutograd, and autograd differentiates what it is made of. Add "
                    f"`dispatch: {{CompositeExplicitAutograd: {f.func.name.name}}}` there, or remove the formula"
                )
            if f.func in derivatives:
                raise ValueError(f"{f.func.name} has an entry already, in line {entry_lines[f.func]}")
            if not isinstance(holds_for_complex := values.pop("complex", False), bool):
                raise ValueError(f"`complex` must be True or False, got {holds_for_complex!r}")
            if holds_for_complex:
                complex_names.add(str(f.func.name.name))
            for names in values.keys() - {"name", "output_differentiability"}:
                with _blamed_on(path, entry.lines[names], f"{entry.label}, {names}"):
                    _check_names(f, names, values[names])
            # Today's torchgen removes what it has read from the dictionary.
            formulas = {k: v for k, v in values.items() if k not in ("name", "output_differentiability")}
            whole = {k: v for k, v in values.items() if k not in formulas} | {"dispatch": {"Default": dict(formulas)}}
            schema, info = create_differentiability_info(whole, by_signature, by_schema, op_counter, set())
        derivatives[schema], entry_lines[schema] = info, entry.line
        for names in formulas:
            formula_lines[schema, _split(names)] = entry.lines[names]
    return derivatives, entry_lines, formula_lines, frozenset(complex_names)


def _split(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(","))


def _check_names(f: NativeFunction, names: str, formula: Any) -> None:
    inputs = [a.name for a in f.func.arguments.flat_all]
    outputs = [r.name or f"result{i}" for i, r in enumerate(f.func.returns)]
    if len(f.func.returns) == 1:
        outputs.append("result")
    unknown = [name for name in _split(names) if name not in inputs and name not in outputs]
    if unknown:
        raise ValueError(
            f"{', '.join(unknown)} is neither an argument ({', '.join(inputs)}) nor an output ({', '.join(outputs)})"
        )
    if not isinstance(formula, str):
        raise ValueError(f"the formula must be C++ in a string, got {formula!r}")


@dataclass(frozen=True)
class _Entry:
    """One item of a file: its values, its line, the line of each value, and what to call it in an error."""

    values: dict[str, Any]
    line: int
    lines: dict[str, int]
    label: str


def _entries(path: Path, title: str) -> list[_Entry]:
    try:
        text = path.read_text(encoding="utf-8")
        loaded = yaml.load(text, Loader=LineLoader)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except FileNotFoundError:
        raise DeclarationError(f"{path}:1: there is no such file") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise DeclarationError(f"{path}:{line}: not YAML: {error.problem}") from error
    except AssertionError as error:  # torchgen's loader, of a key that is there twice
        found = re.search(r"key=(.*), line=(\d+)", str(error))
        line, reason = (int(found[2]) + 1, f"the key `{found[1]}` appears twice") if found else (1, str(error))
        raise DeclarationError(f"{path}:{line}: {reason}") from error
    if not isinstance(root, yaml.SequenceNode) or not isinstance(loaded, list):
        raise DeclarationError(f"{path}:1: must be a list of entries, each with `{title}: ...`")
    entries = []
    for values, node in zip(loaded, root.value, strict=True):
        line = node.start_mark.line + 1
        if not isinstance(values, dict) or not isinstance(values.get(title), str):
            raise DeclarationError(f"{path}:{line}: an entry must begin with `{title}: ...`, got {values!r:.80}")
        lines = {key.value: value.start_mark.line + 1 for key, value in node.value}
        entries.append(_Entry(values, line, lines, values[title]))
    return entries


@contextlib.contextmanager
def _blamed_on(path: Path, line: int, entry: str) -> Iterator[None]:
    """Raise any error inside as a `DeclarationError` at this entry.

    torchgen raises AssertionError, RuntimeError and more.
    """
    try:
        yield
    except DeclarationError:
        raise
    except Exception as error:
        reason = str(error).split("\n  in ")[0]  # torchgen appends a place of its own
        raise DeclarationError(f"{path}:{line}: {entry}\n  {reason or type(error).__name__}") from error
