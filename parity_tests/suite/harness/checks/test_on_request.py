"""large_sizes and raises: what they ask, and where they have nothing to say."""

from __future__ import annotations

import jax.numpy as jnp
import pytest
import torch

from parity_tests import JaxCandidate, OpSpec, Verdict
from parity_tests.harness.crosscheck import select_checks
from parity_tests.suite.harness._ops import PAIR, judged, pair

PRODUCT = OpSpec("product", primal=lambda x, y: x @ y, signature="(n,k),(k,m)->(n,m)")
GIVEN = "inputs are given, so that there are no other sizes; give a signature instead"


def test_they_are_run_on_request():
    assert not {"large_sizes", "raises"} & {check.name for check in select_checks(None)}


def test_each_axis_is_long_in_turn():
    shapes = set()

    def product(x, y):
        shapes.add((*x.shape, y.shape[1]))
        return x @ y

    assert judged(product, PRODUCT, "large_sizes").verdict is Verdict.PASS
    assert {shape for shape in shapes if max(shape) > 4096} == {(8193, 3, 5), (4, 8193, 5), (4, 3, 8193)}


@pytest.mark.slow
def test_a_candidate_in_jax_is_judged_at_large_sizes_too():
    assert judged(JaxCandidate(lambda x, y: x @ y, "right"), PRODUCT, "large_sizes").verdict is Verdict.PASS
    wrong = JaxCandidate(lambda x, y: jnp.where(jnp.arange(x.shape[0])[:, None] < 4096, x @ y, 0), "wrong")
    row = judged(wrong, PRODUCT, "large_sizes")
    assert row.verdict is Verdict.MISMATCH
    assert row.failure is not None
    assert {wrong.circumstance for wrong in row.failure.wrong} == {"axis n of 8193 entries"}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (PAIR, GIVEN),
        (
            OpSpec("fixed", lambda x, y: x * y, "(3),(3)->(3)"),
            "no axis of the signature has a name, so that there are no other sizes",
        ),
        (
            OpSpec("heads", lambda x, y: x * y, "(n,d),(n,d)->(n,d)", sizes="d in (16, 64)"),
            "the axis d cannot be longer than 4096: by the rules of OpSpec.sizes, or since an array would have more "
            "than 33554432 entries, or since the reference unrolls a loop; the others agree",
        ),
    ],
)
def test_what_cannot_be_long_is_named(spec, reason):
    row = judged(pair if spec is PAIR else torch.mul, spec, "large_sizes")
    assert (row.verdict, row.reason) == (Verdict.SKIPPED, reason)


def test_a_size_that_the_rules_do_not_have_is_the_next_one():
    seen = set()

    def double(x):
        seen.add(x.shape[0])
        return 2 * x

    spec = OpSpec("double", lambda x: 2 * x, "(n)->(n)", sizes="n % 4 == 0")
    assert judged(double, spec, "large_sizes").verdict is Verdict.PASS
    assert any(size > 4096 and size % 4 == 0 for size in seen)


def test_where_the_reference_takes_everything_nothing_is_asked():
    spec = OpSpec("sums", lambda x, y: x.sum() * y.sum(), "(n),(n)->()")
    row = judged(lambda x, y: x.sum() * y.sum(), spec, "raises")
    assert (row.verdict, row.reason) == (
        Verdict.SKIPPED,
        "the reference raises at none of the inputs that were tried, which do not fit together",
    )


def test_broadcasting_where_the_reference_broadcasts_is_right():
    """The same call raises where it must, and need not elsewhere."""
    spec = OpSpec("scaled", lambda x, y: x * y, "(n,m),(m|1)->(n,m)")
    assert judged(torch.mul, spec, "raises").verdict is Verdict.PASS


def test_the_axis_and_the_references_error_are_told():
    def cut(x, y):
        return x[:, : len(y)] @ y[: x.shape[1]]

    row = judged(cut, PRODUCT, "raises")
    assert row.failure is not None
    wrong = {(found.label, found.circumstance) for found in row.failure.wrong}
    assert wrong == {("x", "axis k of x is 4, elsewhere 3"), ("y", "axis k of y is 4, elsewhere 3")}
    assert "is accepted, where the reference raises TypeError: " in str(row.failure.wrong[0].pattern)


@pytest.mark.slow
def test_a_reference_in_pytorch_is_asked_about_axes_and_integers_too():
    def reference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, w)

    spec = OpSpec.from_torch(reference, "(n,k),(m,k)->(n,m)")
    assert judged(torch.nn.functional.linear, spec, "raises").verdict is Verdict.PASS
    row = judged(lambda x, w: x.to(w.dtype) @ w.mT, spec, "raises")
    assert row.failure is not None
    told = {wrong.circumstance for wrong in row.failure.wrong}
    assert told == {"x has integers", "w has one more axis, in front"}  # it converts, and takes a batch of weights
