"""Planted mistakes in formulas, judged by the sweep: convicted, or let go for the reason that is so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from parity_tests.suite.sweep.test_judgement import X, call_of
from parity_tests.sweep import mutant_judgement
from parity_tests.sweep.cases import Case, NoReference, case_of
from parity_tests.sweep.formula_mutants import planted
from parity_tests.sweep.formula_side import side_of
from parity_tests.sweep.lines import Line
from parity_tests.sweep.mutant_judgement import (
    CHANGES_NOTHING,
    NO_CALL,
    NOT_EVALUATED,
    STOPS,
    SURVIVES,
    SURVIVES_ELSEWHERE,
    is_conviction,
    judge_mutants,
)
from torch_impl.derivatives import lookup

Z = X + 0.5j
A = np.array([[2.0, 0.5], [0.5, 1.0]])


def judged(
    monkeypatch: pytest.MonkeyPatch, name: str, dtypes: Sequence[str] = ("float64",), **arguments: Any
) -> dict[tuple[str, str], Line]:
    """The lines of one call, by the mistake and the dtype; in complex128 the arrays are complex."""

    def calls(name: str, dtype: str) -> list:
        moved = {
            k: v + 0.5j if dtype == "complex128" and isinstance(v, np.ndarray) else v for k, v in arguments.items()
        }
        return [call_of(name, moved)] if arguments else []

    for which in ("calls_of", "all_calls_of"):
        monkeypatch.setattr(mutant_judgement, which, calls)
    return {(line.of, line.dtype): line for line in judge_mutants(name, ("vjp", "jvp"), dtypes)}


@pytest.mark.slow
def test_mistakes_are_convicted_in_the_first_dtype_that_shows_them(monkeypatch):
    lines = judged(monkeypatch, "sin", ("float64", "complex128"), self=X)
    conj = "dropped conj: self = grad * self.cos()"
    assert {key for key, line in lines.items() if is_conviction(line)} == {
        ("sign: self = -(grad * self.cos().conj())", "float64"),
        ("factor: self = 2 * (grad * self.cos().conj())", "float64"),
        ("dropped factor: self = grad", "float64"),
        ("wrong saved value: self = grad * result.cos().conj()", "float64"),
        (conj, "complex128"),
    }
    assert lines[conj, "float64"].reason == CHANGES_NOTHING
    assert len(lines) == 6


@pytest.mark.slow
def test_a_mistake_that_stops_changes_no_value(monkeypatch):
    lines = judged(monkeypatch, "sum.dim_IntList", self=np.ones((2, 3)), dim=[1], keepdim=False)
    assert lines["wrong dim: self = sum_backward(grad, self.sym_sizes(), {0}, keepdim)", "float64"].reason == STOPS
    assert is_conviction(lines["sign: self = -sum_backward(grad, self.sym_sizes(), dim, keepdim)", "float64"])


def test_without_a_reference_or_a_call_nobody_is_convicted(monkeypatch):
    def none(case: Case) -> Any:
        raise NoReference("there is none")

    assert {line.reason for line in judged(monkeypatch, "sin").values()} == {NO_CALL}
    monkeypatch.setattr(Case, "jax_function", none)
    monkeypatch.setattr(mutant_judgement, "own_function", lambda cases: lambda case: None)
    lines = judged(monkeypatch, "sin", self=X)
    assert lines["sign: self = -(grad * self.cos().conj())", "float64"].reason == f"{SURVIVES_ELSEWHERE}: there is none"


@pytest.mark.slow
def test_a_formula_that_is_not_evaluable_is_told_apart(monkeypatch):
    def refuses(*_: Any) -> Any:
        raise NotImplementedError

    monkeypatch.setattr("torch_impl.derivatives.derivative.evaluate", refuses)
    assert {line.reason for line in judged(monkeypatch, "sin", self=X).values()} == {NOT_EVALUATED}


@pytest.mark.slow
def test_what_pytorch_says_otherwise_than_jax_convicts_no_mistake(monkeypatch):
    """There every mistake is given JAX's number, here everywhere."""
    monkeypatch.setattr(mutant_judgement, "_differs", lambda right, other: np.ones(np.shape(other), bool))
    lines = judged(monkeypatch, "sin", self=X)
    assert not any(map(is_conviction, lines.values()))
    assert lines["sign: self = -(grad * self.cos().conj())", "float64"].reason.startswith(f"{SURVIVES}: ")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("linalg_cholesky_ex", {"self": A, "upper": False}),
        ("linalg_qr", {"A": A + 0.5j, "mode": "reduced"}),
        ("_linalg_svd", {"A": A, "full_matrices": False, "compute_uv": True, "driver": None}),
        ("cat", {"tensors": [X, X + 1], "dim": 0}),
        ("_foreach_div.List", {"self": [X, Z.real], "other": [X + 3, X]}),
    ],
)
def test_by_their_text_formulas_have_the_derivatives_that_autograd_has(name, arguments):
    """Of lists, of triangles and Hermitian matrices, and of what does not depend on signs, too."""
    entry = lookup(name)
    case = case_of(entry, call_of(name, arguments))
    assert case is not None
    for mode in ("vjp", "jvp"):
        given = case.arguments(mode)
        found, right = side_of(entry, case)(mode, given), case.in_pytorch(mode, given)
        assert len(found) == len(right)
        for one, other in zip(found, right, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_only_texts_of_the_file_are_changed():
    """The JVP of cat is in the file; that of sum is made of its VJP."""
    assert {"jvp"} <= {_mode(entry, "cat") for _, _, entry in planted(lookup("cat"))}
    assert {_mode(entry, "neg") for _, _, entry in planted(lookup("neg"))} == {"vjp"}


def _mode(wrong: Any, name: str) -> str:
    return "vjp" if wrong.vjps != lookup(name).vjps else "jvp"
