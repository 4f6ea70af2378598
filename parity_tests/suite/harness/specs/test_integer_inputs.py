"""Integers and booleans as inputs: what is drawn, what both sides get, and which mistakes only they show."""

from __future__ import annotations

import operator
import pickle
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import OpSpec, Verdict
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.specs.domains import Domain, EmptyDomain, integer
from parity_tests.harness.specs.samples import samples
from parity_tests.suite.harness._ops import judged, normal
from parity_tests.suite.harness.specs._drawn import drawn
from parity_tests.suite.marks import fast

pytestmark = pytest.mark.usefixtures("certified_once")


@pytest.mark.parametrize(
    ("low", "high", "values"), [(0, "v", range(7)), (-2, 2, range(-2, 2)), ("n", "v", range(4, 7))]
)
def test_integers_lie_between_their_ends_and_reach_both(low, high, values):
    x = drawn(integer(low, high), (400,))
    assert x.dtype == np.int64
    assert set(x.tolist()) == set(values)


def test_there_may_be_no_integer_to_draw():
    with pytest.raises(EmptyDomain, match="there is no integer from 7 up to 4"):
        drawn(integer("v", "n"), (3,))
    assert drawn(integer("v", "n"), (0, 3)).shape == (0, 3)


def test_a_sample_without_an_integer_to_draw_is_left_out():
    names = {s.name for s in samples(_gather_spec(), 0)}
    assert "zero_v" not in names
    assert {"all_axes_differ", "zero_k", "one_v", "many_k"} <= names


def _gather_spec(**fields: Any) -> OpSpec:
    options = {"signature": "(v,d),(k)->(k,d)", "domains": {"index": integer(0, "v")}}
    return OpSpec("gather", primal=lambda table, index: table[index] ** 2, **(options | fields))


def _gather(table, index):
    return table[index] ** 2


@fast("float64")
@pytest.mark.parametrize("dtype", PRECISIONS)
def test_integers_reach_both_sides_as_integers(dtype):
    seen = []

    def gather(table, index):
        seen.append(index)
        return _gather(table, index)

    assert judged(gather, _gather_spec(), "vjp", dtype).verdict is Verdict.PASS
    assert {x.dtype for x in seen} == {torch.int64}
    assert not any(x.requires_grad for x in seen)


@pytest.mark.parametrize("kind", [np.int32, np.uint8, bool])
def test_integers_that_are_given_keep_their_dtype(kind):
    mask, seen = np.array([1, 0, 1]).astype(kind), []

    def masked(x, mask):
        seen.append((mask.dtype, mask.tolist()))
        return torch.where(mask != 0, x * x, x)

    spec = OpSpec("masked", primal=lambda x, mask: jnp.where(mask != 0, x * x, x), inputs=(normal(3), mask))
    assert judged(masked, spec, "vjp").verdict is Verdict.PASS
    assert set(map(str, seen)) == {str((torch.from_numpy(mask).dtype, mask.tolist()))}


def test_another_index_is_caught():
    def shifted(table, index):
        return _gather(table, (index + 1) % len(table))

    assert judged(shifted, _gather_spec(), "forward").verdict is Verdict.MISMATCH


@pytest.mark.slow
def test_a_gradient_by_another_index_is_caught():
    class Sorted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, table, index):
            ctx.save_for_backward(table, index)
            return table[index] ** 2

        @staticmethod
        def backward(ctx, output_bar):
            table, index = ctx.saved_tensors
            index = index.sort().values
            return torch.zeros_like(table).index_add(0, index, 2 * table[index] * output_bar), None

    assert judged(Sorted.apply, _gather_spec(), "forward").verdict is Verdict.PASS
    assert judged(Sorted.apply, _gather_spec(), "vjp").verdict is Verdict.MISMATCH


def _offsets(rng, shape):
    return rng.integers(-3, 4, shape).astype(np.int32)


def _flags(rng, shape):
    return rng.random(shape) < 0.5


def _shifted_spec(sampler: Any, **fields: Any) -> OpSpec:
    def primal(x, k):
        return jnp.where(k > 0, x**3, x * x) if k.dtype == bool else x * 2.0 ** (k // 2)

    return OpSpec("op", primal, **{"signature": "(n),(n)->(n)", "domains": {"k": sampler}} | fields)


def _shifted(x, k):
    return torch.where(k, x**3, x * x) if k.dtype == torch.bool else x * 2.0 ** (k // 2)


@pytest.mark.parametrize(
    ("sampler", "kind"), [(_offsets, torch.int64), (_flags, torch.bool)], ids=["integers", "booleans"]
)
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_integers_of_a_sampler_reach_both_sides_as_integers(sampler, kind, dtype):
    seen = []

    def shifted(x, k):
        seen.append(k)
        return _shifted(x, k)

    spec = _shifted_spec(sampler)
    assert [domain.differentiable for domain in spec.drawn_from] == [True, False]
    assert judged(shifted, spec, "vjp", dtype).verdict is Verdict.PASS
    assert {x.dtype for x in seen} == {kind}
    assert not any(x.requires_grad for x in seen)


def test_a_mistake_that_only_integers_show_is_caught():
    """Division rounds towards zero instead of downwards: as float64 numbers both sides would divide exactly."""
    row = judged(lambda x, k: x * 2.0 ** torch.div(k, 2, rounding_mode="trunc"), _shifted_spec(_offsets), "forward")
    assert row.verdict is Verdict.MISMATCH


def test_a_sampler_of_integers_is_called_at_whatever_shape_the_signature_asks_for():
    def rows(rng, shape):
        assert shape[-1] == 3
        return rng.integers(0, 2, shape)

    spec = _shifted_spec(rows, signature="(n,3),(n,3)->(n,3)")
    assert all(sample.constants[1].dtype == np.int64 for sample in samples(spec, 0))


def test_integers_that_were_not_expected_are_refused():
    def only_of_four(rng, shape):
        if shape != (4,):
            raise ValueError("four, please")
        return rng.integers(0, 2, shape)

    spec = _shifted_spec(only_of_four)
    with pytest.raises(TypeError, match=r"^the domain 'only_of_four' drew int64, which cannot be differentiated"):
        next(iter(samples(spec, 0))).primals(("x", "k"))
    spec = _shifted_spec(Domain("offsets", lambda rng, shape, sizes: _offsets(rng, shape)))
    with pytest.raises(TypeError, match=r"'offsets' drew int32, .* or give a Domain\(\.\.\., differentiable=False\)$"):
        next(iter(samples(spec, 0))).primals(("x", "k"))


def test_a_sampler_of_something_else_is_refused():
    spec = _shifted_spec(lambda rng, shape: rng.standard_normal(shape) * 1j)
    with pytest.raises(TypeError, match=r"drew complex128; draw real numbers, integers or booleans$"):
        next(iter(samples(spec, 0))).primals(("x", "k"))


def test_integers_alone_have_no_derivative():
    text = r"no input is differentiated \(integers are drawn for k; multiply by 1.0 for real numbers\)"
    with pytest.raises(ValueError, match=text):
        OpSpec("op", lambda k: k * k, "(n)->(n)", domains={"k": _offsets})


def test_a_spec_of_samplers_can_be_pickled():
    spec = pickle.loads(pickle.dumps(OpSpec("op", operator.mul, "(n),(n)->(n)", domains={"b": _offsets})))
    assert [domain.differentiable for domain in spec.drawn_from] == [True, False]
