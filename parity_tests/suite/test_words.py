"""Messages use the words of the field: a dtype is no format, code fails and is not convicted, mistakes are fixed.

"Plain English" in CONTRIBUTING.md has the rules. Here are the words that have no technical meaning in the texts that
people read: string literals of more than a word, docstrings of public names and of commands, templates of pages, and
the pages of the checks.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import parity_tests

ROOT = Path(__file__).resolve().parents[2]
HARNESS = ROOT / "parity_tests/harness"
PACKAGES = ("gradparity", "jax_ref", "torch_impl", "parity_tests")
NOT_SHIPPED = {"suite", "gallery", "operators"}
COURT = re.compile(r"\b(convict\w*|accus\w+|guilty|innocent\w*|acquit\w*|the court|stands? trial)\b", re.IGNORECASE)
INSTEAD = {
    COURT: "a function fails a check, or is reported as wrong",
    re.compile(r"\bmend(s|ed|ing)?\b", re.IGNORECASE): "fix",
    # Not of a file, nor the value of a parameter.
    re.compile(r"(?<!is of )(?<![\"`])\bformats?\b(?![\"`])"): "dtype",
}
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def complaints(text: str) -> list[str]:
    """The words of a text that have a better one, with it."""
    return [f"{word[0]}: {better}" for words, better in INSTEAD.items() for word in words.finditer(text)]


def shipped() -> Iterator[Path]:
    """The files in Python that are installed."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if not NOT_SHIPPED & {*path.relative_to(ROOT).parts}:
                yield path


def messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The lines and texts of the string literals of more than a word, f-strings as wholes; docstrings are none."""
    passed = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    for each in ast.walk(tree):  # a whole comes before its parts
        if isinstance(each, ast.JoinedStr):
            passed |= {id(part) for part in each.values}
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in each.values)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in passed:
            text = each.value
        else:
            continue
        if " " in text.strip():
            yield each.lineno, text


def docstrings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The names of a file with their docstrings; of a class with those of its public methods."""
    for each in ast.walk(tree):
        if isinstance(each, Documented) and (text := ast.get_docstring(each)):
            yield getattr(each, "name", ""), text


def public_docstrings() -> Iterator[tuple[str, str]]:
    """The docstrings of the names of gradparity, and of the commands, whose help they are."""
    for name, module in parity_tests._MODULES.items():
        file = ROOT / f"{module.replace('.', '/')}.py"
        found = dict(docstrings(ast.parse(file.read_text(encoding="utf-8"))))
        yield name, found[name]
    for file in (ROOT / "parity_tests/cli/app.py", *sorted((ROOT / "parity_tests/cli/commands").glob("*.py"))):
        for name, text in docstrings(ast.parse(file.read_text(encoding="utf-8"))):
            if not name.startswith("_"):
                yield f"{file.name}: {name}", text


def test_messages():
    found = {}
    for path in shipped():
        for line, text in messages(ast.parse(path.read_text(encoding="utf-8"))):
            if wrong := complaints(text):
                found[f"{path.relative_to(ROOT)}:{line}"] = wrong
    assert found == {}


def test_public_docstrings_and_help():
    texts = dict(public_docstrings())
    assert len(texts) > 50
    assert {name: wrong for name, text in texts.items() if (wrong := complaints(text))} == {}


def test_no_docstring_takes_code_to_court():
    found = {}
    for path in shipped():
        for name, text in docstrings(ast.parse(path.read_text(encoding="utf-8"))):
            if words := COURT.findall(text):
                found[f"{path.relative_to(ROOT)}: {name}"] = words
    assert found == {}


def test_pages_of_the_checks_and_templates():
    files = [*(HARNESS / "checks/explanations").glob("*.md"), *(HARNESS / "report").glob("*.html")]
    assert len(files) > 45
    texts = {file.name: re.sub(r"\{[%{].*?[%}]\}", "", file.read_text(encoding="utf-8")) for file in files}
    assert {name: wrong for name, text in texts.items() if (wrong := complaints(text))} == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("judged in every format", ["format"]),
        ("right code is accused, and convicted", ["accused", "convicted"]),
        ("What stands trial, before the court", ["stands trial", "the court"]),
        ("how to mend it", ["mend"]),
        ("the dtypes that are checked; it fails, and a witness and a verdict are technical words", []),
        ('inside="format"; the file is of format 3; formatted; a trial of a courtesy; recommended', []),
    ],
)
def test_a_word_that_has_a_better_one_is_noticed(text: str, words: list[str]):
    assert sorted(complaint.partition(":")[0] for complaint in complaints(text)) == sorted(words)
