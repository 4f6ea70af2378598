"""Reads a derivatives.yaml by torchgen, entry by entry, so that an error can name file, line and entry."""

from __future__ import annotations

import contextlib
import difflib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torchgen
import yaml
from torchgen.api.autograd import DifferentiabilityInfo, ForwardDerivative, uses_single_grad
from torchgen.gen import get_grouped_by_view_native_functions, parse_native_yaml
from torchgen.model import FunctionSchema, Location, NativeFunction, NativeFunctionsViewGroup
from torchgen.packaged.autograd.load_derivatives import add_view_copy_derivatives, create_differentiability_info

from torch_impl.derivatives.entry import Entry, Formula, Rule
from torch_impl.derivatives.errors import DerivativesFileError

_PACKAGED = Path(torchgen.__file__).parent / "packaged"
PACKAGED_DERIVATIVES = _PACKAGED / "autograd/derivatives.yaml"
PACKAGED_FUNCTIONS = _PACKAGED / "ATen/native/native_functions.yaml"
_TAGS = _PACKAGED / "ATen/native/tags.yaml"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NOT_FORMULAS = ("name", "dispatch", "output_differentiability", "complex")
# PyTorch's own has 200 kB, 723 entries and 4 levels
LARGEST_FILE, MOST_ENTRIES, _DEEPEST = 2**22, 5000, 10
_AUTOMATIC: tuple[Rule, ...] = ("auto_linear", "auto_element_wise")


@dataclass(frozen=True)
class _Item:
    """One item of the file: its formulas by dispatch key and left side, and the line of each."""

    schema: str
    line: int
    differentiability: list[Any] | None
    formulas: Mapping[str, Mapping[str, str]]
    lines: Mapping[tuple[str, str], int]


def read(path: Path, native_functions: Path, undeclared: bool = False) -> tuple[Entry, ...]:
    """The entries of a derivatives.yaml, for operators that are declared in `native_functions`.

    With `undeclared` an operator with another name than all of these is taken as its entry has it.

    Raises:
        DerivativesFileError: a file is missing or is not YAML, or an entry is wrong.
    """
    items = _items(path)
    by_signature, by_schema, groups = _functions(native_functions)
    infos: dict[FunctionSchema, dict[str, DifferentiabilityInfo]] = {}
    found: dict[FunctionSchema, _Item] = {}
    counter: Counter[str] = Counter()
    for item in items:
        with _blamed_on(path, item.line, item.schema):
            if undeclared and not any(_base(schema) == _base(item.schema) for schema in by_schema):
                _declare(item, by_signature, by_schema)
            _check(item, by_schema)
            schema, info = create_differentiability_info(_for_torchgen(item), by_signature, by_schema, counter, set())
            if schema in infos:
                raise ValueError(f"has an entry in line {found[schema].line} already; remove one of them")
            infos[schema], found[schema] = info, item
    made = [_entry(path, item, key, infos[schema][key]) for schema, item in found.items() for key in infos[schema]]
    add_view_copy_derivatives(infos, groups)
    views = {group.view_copy.func: group.view.func for group in groups if group.view_copy is not None}
    for schema in infos.keys() - found.keys():
        view = views[schema]
        for key, info in infos[schema].items():
            made.append(replace(_entry(path, found[view], key, info), view_of=str(view)))
    return tuple(made)


def _functions(
    path: Path,
) -> tuple[dict[FunctionSchema, list[NativeFunction]], dict[str, NativeFunction], list[NativeFunctionsViewGroup]]:
    with _blamed_on(path, 1, "the operators together"):
        groups = get_grouped_by_view_native_functions(parse_native_yaml(str(path), str(_TAGS)).native_functions)
    by_signature: dict[FunctionSchema, list[NativeFunction]] = defaultdict(list)
    by_schema: dict[str, NativeFunction] = {}
    for group in groups:
        for function in [group] if isinstance(group, NativeFunction) else group.functions(include_copy=True):
            by_signature[function.func.signature()].append(function)
            by_schema[str(function.func)] = function
    return by_signature, by_schema, [group for group in groups if isinstance(group, NativeFunctionsViewGroup)]


def _declare(
    item: _Item, by_signature: dict[FunctionSchema, list[NativeFunction]], by_schema: dict[str, NativeFunction]
) -> None:
    """Add the operator of an entry, as an operator with derivatives of its own is declared."""
    declared = {"func": item.schema, "dispatch": {"CompositeExplicitAutograd": "not_built"}}
    function, _ = NativeFunction.from_yaml(declared, Location(item.schema, item.line), set())
    by_signature[function.func.signature()].append(function)
    by_schema[item.schema] = by_schema[str(function.func)] = function


def _for_torchgen(item: _Item) -> dict[str, Any]:
    """The item as torchgen wants it; a fresh one, because torchgen removes what it has read."""
    made: dict[str, Any] = {"name": item.schema, "dispatch": {key: dict(of) for key, of in item.formulas.items()}}
    if item.differentiability:
        made["output_differentiability"] = item.differentiability
    return made


def _check(item: _Item, by_schema: Mapping[str, NativeFunction]) -> None:
    function = by_schema.get(item.schema)
    if function is None:
        same = [schema for schema in by_schema if _base(schema) == _base(item.schema)]
        near = same or difflib.get_close_matches(item.schema, by_schema, n=1, cutoff=0.0)
        own = "an operator of your own is judged by a spec, on the command line with --spec"
        raise ValueError("no operator has this schema; declared are\n  " + "\n  ".join([*near, own]))
    inputs = [argument.name for argument in function.func.arguments.flat_all]
    outputs = [output.name or f"result{i}" for i, output in enumerate(function.func.returns)]
    outputs += ["result"] if len(function.func.returns) == 1 else []
    for formulas in item.formulas.values():
        for left, text in formulas.items():
            unknown = [name for name in _split(left) if name not in inputs and name not in outputs]
            if unknown:
                known = f"an argument ({', '.join(inputs)}) nor an output ({', '.join(outputs)})"
                raise ValueError(f"{', '.join(unknown)} is neither {known}; rename it")
            if not isinstance(text, str):
                raise ValueError(f"the formula of {left} must be text, got {text!r}; put it in quotes")
    number, returns = len(item.differentiability or []), len(function.func.returns)
    if number > returns:
        raise ValueError(f"output_differentiability has {number} items, the operator {returns} outputs; remove some")


def _base(schema: str) -> str:
    return re.split(r"[.(]", schema, maxsplit=1)[0]


def _split(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(","))


def _entry(path: Path, item: _Item, key: str, info: DifferentiabilityInfo) -> Entry:
    lines = {_split(left): line for (of, left), line in item.lines.items() if of == key}
    written = {_split(left): text.strip() for left, text in item.formulas[key].items()}
    vjps = [Formula(d.var_names, d.original_formula, lines[d.var_names]) for d in info.derivatives]
    conditions = [output for output in item.differentiability or [] if isinstance(output, str)]
    outputs, number = info.output_differentiability, len(info.func.func.returns)
    if outputs is None and uses_single_grad(info):  # codegen's rule: only the first, if the formulas ask for `grad`
        outputs = [True]
    return Entry(
        schema=str(info.func.func),
        signature=info.func.func,
        path=path,
        line=item.line,
        key=key,
        vjps=tuple(vjps),
        jvps=tuple(_jvp(d, written, lines) for d in info.forward_derivatives),
        saved_inputs=tuple(sorted({saved.expr for saved in info.all_saved_inputs})),
        saved_outputs=tuple(sorted({saved.expr for saved in info.all_saved_outputs})),
        non_differentiable=tuple(info.non_differentiable_arg_names),
        not_implemented=tuple(n for v in vjps if v.text.lstrip().startswith("not_implemented") for n in v.names),
        condition=conditions[0] if conditions else None,
        differentiable_outputs=tuple((outputs or [True] * number) + [False] * number)[:number],
    )


def _jvp(
    derivative: ForwardDerivative,
    written: Mapping[tuple[str, ...], str],
    lines: Mapping[tuple[str, ...], int],
) -> Formula:
    names = derivative.var_names
    rules: list[Rule] = [rule for rule in _AUTOMATIC if written[names] == rule]
    return Formula(names, derivative.formula, lines[names], rules[0] if rules else "written")


def _items(path: Path) -> list[_Item]:
    try:
        text = _text(path)
        _check_structure(path, text)
        root = yaml.compose(text, Loader=_LOADER)
    except FileNotFoundError:
        raise DerivativesFileError(f"{path}:1: there is no such file") from None
    except OSError as error:
        raise DerivativesFileError(f"{path}: cannot be read: {error.strerror or error}") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        if "nesting depth" in (error.problem or ""):  # newer versions of libyaml count the levels themselves
            raise _too_deep(path, line) from error
        hint = "put a formula that holds `: `, or begins with a quote or bracket, in quotes"
        raise DerivativesFileError(f"{path}:{line}: not YAML: {error.problem}; {hint}") from error
    except yaml.YAMLError as error:
        raise DerivativesFileError(f"{path}: not YAML: {' '.join(str(error).split())}; write it anew") from error
    if not isinstance(root, yaml.SequenceNode):
        raise DerivativesFileError(f"{path}:1: must be a list of entries, each with `- name: schema`")
    return [_item(path, node) for node in root.value]


def _text(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise DerivativesFileError(f"{path}: has more than {LARGEST_FILE:,} bytes, of which none are read; split it")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        hint = "write it in UTF-8"
        raise DerivativesFileError(f"{path}: no text in UTF-8: {error.reason} at byte {error.start}; {hint}") from error


def _check_structure(path: Path, text: str) -> None:
    """Look at the parts of the file one after the other: what makes a tree of them calls itself for each level.

    Raises:
        DerivativesFileError: it is nested more deeply than entries are, or has more entries than operators can have.
        yaml.YAMLError: it is not YAML.
    """
    depth = entries = 0
    for event in yaml.parse(text, Loader=_LOADER):
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            raise DerivativesFileError(f"{path}:{line}: an alias (`*name`) is not read; write out what it stands for")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            entries += depth == 2
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise _too_deep(path, line)
        if entries > MOST_ENTRIES:
            raise DerivativesFileError(f"{path}:{line}: more than {MOST_ENTRIES:,} entries; split the file")


def _too_deep(path: Path, line: int) -> DerivativesFileError:
    return DerivativesFileError(f"{path}:{line}: brackets or lists in more than {_DEEPEST} levels; remove some")


def _item(path: Path, node: yaml.Node) -> _Item:
    line = node.start_mark.line + 1
    pairs = _pairs(path, node, "an entry")
    name = pairs.get("name")
    if not isinstance(name, yaml.ScalarNode):
        raise DerivativesFileError(f"{path}:{line}: an entry must begin with `name: schema`")
    differentiability = pairs.get("output_differentiability")
    with _blamed_on(path, line, name.value):
        keys = _pairs(path, pairs["dispatch"], "dispatch") if "dispatch" in pairs else {"Default": node}
        formulas: dict[str, dict[str, Any]] = {}
        lines: dict[tuple[str, str], int] = {}
        for key, of in keys.items():
            formulas[key] = {}
            for left, right in _pairs(path, of, key).items():
                if of is not node or left not in _NOT_FORMULAS:
                    formulas[key][left] = _value(right)
                    lines[key, left] = right.start_mark.line + 1
        outputs = None if differentiability is None else list(_value(differentiability))
    return _Item(" ".join(name.value.split()), line, outputs, formulas, lines)


def _pairs(path: Path, node: yaml.Node, what: str) -> dict[str, yaml.Node]:
    line = node.start_mark.line + 1
    if not isinstance(node, yaml.MappingNode):
        raise DerivativesFileError(f"{path}:{line}: {what} must be `names: formula` pairs; indent them below it")
    pairs: dict[str, yaml.Node] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise DerivativesFileError(f"{path}:{line}: {what} must be `names: formula` pairs, with names of text")
        if key.value in pairs:
            raise DerivativesFileError(f"{path}:{key.start_mark.line + 1}: `{key.value}` is there twice; remove one")
        pairs[key.value] = value
    return pairs


def _value(node: yaml.Node) -> Any:
    return yaml.load(yaml.serialize(node), Loader=_LOADER)


@contextlib.contextmanager
def _blamed_on(path: Path, line: int, entry: str) -> Iterator[None]:
    """Raise any error inside as a `DerivativesFileError` at this entry.

    torchgen raises AssertionError, RuntimeError and more.
    """
    try:
        yield
    except DerivativesFileError:
        raise
    except Exception as error:
        raise DerivativesFileError(f"{path}:{line}: {entry}\n  {error or type(error).__name__}") from error
