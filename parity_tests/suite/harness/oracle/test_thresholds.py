"""Special points beyond the thresholds of intermediates: which are found, by how few factors, and where none are."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity_tests import OpSpec, crosscheck
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.oracle.points import placements
from parity_tests.harness.oracle.thresholds import beyond
from parity_tests.harness.specs.samples import samples
from parity_tests.operators.catalogue import COLLECTION


def norm(x: jax.Array) -> jax.Array:
    return jnp.sqrt((x * x).sum(-1, keepdims=True))


def found(
    primal: Callable, signature: str = "(n,d)->(n,d)", **of_the_spec: object
) -> list[tuple[tuple[int, ...], float]]:
    spec = OpSpec("op", primal=primal, signature=signature, **of_the_spec)
    with pinned():
        sample = next(iter(samples(spec, 0)))
        oracle = Oracle(spec, sample)
        primals = sample.primals(oracle.inputs)
        return [*beyond(oracle, primals, range(len(primals)))]


@pytest.mark.parametrize("eps", [1e-3, 1e-8, 1e-12])
def test_a_norm_comes_just_below_its_eps(eps: float) -> None:
    (((input_,), factor),) = found(lambda x: x / jnp.maximum(norm(x), eps))
    x = next(iter(samples(OpSpec("op", primal=norm, signature="(n,d)->(n,1)"), 0))).primals(("x",))[0]
    size = np.linalg.norm(factor * x, axis=-1) / eps
    assert input_ == 0
    assert (size < 1).mean() > 0.5
    assert (np.abs(size - 1) > 1 / 16).all()  # not at the kink, where each format has its own side
    assert (4 * size < 1).mean() <= 0.5  # a much smaller change would not do


def test_a_limit_from_above_is_found_with_larger_numbers() -> None:
    ((_, factor),) = found(lambda x: x * jnp.minimum(1.0, 1000 / norm(x)))
    assert factor > 1


def test_each_input_alone_comes_before_all_together() -> None:
    def cosine(x: jax.Array, y: jax.Array) -> jax.Array:
        return (x * y).sum(-1, keepdims=True) / jnp.maximum(norm(x), 1e-6) / jnp.maximum(norm(y), 1e-6)

    assert [group for group, _ in found(cosine, "(n,d),(n,d)->(n,1)")] == [(0,), (1,)]


def test_what_no_input_reaches_alone_all_of_them_do() -> None:
    def sums(x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.maximum(jnp.abs(x) + jnp.abs(y), 1e-6)

    assert [group for group, _ in found(sums, "(n),(n)->(n)")] == [(0, 1)]


@pytest.mark.parametrize(
    "primal",
    [
        lambda x: jnp.maximum(x @ x.T @ x, 0.0),  # a sign, which no factor changes
        lambda x: jnp.where(x > 0, x, jnp.finfo(x.dtype).min),  # a mask
        lambda x: jax.nn.softmax(x, -1),
        lambda x: jnp.clip(x, -0.1, 0.1),  # both sides are drawn
        lambda x: jax.lax.cond(x.sum() > 1e-9, jnp.sin, jnp.cos, x),  # a branch
    ],
    ids=["sign", "mask", "softmax", "visited", "branch"],
)
def test_where_there_is_nothing_to_visit(primal: Callable) -> None:
    assert found(primal) == []


def test_three_thresholds_are_visited_at_most() -> None:
    def many(x: jax.Array) -> jax.Array:
        return sum((jnp.maximum(norm(x), 10.0**-k) for k in range(3, 12)), x)

    assert len(found(many)) == 3


def test_an_input_of_another_domain_is_not_multiplied() -> None:
    spec = OpSpec(
        "op", primal=lambda x: x / jnp.maximum(norm(x), 1e-3), signature="(n,d)->(n,d)", domains={"x": "probabilities"}
    )
    with pinned():
        sample = next(iter(samples(spec, 0)))
        names = [place.name for place in placements(Oracle(spec, sample), sample, FLOAT64)]
    assert names
    assert not [name for name in names if "threshold" in name]


@pytest.mark.slow
def test_right_code_passes_where_a_row_came_near_to_the_threshold() -> None:
    """At this seed the smallest power of two put one norm within a rounding of bfloat16 of 128."""
    case = COLLECTION["clip_by_norm"]
    assert crosscheck(case.right, case.spec, checks=["points"], dtypes=["bfloat16"], seed=2).passed
