"""Rules for the sizes of axes: how they are read, which samples keep to them, and what is judged by them."""

from __future__ import annotations

import jax.numpy as jnp
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from parity_tests import AxisSize, OpSpec, Verdict, crosscheck
from parity_tests.harness.specs.domains import EmptyDomain
from parity_tests.harness.specs.samples import Sample, at_sizes, samples
from parity_tests.harness.specs.size_rules import SizeRules, resolved
from parity_tests.suite.harness._ops import judged

AXES = ("n", "d", "m")


def by_name(signature: str, sizes: str | None) -> dict[str, Sample]:
    spec = OpSpec("op", primal=lambda *inputs: inputs[0], signature=signature, sizes=sizes)
    return {sample.name: sample for sample in samples(spec, 0)}


@pytest.mark.parametrize(
    ("rules", "sizes", "keep"),
    [
        ("n <= m", {"n": 3, "d": 1, "m": 3}, True),
        ("n <= m", {"n": 4, "d": 1, "m": 3}, False),
        ("1 <= n < m", {"n": 0, "d": 1, "m": 3}, False),
        ("1 <= n < m", {"n": 2, "d": 1, "m": 3}, True),
        ("d in (16, 64), n != m", {"n": 2, "d": 64, "m": 3}, True),
        ("d in (16, 64), n != m", {"n": 3, "d": 64, "m": 3}, False),
        ("d in (16, 64), n != m", {"n": 2, "d": 32, "m": 3}, False),
        ("d not in [3]", {"n": 2, "d": 3, "m": 3}, False),
        ("d % 4 == 0", {"n": 2, "d": 8, "m": 3}, True),
        ("d % 4 == 0", {"n": 2, "d": 6, "m": 3}, False),
        ("n + m - 1 == 2 * d", {"n": 2, "d": 2, "m": 3}, True),
    ],
)
def test_a_rule_holds_or_not(rules, sizes, keep):
    read = SizeRules.parse(rules, AXES)
    if keep:
        assert read.completed(sizes) == sizes
    else:
        with pytest.raises(EmptyDomain, match="does not hold at n = "):
            read.completed(sizes)


def test_an_axis_is_defined_by_others():
    read = SizeRules.parse("m = 2*n, d = m // 3", AXES)
    assert read.defined == {"m", "d"}
    assert read.completed({"n": 6, "d": 0, "m": 0}) == {"n": 6, "m": 12, "d": 4}


@pytest.mark.parametrize(("n", "m", "k", "d"), [(3, 5, 3, 4), (5, 2, 2, 1), (0, 4, 0, 3), (4, 0, 0, 0)])
def test_the_smaller_or_the_larger_of_sizes(n, m, k, d):
    read = SizeRules.parse("k = min(n, m), d = max(m, 1) - 1", ("n", "m"), ("k", "d"))
    assert read.completed({"n": n, "m": m}) == {"n": n, "m": m, "k": k, "d": d}


def test_a_function_that_is_not_called_is_an_axis():
    with pytest.raises(ValueError, match="names the axis 'max'"):
        SizeRules.parse("n <= max", AXES)


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ("n <=", "OpSpec op: sizes 'n <=': 'n <=' is no rule; write comparisons of axes and integers"),
        ("n", "'n' is no rule"),
        ("n is 3", "'n is 3' is no rule"),
        ("n in 3", "'n in 3' is no rule"),
        ("n // 0 == 1", "'n // 0 == 1' is no rule"),
        ("n == 1.5", "'n == 1.5' is no rule"),
        ("len(n) == 3", r"'len\(n\) == 3' is no rule"),
        ("n == min(d)", r"'n == min\(d\)' is no rule"),
        ("n == min(d, 1.5)", r"'n == min\(d, 1.5\)' is no rule"),
        ("z < 3", "sizes 'z < 3' names the axis 'z'; the axes are n, d, m"),
        ("z = 3", "sizes 'z = 3' names the axis 'z'"),
        ("n = n + 1", "sizes 'n = n \\+ 1' defines the axis 'n' by itself"),
        ("m = 3, m = 4", "sizes 'm = 4' defines the axis 'm' by itself, or a second time"),
        ("n < 0", "sizes 'n < 0': no sizes near n = 4, d = 4, m = 4 keep to the rules"),
    ],
)
def test_what_cannot_be_read_or_held_is_refused_when_the_spec_is_made(sizes, text):
    with pytest.raises(ValueError, match=text):
        by_name("(n,d),(m,d)->(n,m)", sizes)


def test_rules_are_about_a_signature():
    with pytest.raises(ValueError, match="sizes are rules for the axes of a signature, and there is none"):
        OpSpec("op", primal=jnp.sin, inputs=(jnp.ones(3),), sizes="n < 3")


def test_without_rules_nothing_changes():
    signature = "(n,d),(m,d)->(n,m)"
    ours, theirs = by_name(signature, "n >= 0"), by_name(signature, None)
    assert {name: sample.sizes for name, sample in ours.items()} == {n: sample.sizes for n, sample in theirs.items()}


def test_every_sample_keeps_to_the_rules_and_to_what_it_is_about():
    rules = "n <= m, d in (16, 64)"
    cases = by_name("(n,d),(m,d)->(n,m)", rules)
    for sample in cases.values():
        assert sample.sizes["n"] <= sample.sizes["m"]
        assert sample.sizes["d"] in (16, 64)
    about = {"one_n": 1, "zero_n": 0, "two_n": 2, "blocks_n": 256, "tail_n": 191, "many_n": 2049}
    assert {name: cases[name].sizes["n"] for name in about} == about
    assert cases["d_64"].sizes["d"] == 64
    assert not {"one_d", "zero_d", "d_16"} & cases.keys()  # the first sample has d = 16 already
    assert cases["all_axes_differ"].generic  # although 16 is longer than a short axis is elsewhere
    assert len(set(cases["all_axes_differ"].sizes.values())) == 3


def test_an_axis_that_others_define_follows_them():
    cases = by_name("(n,k),(h)->(n,h)", "k = 2*h")
    assert all(sample.sizes["k"] == 2 * sample.sizes["h"] for sample in cases.values())
    assert cases["tail_h"].sizes["h"] == 191
    assert cases["blocks_k"].sizes["k"] == 256
    assert "tail_k" not in cases  # 191 is odd


def test_an_axis_of_an_output_may_be_defined():
    spec = OpSpec("repeat", lambda x: jnp.concatenate([x, x]), "(n)->(m)", sizes="m = 2*n")
    assert judged(lambda x: torch.cat([x, x]), spec, "vjp").verdict is Verdict.PASS
    wrong = OpSpec("repeat", lambda x: x, "(n)->(m)", sizes="m = 2*n")
    with pytest.raises(ValueError, match=r"axis m is 8"):
        crosscheck(lambda x: x, wrong)


def test_sizes_from_one_on():
    assert not any(0 in sample.sizes.values() for sample in by_name("(n,d)->(n)", "n >= 1, d >= 1").values())


def test_a_sample_is_not_made_at_other_sizes():
    spec = OpSpec("op", primal=lambda x, y: x, signature="(n),(m)->(n)", sizes="n <= m")
    first = next(iter(samples(spec, 0)))
    assert at_sizes(spec, first, {"n": 2, "m": 2}).shapes == ((2,), (2,))
    with pytest.raises(EmptyDomain, match="'n <= m' does not hold at n = 3, m = 2"):
        at_sizes(spec, first, {"n": 3, "m": 2})


@given(st.lists(st.integers(0, 40), min_size=3, max_size=3), st.sampled_from(["n <= m", "d % 8 == 0", "m = n + d"]))
def test_the_nearest_sizes_keep_to_the_rules(sizes, text):
    rules = SizeRules.parse(text, AXES)
    wanted = dict(zip(AXES, sizes, strict=True))
    found = rules.nearest(wanted)
    assert rules.completed(found) == found
    try:
        assert rules.completed(wanted) != wanted or found == wanted
    except EmptyDomain:
        assert found != wanted


def _halves(x):
    n = x.shape[-1] // 2
    return torch.sigmoid(x[..., :n]) * x[..., n:]


@pytest.mark.usefixtures("shrinking")
@pytest.mark.parametrize(("wrong_at", "verdict"), [(None, Verdict.PASS), (1, Verdict.MISMATCH), (3, Verdict.MISMATCH)])
def test_a_mistake_is_found_at_sizes_that_the_rules_allow_and_shrunk_to_one(wrong_at, verdict):
    def primal(x):
        n = x.shape[-1] // 2
        return x[..., n:] / (1 + jnp.exp(-x[..., :n]))

    def candidate(x):
        return _halves(x) * (1.0 if wrong_at is None or x.shape[-1] < 2 * wrong_at else 2.0)

    spec = OpSpec("glu", primal, "(n,k)->(n,h)", sizes="k % 2 == 0, h = k // 2")
    row = judged(candidate, spec, "forward")
    assert row.verdict is verdict
    if wrong_at:
        assert row.failure is not None
        assert row.failure.smallest is not None
        assert row.failure.smallest.sizes == {"n": 1, "k": 2 * wrong_at, "h": wrong_at}


# Sizes as keyword parameters.


def test_a_size_stands_for_itself_wherever_it_is():
    sizes = {"n": 3, "d": 5}
    nested = {"shape": (AxisSize("d"), 7), "names": [AxisSize("n")], "eps": 1e-5}
    assert resolved(nested, sizes) == {"shape": (5, 7), "names": [3], "eps": 1e-5}
    assert resolved([AxisSize("d // 2"), AxisSize("d - d // 2"), AxisSize("min(n, d)")], sizes) == [2, 3, 3]


@pytest.mark.parametrize("text", ["n +", "n / 2", "n <= 2", "2.5", ""])
def test_an_expression_that_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="is no size; write an axis, or an expression such as"):
        AxisSize(text)


def test_an_unknown_axis_in_a_parameter():
    with pytest.raises(ValueError, match="OpSpec op: params names the axis 'z'; the axes are d, n"):
        OpSpec("op", lambda x: x, "(n,d)->(n,d)", params={"shape": (AxisSize("n + z // 2"),)})


@pytest.mark.parametrize(("eps", "verdict"), [(1e-5, Verdict.PASS), (1e-3, Verdict.MISMATCH)])
def test_both_sides_are_given_the_size(eps, verdict):
    def primal(x, w, normalized_shape):
        assert normalized_shape == (x.shape[-1],)
        centred = x - x.mean(-1, keepdims=True)
        return w * centred / jnp.sqrt(jnp.mean(centred**2, -1, keepdims=True) + 1e-5)

    spec = OpSpec("layer_norm", primal, "(n,d),(d)->(n,d)", params={"normalized_shape": (AxisSize("d"),)})

    def candidate(x, w, normalized_shape):
        return functional.layer_norm(x, normalized_shape, w, eps=eps)

    assert judged(candidate, spec, "forward").verdict is verdict


@pytest.mark.slow
@pytest.mark.parametrize("right", [True, False], ids=["right", "wrong"])
def test_a_list_that_follows_from_the_sizes(right: bool) -> None:
    def halves(x: torch.Tensor, sections: list[int]) -> torch.Tensor:
        first, second = torch.split(x, sections, -1)
        return first.sum(-1) * second.sum(-1)

    def candidate(x: torch.Tensor, sections: list[int]) -> torch.Tensor:
        return halves(x, sections if right else sections[::-1])

    params = {"sections": [AxisSize("d // 3"), AxisSize("d - d // 3")]}
    spec = OpSpec.from_torch(halves, inputs="x: (n,d)", params=params)
    report = crosscheck(candidate, spec, checks=["vjp"], dtypes=["float64"], quick=True)
    assert report.rows[-1].verdict is (Verdict.PASS if right else Verdict.MISMATCH)
