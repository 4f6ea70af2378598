"""The inputs that are judged at: reproducible, independent of each other, each as its name says."""

from __future__ import annotations

import dataclasses
import itertools

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import OpSpec, Verdict, crosscheck, integer
from parity_tests.harness.specs.domains import EmptyDomain
from parity_tests.harness.specs.samples import Sample, at_sizes, few_samples, samples
from parity_tests.operators.operator import function

SPEC = OpSpec("op", primal=lambda x, y: x @ y, signature="(n,k),(k,m)->(n,m)")
NAMES = ("x", "y")


def by_name(spec: OpSpec = SPEC, seed: int = 0) -> dict[str, Sample]:
    return {sample.name: sample for sample in samples(spec, seed)}


def test_the_list_of_samples():
    axes = "nkm"
    assert list(by_name()) == [
        "all_axes_differ",
        "equal_axes",
        *(f"one_{axis}" for axis in axes),
        *(f"zero_{axis}" for axis in axes),
        "larger_numbers",
        *(f"{size}_{axis}" for axis in axes for size in ("two", "blocks", "tail", "many")),
        "long_axes",
    ]
    assert all(sample.why for sample in by_name().values())


@pytest.mark.parametrize("name", ["all_axes_differ", "long_axes"])
def test_no_two_axes_are_alike(name):
    sizes = by_name()[name].sizes
    assert len(set(sizes.values())) == len(sizes) == 3
    assert min(sizes.values()) > (32 if name == "long_axes" else 1)


def test_all_axes_are_alike_at_one_sample():
    assert set(by_name()["equal_axes"].sizes.values()) == {4}
    assert "equal_axes" not in by_name(OpSpec("op", primal=lambda x: x, signature="(n)->(n)"))


@pytest.mark.parametrize(("prefix", "size"), [("one", 1), ("zero", 0)])
@pytest.mark.parametrize("axis", ["n", "k", "m"])
def test_one_axis_at_a_time_is_short(prefix, size, axis):
    sizes = dict(by_name()[f"{prefix}_{axis}"].sizes)
    assert sizes.pop(axis) == size
    assert min(sizes.values()) > 1


@pytest.mark.parametrize("axis", ["n", "k", "m"])
def test_one_axis_at_a_time_is_so_long_that_16_bits_do_not_hold_its_sum(axis):
    sample = by_name()[f"many_{axis}"]
    sizes = dict(sample.sizes)
    assert sizes.pop(axis) > 2048
    assert max(sizes.values()) < 10
    assert sample.first_order_only
    assert all((x > 0).all() for x in sample.primals(NAMES))
    assert np.float16(2048) + np.float16(1) == np.float16(2048)


@pytest.mark.parametrize(("prefix", "size"), [("two", 2), ("blocks", 256), ("tail", 191)])
@pytest.mark.parametrize("axis", ["n", "k", "m"])
def test_one_axis_at_a_time_is_short_or_long(prefix, size, axis):
    sample = by_name()[f"{prefix}_{axis}"]
    assert sample.sizes[axis] == size
    assert len(set(sample.sizes.values())) == 3
    assert sorted(sample.sizes.values())[-2] < 10
    assert sample.first_order_only


def test_sizes_stay_unequal_where_another_axis_has_two_already():
    spec = OpSpec("op", primal=lambda x: x, signature="(a,b,c,d)->(a)")
    cases = by_name(spec)
    assert cases["all_axes_differ"].sizes == {"a": 4, "b": 3, "c": 5, "d": 2}
    assert cases["two_b"].sizes == {"a": 4, "b": 2, "c": 5, "d": 3}
    assert "two_d" not in cases


@pytest.mark.parametrize("block", [4, 16, 32, 64, 128])
def test_every_axis_comes_in_whole_blocks_and_with_a_tail(block):
    for axis in "nkm":
        tails = {sample.sizes[axis] % block for sample in by_name().values() if sample.sizes[axis] >= block}
        assert {0, 1, min(block, 64) - 1} <= tails


def test_no_sample_is_too_large():
    square = OpSpec("op", primal=lambda x: x.sum(0), signature="(n,n)->(n)")
    assert not [name for name in by_name(square) if name.startswith("many")]
    images = OpSpec("op", primal=lambda x: x, signature="(n,c,h,w)->(n,c,h,w)")
    assert max(np.prod(shape) for sample in by_name(images).values() for shape in sample.shapes) < 2**17
    in_turn = ("equal", "larger", "two", "blocks", "tail", "many")
    assert {name.split("_")[0] for name, sample in by_name().items() if sample.first_order_only} == set(in_turn)


def test_axes_are_long_two_at_a_time_where_all_at_once_make_an_output_too_large():
    spec = OpSpec("kron", primal=jnp.kron, signature="(n,m),(k,l)->(i,j)", sizes="i = n*k, j = m*l")
    long = {name: sample for name, sample in by_name(spec).items() if name.startswith("long_axes")}
    assert all(sample.sizes["i"] * sample.sizes["j"] <= 2**17 for sample in long.values())
    together = [{axis for axis in "nmkl" if sample.sizes[axis] > 32} for sample in long.values()]
    for pair in itertools.combinations("nmkl", 2):
        assert any(set(pair) <= axes for axes in together), pair
    assert [name for name, sample in long.items() if not sample.first_order_only] == ["long_axes"]


def test_an_operator_with_one_axis_gets_entries_of_several_sizes():
    sample = by_name(OpSpec("op", primal=lambda x: x, signature="(n)->(n)"))["long_axes"]
    assert not sample.first_order_only
    (x,) = sample.primals(("x",))
    for sign in (-1, 1):
        for low, high in ((0, 0.25), (0.25, 0.5), (0.5, 1), (1, 2)):
            assert np.count_nonzero((low < sign * x) & (sign * x <= high)) >= 3
    assert np.abs(x).max() <= 2


BROADCAST = OpSpec("op", primal=lambda x, y: x + y, signature="(n|1,m|1),(n|1,m)->(n,m)")


def test_each_axis_that_may_be_broadcast_is_in_turn_and_then_two():
    cases = {name: sample.shapes for name, sample in by_name(BROADCAST).items() if name.startswith("broadcast")}
    assert cases == {
        "broadcast_n_of_x": ((1, 3), (4, 3)),
        "broadcast_m_of_x": ((4, 1), (4, 3)),
        "broadcast_n_of_y": ((4, 3), (1, 3)),
        "broadcast_n_of_x_m_of_x": ((1, 1), (4, 3)),
        "broadcast_m_of_x_n_of_y": ((4, 1), (1, 3)),
    }


def test_what_is_broadcast_is_no_generic_sample_and_two_at_once_are_for_the_first_order():
    cases = [sample for sample in by_name(BROADCAST).values() if sample.broadcast]
    assert not [sample for sample in cases if sample.generic]
    assert all(sample.first_order_only == (len(sample.broadcast) > 1) for sample in cases)


def test_a_fixed_size_that_is_broadcast():
    cases = by_name(OpSpec("op", primal=lambda x, y: x + y, signature="(3|1),(3)->(3)"))
    assert cases["broadcast_3_of_x"].shapes == ((1,), (3,))
    assert cases["draw_0"].shapes == ((3,), (3,))


def test_shapes_follow_the_signature():
    for sample in by_name().values():
        n, k, m = (sample.sizes[axis] for axis in "nkm")
        assert sample.shapes == ((n, k), (k, m))
        assert [x.shape for x in sample.primals(NAMES)] == [(n, k), (k, m)]


def test_only_a_sample_without_extremes_is_generic():
    assert [name for name, sample in by_name().items() if sample.generic] == ["all_axes_differ"]


def test_the_same_seed_gives_the_same_numbers_in_any_order():
    first, second = by_name(seed=3), by_name(seed=3)
    forwards = {name: sample.primals(NAMES) for name, sample in first.items()}
    backwards = {name: second[name].primals(NAMES) for name in reversed(second)}
    for name in forwards:
        for x, y in zip(forwards[name], backwards[name], strict=True):
            np.testing.assert_array_equal(x, y)


def test_another_seed_sample_role_or_example_gives_other_numbers():
    cases, other = by_name(seed=3), by_name(seed=4)
    shape = (5,)
    draws = [
        cases["one_n"].draw("x", shape),
        other["one_n"].draw("x", shape),
        cases["one_k"].draw("x", shape),
        cases["one_n"].draw("y", shape),
        cases["all_axes_differ"].primals(NAMES)[0].ravel()[:5],
        cases["all_axes_differ"].primals(NAMES, example=1)[0].ravel()[:5],
    ]
    assert len({draw.tobytes() for draw in draws}) == len(draws)


def test_numbers_are_signed_and_moderate():
    (x, y) = by_name()["all_axes_differ"].primals(NAMES)
    values = np.concatenate([x.ravel(), y.ravel()])
    assert values.dtype == np.float64
    assert values.min() < 0 < values.max()
    assert np.abs(values).max() < 5


def test_an_operator_on_scalars_gets_several_draws():
    spec = OpSpec("op", primal=lambda x: x * x, signature="()->()")
    cases = by_name(spec)
    assert list(cases) == [f"draw_{i}" for i in range(8)]
    values = [float(sample.primals(("x",))[0]) for sample in cases.values()]
    assert len(set(values)) == 8
    assert min(values) < 0 < max(values)


def test_a_signature_of_fixed_sizes_only_gets_several_draws():
    spec = OpSpec("op", primal=lambda x: x * x, signature="(3)->(3)")
    assert [sample.shapes for sample in samples(spec, 0)] == [((3,),)] * 8


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(np.array([1.5, -2.0], np.float32), id="NumPy"),
        pytest.param(jnp.array([1.5, -2.0], jnp.bfloat16), id="JAX"),
        pytest.param(torch.tensor([1.5, -2.0], dtype=torch.bfloat16, requires_grad=True), id="PyTorch"),
    ],
)
def test_given_inputs_are_the_only_sample(given):
    spec = OpSpec("op", primal=lambda x: x * x, inputs=(given,))
    (sample,) = samples(spec, 0)
    (value,) = sample.primals(("x",))
    assert sample.name == "given"
    assert sample.generic
    assert value.dtype == np.float64
    np.testing.assert_array_equal(value, [1.5, -2.0])


def test_given_inputs_are_copied():
    x = np.ones(2)
    (sample,) = samples(OpSpec("op", primal=lambda x: x * x, inputs=(x,)), 0)
    sample.primals(("x",))[0][:] = 7
    np.testing.assert_array_equal(x, np.ones(2))


def test_further_examples_of_given_inputs_stay_in_their_domain():
    x = np.array([0.5, 2.0])
    (sample,) = samples(OpSpec("op", primal=lambda x: x * x, inputs=(x,)), 0)
    (second,) = sample.primals(("x",), example=1)
    assert (second > 0).all()
    assert (second != x).all()


def test_more_axes_than_can_be_told_apart():
    with pytest.raises(
        ValueError, match=r"^OpSpec op: its signature has 9 named axes, and at most 8 can be told apart"
    ):
        OpSpec("op", primal=lambda x: x, signature="(a,b,c,d,e,f,g,h,i)->(a)")
    eight = OpSpec("op", primal=lambda x: x, signature="(a,b,c,d,e,f,g,h)->(a)")
    assert len(set(by_name(eight)["all_axes_differ"].sizes.values())) == 8


def test_few_samples():
    """Of every kind one: the most telling, an empty axis, one beyond a block; and each axis of size 1."""
    spec = OpSpec("matmul", primal=lambda x, y: x @ y, signature="(n,k),(k,m)->(n,m)")
    few = list(few_samples(spec, 0))
    first_order = ["one_n", "one_k", "one_m", "equal_axes"]
    assert [s.name for s in few] == ["all_axes_differ", "zero_n", *first_order, "long_axes"]
    assert [s.name for s in few if s.first_order_only] == first_order
    gaps = OpSpec("gaps", lambda x: x[1:] - x[:-1], "(n)->(m)", sizes="n >= 1, m = n - 1")
    assert [s.sizes for s in few_samples(gaps, 0) if s.first_order_only] == [{"n": 2, "m": 1}]
    for scalar in (OpSpec("f", lambda x: x, "()->()"), OpSpec("f", lambda x: x, inputs=(np.ones(3),))):
        assert len(list(few_samples(scalar, 0))) == 1


def _picked(x, i):
    return x[i] * x[i]


def _picked_with(gradient):
    return function(_picked, lambda x, i, w: (gradient(x, i, 2 * x[i] * w), None))


def _added_up(x, i, w):
    return torch.zeros_like(x).index_add(0, i, w)


def _of_one_row(x, i, w):
    """A short cut where one row is asked for again and again, in which the last cotangent wins."""
    is_one = len(i) > 2 and bool((i == i[0]).all())
    return torch.zeros_like(x).index_copy(0, i[-1:], w[-1:]) if is_one else _added_up(x, i, w)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_integers_are_equal_at_one_sample(dtype):
    domains = {"i": integer(0, "n")}
    spec = OpSpec("picked", _picked, "(n,d),(m)->(m,d)", input_names=("x", "i"), sizes="n >= 1", domains=domains)
    index = by_name(spec)["equal_integers"].constants[1]
    assert index is not None
    assert index.size == by_name(spec)["all_axes_differ"].constants[1].size > 2
    assert np.unique(index).size == 1
    candidates = {"right": _picked_with(_added_up), "wrong": _picked_with(_of_one_row)}
    report = crosscheck(candidates, spec, checks=["vjp"], dtypes=[dtype])
    verdicts = {row.candidate: row for row in report.rows}
    assert verdicts["right"].verdict is Verdict.PASS, str(report)
    assert verdicts["wrong"].verdict is Verdict.MISMATCH, str(report)
    assert verdicts["wrong"].failure is not None
    assert verdicts["wrong"].failure.sample == "equal_integers"


def _at_masks(wrong_where):
    """tanh where a mask lets it through, whose backward is wrong at masks of which this is true."""

    class Masked(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, mask):
            ctx.save_for_backward(x, mask)
            return torch.where(mask, torch.tanh(x), 0.5 * x)

        @staticmethod
        def backward(ctx, g):
            x, mask = ctx.saved_tensors
            wrong = mask.numel() > 1 and bool(wrong_where(mask))
            return g if wrong else torch.where(mask, g * (1 - torch.tanh(x) ** 2), 0.5 * g), None

    return lambda x, mask: Masked.apply(x, mask)


def test_masks_are_everywhere_true_at_one_sample_and_false_at_another():
    spec = OpSpec(
        "masked",
        lambda x, mask: jnp.where(mask, jnp.tanh(x), 0.5 * x),
        "(n,d),(n,d)->(n,d)",
        input_names=("x", "mask"),
        domains={"mask": "boolean"},
    )
    samples = by_name(spec)
    assert samples["nothing_masked"].constants[1].all()
    assert not samples["all_masked"].constants[1].any()
    candidates = {
        "right": _at_masks(lambda mask: False),
        "nothing_masked": _at_masks(torch.all),
        "all_masked": _at_masks(lambda mask: not mask.any()),
    }
    rows = crosscheck(candidates, spec, checks=["vjp"], dtypes=["float64"], progress=False).rows
    failures = {row.candidate: row.failure and row.failure.sample for row in rows if row.candidate in candidates}
    assert failures == {"right": None, "nothing_masked": "nothing_masked", "all_masked": "all_masked"}


def test_an_operator_without_integers_has_no_sample_of_equal_ones():
    assert not {"equal_integers", "nothing_masked", "all_masked"} & by_name().keys()


def _slope(x, w):
    return w * torch.cos(x)


def _variance(x):
    """The variance of each column by its degrees of freedom, and 0 of a single number."""
    return jnp.sum((x - x.mean(0)) ** 2, 0) / max(x.shape[0] - 1, 1)


def _variance_torch(x):
    return (x - x.mean(0)).square().sum(0) / max(x.shape[0] - 1, 1)


OF_SIZE_ONE = {  # an operator, a right version, and one that is wrong where an axis is of size 1 only
    "a squeeze": (
        OpSpec("sin", jnp.sin, "(n,m)->(n,m)"),
        torch.sin,
        function(torch.sin, lambda x, w: _slope(x, w).squeeze()),
    ),
    "a sum of what was not broadcast": (
        OpSpec("product", lambda x, y: x * y, "(n,m),(n,m)->(n,m)"),
        torch.mul,
        function(torch.mul, lambda x, y, w: ((w * y).sum(1, True) if len(x) == 1 else w * y, w * x)),
    ),
    "a division by n - 1": (
        OpSpec("variance", _variance, "(n,m)->(m)", sizes="n >= 1"),
        _variance_torch,
        lambda x: x.var(0) if len(x) else _variance_torch(x),
    ),
    "the third axis": (
        OpSpec("scores", lambda q, k, b: q @ k.T + b, "(n,d),(m,d),(m)->(n,m)"),
        lambda q, k, b: q @ k.mT + b,
        lambda q, k, b: q @ k.mT + (b if len(b) > 1 else 2 * b),
    ),
}


@pytest.mark.parametrize("name", OF_SIZE_ONE)
def test_a_quick_run_finds_what_is_wrong_at_size_1_only(name):
    spec, right, wrong = OF_SIZE_ONE[name]
    candidates = {"right": right, "wrong": wrong}
    report = crosscheck(candidates, spec, checks=["forward", "vjp"], dtypes=["float64", "bfloat16"], quick=True)
    found = {row.candidate for row in report.rows if row.verdict is Verdict.MISMATCH}
    assert found == {"wrong"}, str(report)
    assert {row.verdict for row in report.rows if row.candidate == "right"} == {Verdict.PASS}


def test_a_sample_with_the_same_arrays_is_the_same_sample():
    spec = OpSpec("matmul", primal=lambda x, y: x @ y, signature="(n,k),(k,m)->(n,m)")
    sample = next(samples(spec, 0))
    primals, direction = sample.primals(("x", "y"), 1), sample.draw("output_bar 0", (4, 2))
    assert list(sample.arrays) == ["x 1", "y 1", "output_bar 0"]
    again = dataclasses.replace(sample.with_arrays({}), name="another", seed=9)
    for x, y in zip(again.primals(("x", "y"), 1), primals, strict=True):
        np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(again.draw("output_bar 0", (4, 2)), direction)
    assert not np.array_equal(again.primals(("x", "y"), 0)[0], sample.primals(("x", "y"), 0)[0])


def test_a_sample_with_other_arrays_is_another_one():
    """What has been drawn is not part of it: that follows from the rest."""
    spec = OpSpec("take", lambda x, i: x[i], "(n),(k)->(k)", domains={"i": integer(0, "n")})
    sample, same = next(samples(spec, 0)), next(samples(spec, 0))
    x = sample.draw("output_bar 0", (3,))
    assert sample == same
    assert sample != sample.with_arrays({"output_bar 0": x})  # which is given what the other one draws
    assert sample.with_arrays({}) == same.with_arrays({"output_bar 0": x.copy()})
    assert sample.with_arrays({}) != sample.with_arrays({"output_bar 0": -x})
    assert sample != dataclasses.replace(sample, constants={1: (sample.constants[1] + 1) % 4})
    assert sample != dataclasses.replace(sample, seed=9)
    assert sample != "a sample"


def test_what_is_given_cannot_be_changed_and_what_is_drawn_is_not_shared():
    spec = OpSpec("f", lambda x: x, "(n)->(n)")
    sample = next(samples(spec, 0))
    (before,) = sample.primals(("x",))
    (elsewhere,) = dataclasses.replace(sample, seed=1).primals(("x",))
    assert not np.array_equal(before, elsewhere)  # a copy draws its own
    arrays = {"x 0": np.ones(4)}
    given = sample.with_arrays(arrays)
    arrays["x 0"] = np.zeros(4)
    np.testing.assert_array_equal(given.primals(("x",))[0], np.ones(4))
    for view in (given.given, given.arrays, sample.arrays):
        with pytest.raises(TypeError, match="does not support item assignment"):
            view["x 0"] = np.zeros(4)  # type: ignore[index]
    assert sample.primals(("x",))[0] is before


def test_at_other_sizes():
    spec = OpSpec(
        "take",
        primal=lambda x, index: x[index],
        signature="(n,k),(m)->(m,k)",
        domains={"index": integer(0, "n")},
    )
    sample = at_sizes(spec, next(samples(spec, 0)), {"n": 2, "k": 1, "m": 6})
    assert (sample.sizes, sample.shapes, sample.arrays) == ({"n": 2, "k": 1, "m": 6}, ((2, 1),), {})
    assert sample.constants[1].shape == (6,)
    assert sample.constants[1].max() < 2
    with pytest.raises(EmptyDomain):
        at_sizes(spec, sample, {"n": 0, "k": 1, "m": 6})


@pytest.mark.slow
def test_a_mistake_where_two_axes_are_long_is_seen_although_not_all_are_long_at_once():
    def kron(a, b):
        return torch.kron(a, b) * (1.5 if a.shape[0] > 32 and b.shape[1] > 32 else 1.0)

    spec = OpSpec(
        "kron", primal=jnp.kron, signature="(n,m),(k,l)->(i,j)", sizes="i = n*k, j = m*l", dtypes=("float64",)
    )
    report = crosscheck(kron, spec, checks=["forward"])
    assert not report.passed
    assert crosscheck(torch.kron, spec, checks=["forward"]).passed
