"""What is shipped reads well in `help()`, and stays small: docstrings, lengths of functions and of files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("gradparity", "jax_ref", "torch_impl", "parity_tests", "derivation", "benchmarks")
FILES = [
    path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
    if not {"suite", "cases"} & {*path.relative_to(ROOT).parts}  # a case is written as a user would
    and not path.name.startswith("test_")
]
FORMULAS = ROOT / "derivation" / "engine.py"  # fits on a page, whose text is in engine.md
MOST_LINES, MOST_LINES_OF_A_FUNCTION = 400, 50
# A summary that begins so is the rest of a sentence that is not there.
FRAGMENTS = ("Of ", "Likewise", "With ", "By ", "As ", "Whether it ")
# A summary that begins so is a clause, which does not name its subject.
CLAUSES = ("What ", "Whatever ", "Who ", "Whoever ")
# An entry of "Args:", as "x: ..." or "x, y: ..." or "*names: ..."; not a sentence with a colon.
ENTRY = re.compile(r"(\*{0,2}[^\W\d]\w*(?:, \*{0,2}[^\W\d]\w*)*):(?: |$)")
Documented = ast.Module | ast.ClassDef | ast.FunctionDef


def complaints(source: str) -> list[str]:
    """The names whose docstrings do not stand alone, and the public ones without."""
    found = []
    for name, node, inherits in _documented(ast.parse(source), "", False):
        text = ast.get_docstring(node)
        if text is None:
            public = not any(part.startswith("_") for part in name.split("."))
            if public and not inherits and not isinstance(node, ast.Module):
                found.append(f"{name} has no docstring")
            continue
        summary = text.split("\n\n")[0].strip()
        if summary.endswith("?"):
            found.append(f"{name}: a question: {summary}")
        if summary.startswith(FRAGMENTS):
            found.append(f"{name}: a fragment: {summary}")
        if summary.startswith(CLAUSES):
            found.append(f"{name}: a clause: {summary}")
        if (parameters := _parameters(node)) is not None:
            strangers = [each for each in _described_parameters(text) if each not in parameters]
            found += [f"{name} has no parameter {each}" for each in strangers]
    return found


def _parameters(node: Documented) -> set[str] | None:
    """The names of the parameters of a function, or of a class's `__init__`; None if there are none to look at."""
    if isinstance(node, ast.ClassDef):
        inits = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
        return _parameters(inits[-1]) if inits else None
    if not isinstance(node, ast.FunctionDef):
        return None
    given = node.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return {each.arg for each in every if each is not None}


def _described_parameters(docstring: str) -> Iterator[str]:
    """The names that the section "Args:" describes: those of its entries, which have the indentation of the first."""
    lines = iter(docstring.splitlines())
    if "Args:" not in lines:  # which leaves the lines after it
        return
    entries = None
    for line in lines:
        if not line.strip():
            continue
        indentation = len(line) - len(line.lstrip())
        if indentation == 0:
            return
        entries = indentation if entries is None else entries
        if indentation == entries and (entry := ENTRY.match(line.lstrip())):
            yield from (each.lstrip("*") for each in entry[1].split(", "))


def _documented(node: ast.AST, prefix: str, inherits: bool) -> Iterator[tuple[str, Documented, bool]]:
    """Modules, classes, functions and methods; with True for what others describe.

    That is what overrides a method of a base class, overloads, and rules of rounding, which all have the same five
    arguments.
    """
    if isinstance(node, ast.Module):
        yield "the module", node, False
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield prefix + child.name, child, False
            yield from _documented(child, f"{prefix}{child.name}.", bool(child.bases))
        elif isinstance(child, ast.FunctionDef):
            is_rule = [a.arg for a in child.args.args][1:] == ["x", "e", "y", "p"]
            is_overload = any(isinstance(d, ast.Name) and d.id == "overload" for d in child.decorator_list)
            yield prefix + child.name, child, inherits or is_rule or is_overload
        elif isinstance(child, ast.If | ast.Try):
            yield from _documented(child, prefix, inherits)


def lengths(source: str) -> dict[str, int]:
    """The lines of code of each function, without its docstring."""
    found = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            text = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
            found[node.name] = (node.end_lineno or 0) - node.lineno + 1 - text
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_stand_alone(package: str) -> None:
    files = [path for path in FILES if path.relative_to(ROOT).parts[0] == package and path != FORMULAS]
    sources = {path: path.read_text(encoding="utf-8") for path in files}
    assert sources
    assert {str(path): wrong for path, source in sources.items() if (wrong := complaints(source))} == {}


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ('def f():\n    """Of a sample."""', "f: a fragment: Of a sample."),
        ('def f():\n    """Is it so?\n\n    Always.\n    """', "f: a question: Is it so?"),
        ('class A:\n    """An A."""\n\n    def f(self): ...', "A.f has no docstring"),
        ("class A: ...", "A has no docstring"),
        ('def f():\n    """What f gives."""', "f: a clause: What f gives."),
        ('def f():\n    """Whatever f gives."""', "f: a clause: Whatever f gives."),
        ('"""Who is right."""', "the module: a clause: Who is right."),
        ('def f():\n    """Whoever is right."""', "f: a clause: Whoever is right."),
        ('def f(x):\n    """F of x.\n\n    Args:\n        x: one.\n        y: two.\n    """', "f has no parameter y"),
        ('def f(x, *, z):\n    """F.\n\n    Args:\n        x, y, z: all.\n    """', "f has no parameter y"),
        (
            'def f(*xs):\n    """F.\n\n    Args:\n        *xs: all.\n        **ys: none.\n    """',
            "f has no parameter ys",
        ),
        (
            'class A:\n    """An A.\n\n    Args:\n        y: none.\n    """\n\n    def __init__(self, x): ...',
            "A has no parameter y",
        ),
    ],
)
def test_a_docstring_that_does_not_stand_alone_is_noticed(source: str, wrong: str) -> None:
    assert complaints(source) == [wrong]


def test_what_is_not_an_entry_of_args_names_no_parameter() -> None:
    text = """
def f(x: int, *args: int, **options: int) -> int:
    '''Return x.

    Whoever calls it, note: x is kept.

    Args:
        x: a number,
            y: this is the number's second line.
        or a sentence with a colon: it has no name.
        args, options: the others.

    Returns:
        z: x.
    '''
"""
    assert complaints(text) == []


def test_functions_and_files_are_short() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in FILES}
    assert {str(path) for path, source in sources.items() if source.count("\n") > MOST_LINES} == set()
    long = {
        f"{path}: {name}": length
        for path, source in sources.items()
        for name, length in lengths(source).items()
        if length > MOST_LINES_OF_A_FUNCTION
    }
    assert long == {}


def test_a_long_function_is_noticed() -> None:
    body = "\n".join(f"    x = {i}" for i in range(60))
    assert lengths(f'def f():\n    """A\n    b."""\n{body}\n') == {"f": 61}
