"""What an operator returns: integers beside numbers, dictionaries, named tuples, and lists in lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest
import torch

from parity_tests import JaxCandidate, OpSpec, Verdict, crosscheck
from parity_tests.harness.candidates.outputs import Outputs, leaves
from parity_tests.suite.harness._ops import judged

MAPS = ["forward", "vjp", "vjp_partial", "jvp", "adjoint", "vjp_of_vjp", "jvp_of_vjp"]
TOP_K = OpSpec("top_k", lambda x: jax.lax.top_k(x**3, 2), "(n,5)->(n,2),(n,2)", input_names=("x",))


def top_k(x: torch.Tensor) -> Any:
    return torch.topk(x**3, 2)


# Integers.


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", pytest.param("bfloat16", marks=pytest.mark.slow)])
def test_integers_are_compared_and_have_no_derivative(dtype):
    report = crosscheck(top_k, TOP_K, checks=[*MAPS, "input_subsets"], dtypes=[dtype])
    assert {row.verdict for row in report.rows} == {Verdict.PASS}, str(report)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        pytest.param(lambda v, i: (v, i.flip(-1)), "entries wrong", id="in another order"),
        pytest.param(lambda v, i: (v, i + 1), "entries wrong", id="counted from one"),
        pytest.param(lambda v, i: (v, i * 1.0), "the oracle's is int32: it is no integer", id="numbers"),
        pytest.param(lambda v, i: (v, i[..., :1]), "has shape (4, 1), the oracle's is (4, 2)", id="one of two"),
    ],
)
def test_other_integers_are_caught(wrong, text):
    row = judged(lambda x: wrong(*top_k(x)), TOP_K, "forward")
    assert row.verdict is Verdict.MISMATCH
    assert row.failure is not None
    assert [result.label for result in row.failure.wrong] == ["output1"]
    assert text in row.failure.wrong[0].pattern


@pytest.mark.slow
def test_a_gradient_at_another_place_is_caught():
    class Shifted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            values, indices = torch.topk(x, 2)
            ctx.save_for_backward(x, indices)
            ctx.mark_non_differentiable(indices)
            return values, indices

        @staticmethod
        def backward(ctx, values_bar, _):
            x, indices = ctx.saved_tensors
            return torch.zeros_like(x).scatter(-1, (indices + 1) % 5, values_bar)

    spec = OpSpec("top_k", lambda x: jax.lax.top_k(x, 2), "(n,5)->(n,2),(n,2)", input_names=("x",))
    assert judged(Shifted.apply, spec, "forward").verdict is Verdict.PASS
    assert judged(Shifted.apply, spec, "vjp").verdict is Verdict.MISMATCH


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_what_rounding_may_change_is_not_judged(dtype):
    """In bfloat16 ties abound, and so do products next to an integer: both sides may be right."""

    def primal(x):
        return jnp.max(x, -1), jnp.argmax(x, -1), jnp.floor(x * 3).astype(int), (x * 3).astype(int), x > 0.3

    def right(x):
        return x.amax(-1), x.argmax(-1), (x + x + x).floor().long(), (x + x + x).long(), x > 0.3

    spec = OpSpec("places", primal, "(n,6)->(n),(n),(n,6),(n,6),(n,6)", input_names=("x",))
    assert judged(right, spec, "forward", dtype, seed=1).verdict is Verdict.PASS
    wrong = judged(lambda x: (*right(x)[:3], (x + x + x).round().long(), x > 0.3), spec, "forward", dtype)
    assert wrong.verdict is Verdict.MISMATCH
    assert judged(lambda x: (*right(x)[:4], x > 0.6), spec, "forward", dtype).verdict is Verdict.MISMATCH
    if dtype == "float64":
        row = judged(lambda x: (right(x)[0], x.argmin(-1), *right(x)[2:]), spec, "forward", dtype)
        assert row.verdict is Verdict.MISMATCH


def test_without_an_output_that_is_differentiable_there_is_nothing_to_judge():
    with pytest.raises(ValueError, match="primal returns integers only, which have no derivative"):
        crosscheck(torch.argmax, OpSpec("argmax", lambda x: jnp.argmax(x), "(n)->()"), checks=["forward"])


@pytest.mark.slow
def test_a_number_of_outputs_that_differs_is_caught():
    row = judged(lambda x: top_k(x)[0], TOP_K, "vjp")
    assert row.verdict is Verdict.MISMATCH
    assert "returned 1 outputs, expected 2" in str(row)


@pytest.mark.slow
def test_a_candidate_in_jax_returns_integers():
    report = crosscheck(JaxCandidate(TOP_K.primal), TOP_K, checks=["forward", "vjp", "jvp"], dtypes=["float64"])
    assert report.passed, str(report)
    wrong = JaxCandidate(lambda x: (jax.lax.top_k(x**3, 2)[0], 4 - jax.lax.top_k(x**3, 2)[1]))
    assert judged(wrong, TOP_K, "forward").verdict is Verdict.MISMATCH


# Names.


class Both(NamedTuple):
    sine: Any
    cosine: Any


@dataclass
class Returned:
    cosine: Any
    sine: Any


NAMED = OpSpec("both", lambda x: Both(jnp.sin(x), 2 * jnp.cos(x)), "(n)->(n),(n)")


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(lambda s, c: {"cosine": c, "sine": s}, id="a dictionary in another order"),
        pytest.param(lambda s, c: Returned(c, s), id="a dataclass in another order"),
        pytest.param(Both, id="a named tuple"),
        pytest.param(lambda s, c: (s, c), id="a tuple"),
    ],
)
def test_outputs_are_matched_by_name_where_both_have_names(kind):
    report = crosscheck(
        lambda x: kind(x.sin(), 2 * x.cos()), NAMED, checks=["forward", "vjp", "jvp"], dtypes=["float64"]
    )
    assert report.passed, str(report)
    row = judged(lambda x: kind(2 * x.cos(), x.sin()), NAMED, "forward")
    assert row.failure is not None
    assert [result.label for result in row.failure.wrong] == ["sine", "cosine"]


def test_other_names_are_caught():
    row = judged(lambda x: {"sin": x.sin(), "cos": 2 * x.cos()}, NAMED, "forward")
    assert row.verdict is Verdict.MISMATCH
    assert "returned the outputs cos, sin, expected sine, cosine" in str(row)


@pytest.mark.slow
def test_dictionaries_in_dictionaries():
    spec = OpSpec(
        "nested",
        lambda x: {"b": (jnp.exp(x), {"x": x * x}), "a": jnp.sin(x), "n": x > 0},
        "(n)->(n),(n),(n),(n)",
    )

    def right(x):
        return {"n": x > 0, "a": x.sin(), "b": [x.exp(), {"x": x * x}]}

    report = crosscheck(right, spec, checks=["forward", "vjp", "vmap"], dtypes=["float64"])
    assert report.passed, str(report)
    row = judged(lambda x: right(x) | {"b": [x.exp(), {"x": x}]}, spec, "vjp")
    assert row.verdict is Verdict.MISMATCH
    assert judged(lambda x: right(x) | {"n": x > 1}, spec, "forward").verdict is Verdict.MISMATCH


def test_an_output_of_an_input_s_name_has_another():
    spec = OpSpec("same", lambda x: {"x": x * x}, "(n)->(n)")
    row = judged(lambda x: {"x": 2 * x}, spec, "forward")
    assert row.failure is not None
    assert row.failure.wrong[0].label == "output.x"


def test_given_names_come_first():
    spec = OpSpec("both", NAMED.primal, "(n)->(n),(n)", output_names=("s", "c"))
    row = judged(lambda x: {"sine": x, "cosine": x}, spec, "forward")
    assert row.failure is not None
    assert [result.label for result in row.failure.wrong] == ["s", "c"]


def test_the_leaves_are_in_the_order_of_jax():
    nested = {"b": [1, {"z": 2, "y": Both(3, 4)}], "a": (5,)}
    assert [leaf for _, leaf in leaves(nested)] == jax.tree.leaves(nested)
    assert dict(leaves(nested))["b", 1, "y", "cosine"] == 4
    assert [*leaves(7)] == [((), 7)]


def test_a_plain_tuple_stays_what_it_was():
    assert Outputs(((0,), (1,)), (True, True)).is_plain
    assert Outputs(((),), (True,)).is_plain
    for other in (Outputs(((0,), (1,)), (True, False)), Outputs((("a",),), (True,)), Outputs(((0, 1),), (True,))):
        assert not other.is_plain
