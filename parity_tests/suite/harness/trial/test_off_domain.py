"""What a gradient has outside of its input's domain: no mistake, and reported, with its size."""

from __future__ import annotations

import jax.numpy as jnp
import pytest
import torch

from parity_tests import OpSpec, Verdict, crosscheck
from parity_tests.suite.harness._ops import judged, rows, unary_function

LOWER = OpSpec("lower", lambda L: jnp.tril(L) @ jnp.tril(L).T, "(n,n)->(n,n)", domains={"L": "lower"})
SYMMETRIC = OpSpec("square", lambda A: A @ A, "(n,n)->(n,n)", domains={"A": "symmetric"})


def _of_the_triangle(L, g):
    return ((g + g.mT) @ L.tril()).tril()


def _of_both_triangles(L, g):
    return (g + g.mT) @ L.tril()


def _of_the_matrix(A, g):
    return g @ A.mT + A.mT @ g


def _of_one_triangle(A, g):
    """The gradient with respect to the entries of the lower triangle, which stand for the upper ones, too."""
    full = _of_the_matrix(A, g)
    return full.tril() + full.triu(1).mT


def _product(L):
    return L.tril() @ L.tril().mT


RIGHT = [
    pytest.param(_product, _of_the_triangle, LOWER, id="lower"),
    pytest.param(lambda A: A @ A, _of_the_matrix, SYMMETRIC, id="symmetric, as the oracle has it"),
]
OFF = [
    pytest.param(_product, _of_both_triangles, LOWER, "L_bar", "lower", id="lower"),
    pytest.param(lambda A: A @ A, _of_one_triangle, SYMMETRIC, "A_bar", "symmetric", id="symmetric"),
]


@pytest.mark.parametrize(("forward", "backward", "spec"), RIGHT)
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_nothing_is_reported_where_the_oracle_has_the_same(forward, backward, spec, dtype):
    row = judged(unary_function(forward, backward), spec, "vjp", dtype)
    assert row.verdict is Verdict.PASS
    assert not row.conventions


@pytest.mark.parametrize(("forward", "backward", "spec", "label", "domain"), OFF)
def test_what_lies_off_the_domain_is_a_convention(forward, backward, spec, label, domain):
    report = crosscheck(unary_function(forward, backward), spec, checks=["vjp"], dtypes=["float64", "float32"])
    assert report.passed
    for row in rows(report):
        assert row.conventions
        assert all(line.startswith(f"{label} (sample ") for line in row.conventions)
        assert all(f"outside of the domain {domain}" in line for line in row.conventions)
    assert str(report).count("outside of the domain") == 1


def test_the_size_that_is_reported():
    spec = OpSpec("lower", lambda L: jnp.tril(L), "(n,n)->(n,n)", domains={"L": "lower"})

    def above(L, g):
        return g.tril() + torch.full_like(L, 3.25).triu(1)

    row = judged(unary_function(torch.tril, above), spec, "vjp")
    assert row.verdict is Verdict.PASS
    assert "is up to 3.2 outside of the domain lower, where the oracle is up to 0" in row.conventions[0]


def test_a_mistake_inside_the_domain_is_still_one():
    row = judged(unary_function(_product, lambda L, g: 1.01 * _of_both_triangles(L, g)), LOWER, "vjp")
    assert row.verdict is Verdict.MISMATCH
