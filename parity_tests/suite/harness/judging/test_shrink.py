"""The smallest input that fails: which it is, what it never is, and what is said of it."""

from __future__ import annotations

import json
import re
import time
from contextvars import Context
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import OpSpec, Report, crosscheck
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.checks import CHECKS
from parity_tests.harness.diagnosis.arguments_in_words import _words, entries
from parity_tests.harness.diagnosis.diagnosis import plain_factor
from parity_tests.harness.findings import Comparison
from parity_tests.harness.judging import shrink
from parity_tests.harness.judging.judge import judge
from parity_tests.harness.judging.plan import Plan, shrinking_for
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.report.results import Failure
from parity_tests.harness.specs.domains import integer
from parity_tests.harness.specs.samples import samples
from parity_tests.harness.trial.trial import Trial
from parity_tests.suite.harness._ops import rows, unary_function

MATRIX = OpSpec("square", primal=lambda x: x * x, signature="(n,m)->(n,m)")
RIGHT = unary_function(lambda x: x * x, lambda x, g: 2 * x * g)


def failure(backward, spec=MATRIX, forward=lambda x: x * x, **options) -> Failure:
    report = crosscheck(unary_function(forward, backward), spec, checks=["vjp"], **options)
    return report.failures[0]


# The search, without an operator.


def searched(fails, spec=MATRIX, which="all_axes_differ", seconds=60.0):
    sample = next(s for s in samples(spec, 0) if s.name == which)
    calls = []

    def counted(sample):
        calls.append(sample)
        for role in ("x 0", "output_bar 0"):
            sample.draw(role, sample.shapes[0])
        return fails(sample)

    return shrink.shrunk(spec, sample, ("x",), counted, time.monotonic() + seconds), calls


@pytest.mark.usefixtures("shrinking")
@pytest.mark.parametrize(
    ("fails", "sizes"),
    [
        pytest.param(lambda s: True, {"n": 0, "m": 0}, id="everywhere"),
        pytest.param(lambda s: s.shapes[0][0] * s.shapes[0][1] > 0, {"n": 1, "m": 1}, id="not if empty"),
        pytest.param(lambda s: s.sizes["n"] >= 2, {"n": 2, "m": 0}, id="of two rows"),
        pytest.param(lambda s: s.sizes["n"] != s.sizes["m"], {"n": 0, "m": 1}, id="of unequal sizes"),
        pytest.param(lambda s: s.sizes["n"] == 4, {"n": 4, "m": 0}, id="of one size only"),
    ],
)
def test_sizes(fails, sizes):
    found, _ = searched(fails)
    assert found.sizes == sizes
    assert found.shapes == ((sizes["n"], sizes["m"]),)


@pytest.mark.usefixtures("shrinking")
def test_a_long_axis_is_found_by_bisection():
    found, calls = searched(lambda s: s.sizes["n"] > 32 and s.sizes["m"] > 0, which="long_axes")
    assert found.sizes == {"n": 33, "m": 1}
    assert len({tuple(s.sizes.items()) for s in calls}) < 40


@pytest.mark.usefixtures("shrinking")
def test_entries():
    found, _ = searched(lambda s: s.sizes["n"] > 1 and s.sizes["m"] > 2 and s.arrays["output_bar 0"][1, 2] != 0)
    np.testing.assert_array_equal(found.arrays["output_bar 0"], [[0, 0, 0], [0, 0, 1]])
    np.testing.assert_array_equal(np.sort(np.abs(found.arrays["x 0"]).ravel()), np.arange(1, 7))


@pytest.mark.usefixtures("shrinking")
def test_inputs_are_never_zero_and_never_alike():
    """An operator may have a kink there, where another gradient is right, too."""
    _, calls = searched(lambda s: s.sizes["n"] * s.sizes["m"] > 0)
    for sample in calls:
        x = np.abs(sample.arrays["x 0"])
        assert x.all()
        assert len(np.unique(x)) == x.size


@pytest.mark.usefixtures("shrinking")
def test_what_does_not_fail_again_is_not_shrunk():
    found, calls = searched(lambda s: False)
    assert found is None
    assert len(calls) == 1


def test_no_time():
    found, calls = searched(lambda s: True, seconds=0.0)
    assert found is None
    assert not calls


@pytest.mark.slow
def test_the_time_is_kept_and_what_was_found_by_then_is_used():
    def slow(sample):
        time.sleep(0.1)
        return sample.sizes["n"] * sample.sizes["m"] > 0

    start = time.monotonic()
    found, _ = searched(slow, seconds=0.5)
    assert time.monotonic() - start < 2
    assert found.sizes == {"n": 1, "m": 1}


def test_a_plan_says_how_long_a_failure_may_be_shrunk():
    """Five seconds, unless a block says otherwise, or the plan itself; and not beyond its own deadline."""

    def plan(**options):
        return Plan(MATRIX, [], [], [], "cpu", 0, lambda row: "", **options)

    def remaining(plan):
        return plan.shrink_deadline() - time.monotonic()

    assert plan().shrink_seconds == 0.0  # in this suite
    assert Context().run(lambda: plan().shrink_seconds) == 5.0
    with shrinking_for(60.0):
        made = plan()
        assert plan(shrink_seconds=1.0).shrink_seconds == 1.0
    assert plan().shrink_seconds == 0.0
    assert 50 < remaining(made) <= 60
    assert remaining(replace(made, deadline=time.monotonic() + 2)) <= 2


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_a_failure_is_shrunk_for_as_long_as_its_plan_says(seconds):
    wrong = Candidate(unary_function(lambda x: x * x, lambda x, g: x * g), "wrong")
    formats = [PRECISIONS["float64"]]
    plan = Plan(MATRIX, [wrong], [CHECKS["vjp"]], formats, "cpu", 0, lambda row: "", shrink_seconds=seconds)
    (row,) = (row for row in Report({}).collect(judge(plan)) if row.candidate == "wrong")
    assert (row.failure.smallest is None) == (seconds == 0.0)


# In a verdict.


@pytest.mark.usefixtures("shrinking")
def test_a_wrong_factor():
    smallest = failure(lambda x, g: x * g).smallest
    assert smallest.sizes == {"n": 1, "m": 1}
    assert smallest.entries == {"x": "[[1]]", "output_bar": "[[1]]"} or smallest.entries["x"] == "[[-1]]"
    assert (smallest.wrong.label, smallest.wrong.index, abs(smallest.wrong.oracle)) == ("x_bar", (0, 0), 2.0)
    assert abs(smallest.wrong.candidate) == 1.0


@pytest.mark.usefixtures("shrinking")
def test_one_entry_of_the_cotangent():
    """Row 1 of the cotangent also lands in row 0: one entry of it is enough, and two rows are needed."""

    def backward(x, g):
        spoilt = 2 * x * g
        if len(x) > 1:
            spoilt[0] += g[1]
        return spoilt

    smallest = failure(backward).smallest
    assert smallest.sizes == {"n": 2, "m": 1}
    assert smallest.entries["output_bar"] == "e(1, 0)"
    assert (smallest.wrong.index, smallest.wrong.candidate, smallest.wrong.oracle) == ((0, 0), 1.0, 0.0)


@pytest.mark.usefixtures("shrinking")
def test_a_wrong_gradient_does_not_slip_into_a_kink():
    """At 0 the candidate's |x|' is 1 and JAX's 0: a convention, while the mistake is beyond 1/2."""
    spec = OpSpec("abs", primal=jnp.abs, signature="(n)->(n)")
    found = failure(lambda x, g: torch.where(x > 0.5, 3.0, torch.where(x >= 0, 1.0, -1.0)) * g, spec, torch.abs)
    assert (found.smallest.wrong.candidate, found.smallest.wrong.oracle) == (3.0, 1.0)


@pytest.mark.usefixtures("shrinking")
def test_the_point_at_which_the_candidate_was_called_is_told():
    """At x = 0, where its formula is 0/0, even with a cotangent of zeros, which are the numbers of that point, too."""
    wrong = unary_function(lambda x: x * x, lambda x, g: 2 * x * x / x * g)
    spec = OpSpec("square", primal=lambda x: x * x, signature="(n)->(n)")
    (found,) = crosscheck(wrong, spec, checks=["points"], dtypes=["float64"]).failures
    assert (found.smallest.wrong.circumstance, found.smallest.entries) == ("x is 0", {"x": "[0]"})


@pytest.mark.usefixtures("shrinking")
def test_an_input_stays_in_its_domain():
    spec = OpSpec("log", primal=jnp.log, signature="(n)->(n)", domains={"x": "positive"}, input_names=["x"])
    found = failure(lambda x, g: g / x**2, spec, torch.log)
    assert found.smallest.sizes == {"n": 1}
    assert float(found.smallest.entries["x"].strip("[]")) > 0


@pytest.mark.usefixtures("shrinking")
def test_in_one_dtype_and_not_for_what_follows():
    wrong = unary_function(lambda x: x * x, lambda x, g: x * g)
    report = crosscheck(wrong, MATRIX, checks=["vjp", "vjp_of_vjp", "layouts"], dtypes=["float64", "float32"])
    shrunk = [(f.check, f.dtype) for f in report.failures if f.smallest]
    assert len(report.failures) == 6
    assert shrunk == [("vjp", "float64")]


@pytest.mark.usefixtures("shrinking")
def test_what_does_not_follow_from_another_format_is_shrunk():
    """The gradient is wrong in bfloat16 alone; in float16 that of the gradient is."""

    def backward(x, g):
        return x * g if x.dtype == torch.bfloat16 else 2 * x.detach() * g

    wrong = unary_function(lambda x: x * x, backward)
    report = crosscheck(wrong, MATRIX, checks=["vjp", "vjp_of_vjp"], dtypes=["bfloat16", "float16"])
    assert [(f.check, f.dtype) for f in report.failures if f.smallest] == [
        ("vjp", "bfloat16"),
        ("vjp_of_vjp", "float16"),
    ]
    text = str(report)
    assert (text.count("disagrees with"), text.count("is silently wrong in second order")) == (1, 1)


@pytest.mark.usefixtures("shrinking")
def test_the_widest_dtype_in_which_it_fails():
    def backward(x, g):
        return 2 * x * g if x.dtype in (torch.float64, torch.float32) else x * g

    found = failure(backward)
    assert found.dtype == "bfloat16"
    assert found.smallest.sizes == {"n": 1, "m": 1}


@pytest.mark.slow
@pytest.mark.usefixtures("shrinking")
def test_the_circumstance_is_told():
    def backward(x, g):
        return 2 * x * g if g.is_contiguous() else x * g

    report = crosscheck(unary_function(lambda x: x * x, backward), MATRIX, checks=["layouts"], dtypes=["float64"])
    (found,) = report.failures
    assert found.smallest.wrong.circumstance.startswith("cotangents ")
    assert f"({found.smallest.wrong.circumstance})" in str(report)


@pytest.mark.usefixtures("shrinking")
def test_an_error_is_shrunk_in_its_sizes():
    def backward(x, g):
        if len(x) > 2:
            raise RuntimeError(f"no room for {x.numel()} numbers")
        return 2 * x * g

    report = crosscheck(unary_function(lambda x: x * x, backward), MATRIX, checks=["vjp"], dtypes=["float64"])
    (found,) = report.failures
    assert found.wrong[0].pattern.startswith("raises RuntimeError: no room for 12 numbers (at test_shrink.py:")
    assert found.smallest.sizes == {"n": 3, "m": 1}  # at m = 0 it would be a refusal of an empty axis
    assert "  smallest  n=3, m=1; vjp raises RuntimeError: no room for 3 numbers (at " in str(report)


@pytest.mark.usefixtures("shrinking")
def test_what_is_right_is_not_shrunk():
    report = crosscheck(RIGHT, MATRIX, checks=["vjp"])
    assert report.passed
    assert all(row.failure is None for row in rows(report))


@pytest.mark.usefixtures("shrinking")
def test_a_failure_that_does_not_happen_again():
    calls = []

    def backward(x, g):
        calls.append(x)
        return (1 if len(calls) == 1 else 2) * x * g

    found = failure(backward, dtypes=["float64"])
    assert found.smallest is None
    assert found.evidence is None


# The point that fails.


@pytest.mark.usefixtures("shrinking")
@pytest.mark.slow
def test_the_special_point_is_shown_and_not_the_sample():
    """|x|' at 0 is anything from -1 to 1; this is 3 there."""
    spec = OpSpec("abs", primal=jnp.abs, signature="(n)->(n)", input_names=["x"])
    wrong = unary_function(torch.abs, lambda x, g: torch.where(x == 0, 3.0, torch.sign(x)) * g)
    (found,) = crosscheck(wrong, spec, checks=["points"], dtypes=["float64"]).failures
    assert found.smallest.wrong.circumstance == "x is 0"
    assert found.smallest.entries == {"x": "[0]", "output_bar": found.smallest.entries["output_bar"]}


@pytest.mark.usefixtures("shrinking")
def test_the_small_integers_of_exact_are_shown():
    wrong = unary_function(lambda x: x * x, lambda x, g: (2 * x + (x == 1)) * g)
    (found,) = crosscheck(wrong, MATRIX, checks=["exact"], dtypes=["float64"]).failures
    entry = found.smallest.entries["x"]
    assert "1" in entry, entry
    assert set(entry) <= set("[]-012, ")


def trial_of(spec: OpSpec, call, **drawn) -> Trial:
    sample = replace(next(iter(samples(spec, 0))), given=drawn)
    return Trial(Candidate(call, "mine").bound({}, {}), Oracle(spec, sample), sample, PRECISIONS["float64"], "cpu")


def test_no_second_call_where_there_is_one():
    with pinned():
        one = trial_of(
            MATRIX, RIGHT, **{"x 0": np.zeros((1, 1)), "x 1": np.ones((1, 1)), "output_bar 1": np.ones((1, 1))}
        )
        both = trial_of(MATRIX, RIGHT, **{"x 0": np.ones((1, 1)), "x 1": np.full((1, 1), 2.0)})
        assert entries(one) == {"x": "[[1]]", "output_bar": "[[1]]"}
        assert entries(both) == {"x": "[[1]]", "x of call 2": "[[2]]"}


@pytest.mark.usefixtures("shrinking")
def test_what_the_smallest_looks_like():
    """One wrong entry among many proves nothing; alone it is seen to be half."""
    spec = OpSpec("abs", primal=lambda x: jnp.exp(x), signature="(n)->(n)", input_names=["x"])

    def backward(x, g):
        x_bar = torch.exp(x) * g
        x_bar[-1] /= 2
        return x_bar

    report = crosscheck(unary_function(torch.exp, backward), spec, checks=["vjp"], dtypes=["float64"])
    (found,) = report.failures
    assert found.wrong[0].looks_like is None
    assert found.smallest.wrong.looks_like == "half of the oracle's"
    assert ", half of the oracle's\n" in str(report)


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        (np.array([1.0, 0.5]), "half of the oracle's"),
        (np.array([1.0, 2.0]), "twice the oracle's"),
        (np.array([1.0, -1.0]), "minus the oracle's"),
        (np.array([1.0, 0.7]), None),
        (np.array([1.0, np.nan]), None),
        (np.array([0.5, 2.0]), None),
    ],
    ids=str,
)
def test_a_plain_factor(candidate, expected):
    wrong = Comparison("x_bar", candidate, np.ones(2), np.full(2, 1e-15))
    assert plain_factor(wrong) == expected


# Inputs that are not differentiated.


class Pick(torch.autograd.Function):
    """table[index], whose backward goes wrong from one row on."""

    @staticmethod
    def forward(ctx, table, index):
        ctx.save_for_backward(index)
        ctx.rows = len(table)
        return table[index]

    @staticmethod
    def backward(ctx, *cotangents):
        (index,) = ctx.saved_tensors
        table_bar = cotangents[0].new_zeros(ctx.rows, *cotangents[0].shape[1:])
        table_bar.index_add_(0, index, torch.where(index >= 2, 2.0, 1.0)[:, None] * cotangents[0])
        return table_bar, None


def picking(domain) -> OpSpec:
    return OpSpec(
        "pick", primal=lambda table, index: table[index], signature="(n,d),(k)->(k,d)", domains={"index": domain}
    )


@pytest.mark.slow
@pytest.mark.usefixtures("shrinking")
def test_the_index_at_which_it_fails_is_shown_and_shrunk():
    (found,) = crosscheck(Pick.apply, picking(integer(0, "n")), checks=["vjp"], dtypes=["float64"]).failures
    assert found.smallest.sizes == {"n": 3, "d": 1, "k": 1}
    assert found.smallest.entries["index"] == "[2]"
    assert found.smallest.wrong.index == (2, 0)


@pytest.mark.parametrize(("low", "high", "expected"), [(0, "n", 0), (-2, 0, -1), (1, 9, 1)], ids=str)
def test_the_integer_nearest_to_zero_of_a_domain(low, high, expected):
    nearest_to_zero = integer(low, high).nearest_to_zero
    assert nearest_to_zero is not None
    assert nearest_to_zero({"n": 4}) == expected


@pytest.mark.usefixtures("shrinking")
@pytest.mark.parametrize(
    ("domain", "smallest"),
    [
        pytest.param(integer(0, 9), "[0, 0, 0, 6]", id="integer"),
        pytest.param(lambda rng, shape: rng.integers(5, 9, shape), None, id="sampler"),
    ],
)
def test_integers_are_shrunk_within_their_domain(domain, smallest):
    """Of what else a sampler may draw nothing is known: those that it drew are kept."""
    spec = OpSpec("op", lambda x, k: k * x, "(n),(n)->(n)", domains={"k": domain})
    sample = next(iter(samples(spec, 0)))
    drawn = sample.constants[1]
    assert drawn is not None
    given = np.append(drawn[:-1], 8)

    def fails(sample):
        return sample.constants[1].shape == (4,) and sample.constants[1][-1] > 5

    found = shrink.shrunk(spec, replace(sample, constants={1: given}), ("x",), fails)
    assert found is not None
    kept = found.constants[1]
    assert kept is not None
    assert str(kept.tolist()) == (smallest or str(given.tolist()))


@pytest.mark.usefixtures("shrinking")
def test_a_mask_is_shown():
    """Wrong where the mask is false, of which one entry is enough."""

    class Masked(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, mask):
            ctx.save_for_backward(mask)
            return torch.where(mask, x, 2 * x)

        @staticmethod
        def backward(ctx, *cotangents):
            (mask,) = ctx.saved_tensors
            return torch.where(mask, 1.0, 3.0) * cotangents[0], None

    spec = OpSpec(
        "masked",
        primal=lambda x, mask: jnp.where(mask, x, 2 * x),
        signature="(n),(n)->(n)",
        domains={"mask": lambda rng, shape: rng.random(shape) < 0.5},
    )
    (found,) = crosscheck(Masked.apply, spec, checks=["vjp"], dtypes=["float64"]).failures
    assert found.smallest.entries["mask"] in ("[False]", "[True, False]", "[False, True]", "[False, False]")


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.array(3), "3"),
        (np.array([0, 0]), "[0, 0]"),
        (np.array([[True, False]]), "[[True, False]]"),
        (np.arange(12).reshape(3, 4), "3 x 4 integers from 0 to 11"),
        (np.arange(9) > 6, "9 booleans, 2 of them True"),
        (np.linspace(-1, 1.5, 10).reshape(2, 5), "2 x 5 numbers from -1 to 1.5"),
        (np.array([np.nan, -np.inf, *range(8)]), "10 numbers from -inf to 7"),
        (np.full(9, np.nan), "9 numbers"),
        (np.full(9, 1j), "9 complex numbers"),
    ],
    ids=str,
)
def test_constants_in_words(array, words):
    assert _words(array) == words


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.linspace(-1, 1, 10).reshape(2, 5), "2 x 5 numbers from -1 to 1, 0.777778 at (1, 3)"),
        (np.arange(10).reshape(2, 5), "2 x 5 integers from 0 to 9, 8 at (1, 3)"),
        (np.arange(10).reshape(5, 2), "5 x 2 integers from 0 to 9"),
    ],
    ids=str,
)
def test_the_entry_where_the_result_is_wrong_is_told(array, words):
    assert _words(array, ((2, 5), (1, 3))) == words


@pytest.mark.usefixtures("shrinking")
def test_an_input_too_large_to_print_says_which_number_fails():
    def backward(x, cotangent):
        return torch.where(x > 0, 3 * cotangent, 2 * x * cotangent)

    square = unary_function(lambda x: x * x, backward)
    spec = OpSpec("square", primal=lambda x: x * x, signature="(n)->(n)", sizes="n >= 12")
    (found,) = crosscheck(square, spec, checks=["vjp"], dtypes=["float64"]).failures
    told = re.fullmatch(r"12 numbers from \S+ to \S+, (\S+) at \((\d+)\)", found.smallest.entries["x"])
    assert told is not None, found.smallest.entries
    assert float(told[1]) > 0
    assert (int(told[2]),) == found.smallest.wrong.index


def test_a_changed_constant_is_another_oracle():
    """Constants are part of what is traced."""
    spec = picking(integer(0, "n"))
    sample = next(iter(samples(spec, 0)))
    other = replace(sample, constants={1: (sample.constants[1] + 1) % 4})
    with pinned():
        oracle = Oracle(spec, sample)
        table = sample.primals(("table",))
        for s in (sample, other):
            (value,) = oracle.at(s).values("forward", table)
            np.testing.assert_array_equal(value, table[0][s.constants[1]])


@pytest.mark.usefixtures("shrinking")
def test_told_and_written():
    report = crosscheck(unary_function(lambda x: x * x, lambda x, g: x * g), MATRIX, checks=["vjp"])
    (line,) = [line for line in str(report).splitlines() if line.startswith("  smallest")]
    assert line.startswith("  smallest  n=1, m=1; x = [[")
    assert "x_bar (0, 0): candidate " in line
    data = json.loads(json.dumps(report.as_dict()))
    assert data["failures"][0]["smallest"]["sizes"] == {"n": 1, "m": 1}
    assert "evidence" not in data["failures"][0]
    assert Report.from_dict(data).failures == report.failures
