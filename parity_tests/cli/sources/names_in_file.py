"""The names that a Python file defines, by its text: what it lacks is told before anything slow is imported."""

from __future__ import annotations

import ast
import re
import tokenize
from pathlib import Path

from parity_tests.harness.names import nearest

MOST_LISTED = 12  # names of a file
_BY_OTHER_MEANS = re.compile(r"import\s*\*|__getattr__|__dict__|\b(globals|vars|exec|eval|setattr)\b")


def why_not_in(file: Path, name: str) -> str:
    """Return why a file cannot have a name, the nearest one, and those that it defines; "" if it may have it.

    It may where its text has the word anywhere, or may define names by other means than writing them.
    """
    try:
        with tokenize.open(file) as opened:
            text = opened.read()
        tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError):  # running it says so
        return ""
    first = name.partition(".")[0]
    if re.search(rf"\b{re.escape(first)}\b", text) or _BY_OTHER_MEANS.search(text):
        return ""
    defined = [x.name for x in tree.body if isinstance(x, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
    words = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | {*defined}
    return f"has no {name}{nearest(first, sorted(words))}{listed(defined)}"


def listed(names: list[str]) -> str:
    """Return the end of an error about a missing name: the callables that the file defines, if they are few."""
    return f"; it defines {', '.join(names)}" if 0 < len(names) <= MOST_LISTED else ""
