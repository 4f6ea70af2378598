"""No tolerance of the sweep is chosen by hand: each small number in it is named here, with what it is instead."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from parity_tests import sweep
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.sweep import comparison
from parity_tests.sweep.witnesses import by_differences

FOLDER = Path(str(sweep.__file__)).parent
# Whose numbers are those of calls: inputs, options of operators, special points.
OF_CALLS = frozenset(
    f"{name}.py"
    for name in (*("norm_calls", "own_calls", "special_calls", "special_points", "varied_calls", "written_calls"),)
)
NAMED = {
    ("certification.py", "_KINK"): "the middle between 1/2, by which a slope shrinks with the step, and 1, of a kink",
    ("certification.py", "_STEP"): "the step of a difference",
    ("compared_case.py", "_AWAY"): "the distance of another point",
    ("comparison.py", "DIGITS_OF_A_NUMBER"): "the meaning of two words of the table, the same in each format",
    ("comparison.py", "EXTREME"): "derived: the power at which float64 overflows",
    ("comparison.py", "HALF, MOST"): "derived: of the least error of a difference, and of an extrapolated one",
    ("compiled_code.py", "_SCALES"): "factors of inputs",
    ("decompositions.py", "_STEP"): "the distance of another point",
    ("domains.py", "_LEAST_SPREAD"): "PyTorch's own constant",
    ("guard.py", "_POLL"): "seconds",
    ("kinks.py", "_NEAR"): "the distance of another point",
    ("running.py", "_POLL"): "seconds",
    ("witnesses.py", "_AS_BEFORE"): "nearer to 1, of what never settles, than to 1/2, of what does",
    ("witnesses.py", "_ERROR_OF_DIFFERENCES"): "derived: the weights of the extrapolation, and a rule of the harness",
    ("witnesses.py", "_STEPS"): "steps of differences",
}


def small_numbers(source: str) -> Iterator[tuple[str, int]]:
    """The numbers between 0 and 1 in a source: the names that a statement of the module gives, or "", and a line."""
    for statement in ast.parse(source).body:
        names = ast.unparse(statement.targets[0]).strip("()") if isinstance(statement, ast.Assign) else ""
        for node in ast.walk(statement):
            if _is_small(node):
                yield names, node.lineno


def _is_small(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "eps"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):  # 2.0**-k, too
        left, right = _number(node.left), node.right
        return left is not None and isinstance(right, ast.UnaryOp) and isinstance(right.op, ast.USub)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        left, right = _number(node.left), _number(node.right)
        return left is not None and right is not None and abs(left) < abs(right)
    number = _number(node)
    return number is not None and 0 < abs(number) < 1


def _number(node: ast.AST) -> float | None:
    is_number = isinstance(node, ast.Constant) and type(node.value) in (int, float)
    return float(node.value) if is_number else None


def strange(name: str, source: str) -> list[str]:
    """The small numbers of a module that `NAMED` does not have, as "comparison.py:13 _ROUNDING"."""
    found = () if name in OF_CALLS else small_numbers(source)
    return [f"{name}:{line} {given}" for given, line in found if (name, given) not in NAMED]


def test_every_small_number_has_a_reason():
    assert [each for file in sorted(FOLDER.glob("*.py")) for each in strange(file.name, file.read_text("utf-8"))] == []


def test_every_reason_has_a_number():
    found = {(file.name, name) for file in FOLDER.glob("*.py") for name, _ in small_numbers(file.read_text("utf-8"))}
    assert {*NAMED} - found == set()
    assert {*OF_CALLS} <= {file for file, _ in found}


@pytest.mark.parametrize(
    "text",
    [
        "_ROUNDING = 2.0**-46",
        "_ROUNDING = 10**-9",
        "_ROUNDING = 1 / 3",
        "def f(x):\n    return abs(x) <= 1e-9",
        "def f(x):\n    return abs(x) <= 8 * np.finfo(x.dtype).eps",
        "def f(x, rtol=0.01):\n    return x",
        "class C:\n    room = 2 ** -k",
    ],
)
def test_a_tolerance_that_is_chosen_is_found(text):
    (found,) = strange("comparison.py", f"import numpy as np\n\n{text}\n")
    assert found.startswith("comparison.py:")


def test_what_digits_a_difference_can_have():
    """Differences of the exponential at 1, and extrapolated ones, have as many as is said, and a difference no more."""
    right = np.e
    simple = min(abs((np.exp(1 + h) - np.exp(1)) / h - right) / right for h in 2.0 ** -np.arange(4.0, 50.0))
    extrapolated = abs(by_differences(lambda t: float(np.exp(1 + t)), 1.0, "").high - right) / right
    assert FLOAT64.u**0.75 / 64 < extrapolated < 64 * comparison.MOST_OF_THE_DIGITS
    assert comparison.HALF_OF_THE_DIGITS / 64 < simple < 64 * comparison.HALF_OF_THE_DIGITS
