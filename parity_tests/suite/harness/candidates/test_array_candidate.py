"""Candidates that are formulas on NumPy arrays, through the public door; each mistake is caught by its check."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from gradparity import ArrayCandidate, OpSpec, Report, Verdict, crosscheck, integer

SPEC = OpSpec("scaled_tanh", primal=lambda x, w: (jnp.tanh(x * w), jnp.sum(x)), signature="(n),(n)->(n),()")


def forward(x, w):
    return np.tanh(x * w), np.sum(x)


def vjp(x, w, y_bar, s_bar):
    slope = y_bar * (1 - np.tanh(x * w) ** 2)
    return slope * w + s_bar, slope * x


def jvp(x, w, x_dot, w_dot):
    return (1 - np.tanh(x * w) ** 2) * (x_dot * w + x * w_dot), np.sum(x_dot)


def _verdicts(report: Report) -> dict[str, set[Verdict]]:
    verdicts: dict[str, set[Verdict]] = {}
    for row in report.rows:
        if row.candidate != "oracle":
            verdicts.setdefault(row.check, set()).add(row.verdict)
    return verdicts


@pytest.mark.slow
def test_right_formulas_pass_in_every_format() -> None:
    report = crosscheck(ArrayCandidate(forward=forward, vjp=vjp, jvp=jvp), SPEC, seed=1)
    assert report.passed, str(report)
    assert report.exit_code == 0
    verdicts = _verdicts(report)
    for check in ("forward", "vjp", "jvp", "adjoint", "vjp_partial", "linearity", "points", "retain_graph"):
        assert verdicts[check] == {Verdict.PASS}, check
    for check in ("vjp_of_vjp", "jvp_of_vjp", "vjp_of_jvp", "jvp_of_jvp", "vmap"):
        assert verdicts[check] == {Verdict.UNSUPPORTED}, check
    assert verdicts["compile"] == {Verdict.SKIPPED}
    assert {row.candidate for row in report.rows} == {"oracle", "forward"}


def _without_the_sum(x, w, y_bar, s_bar):
    return vjp(x, w, y_bar, 0 * s_bar)


def _of_one_input(x, w, y_bar, s_bar):
    return (vjp(x, w, y_bar, s_bar)[0],)


def _wide(x, w, y_bar, s_bar):
    return [g.astype(np.float64) for g in vjp(x, w, y_bar, s_bar)]


def _lists(x, w, y_bar, s_bar):
    return [g.tolist() for g in vjp(x, w, y_bar, s_bar)]


def _masked(x, w):
    """Nothing at all: a comparison with a masked entry is masked, too, and is true of no entry."""
    return np.ma.masked_all_like(x), np.sum(x)


def _partly_masked(x, w, y_bar, s_bar):
    x_bar, w_bar = vjp(x, w, y_bar, s_bar)
    return np.ma.array(x_bar, mask=np.arange(x.size) == 0), w_bar


def _jvp_of_x_only(x, w, x_dot, w_dot):
    return jvp(x, w, x_dot, 0 * w_dot)


@pytest.mark.parametrize(
    ("mistake", "check", "dtype", "said"),
    [
        (ArrayCandidate(forward, _without_the_sum), "vjp", "float64", "x_bar"),
        (ArrayCandidate(forward, _of_one_input), "vjp", "float64", "its vjp returned 1 gradients, expected 2"),
        (ArrayCandidate(forward, _wide), "vjp", "float32", "is torch.float64"),
        (ArrayCandidate(forward, _lists), "vjp", "float64", "returned list where an array"),
        (ArrayCandidate(forward, vjp, _jvp_of_x_only), "jvp", "float64", "output0_dot"),
        (ArrayCandidate(forward, vjp, _jvp_of_x_only), "adjoint", "float64", "adjoint"),
        (ArrayCandidate(lambda x, w: np.tanh(x * w), vjp), "forward", "float64", "returned 1 outputs, expected 2"),
        (ArrayCandidate(_masked), "forward", "float64", "returned a masked array, 4 of 4 entries masked"),
        (ArrayCandidate(forward, _partly_masked), "vjp", "float64", "returned a masked array, 1 of 4 entries masked"),
    ],
)
def test_a_wrong_formula_is_caught(mistake: ArrayCandidate, check: str, dtype: str, said: str) -> None:
    report = crosscheck(mistake, SPEC, checks=[check], dtypes=[dtype], name="mine")
    (row,) = [row for row in report.rows if row.candidate == "mine"]
    assert row.verdict is Verdict.MISMATCH, str(report)
    assert said in str(report)


def _forward_that_clears(x, w):
    results = forward(x, w)
    x[...] = 0
    return results


def _vjp_that_scales(x, w, y_bar, s_bar):
    y_bar *= 1 - np.tanh(x * w) ** 2
    return y_bar * w + s_bar, y_bar * x


def _jvp_that_scales(x, w, x_dot, w_dot):
    x_dot *= w
    return (1 - np.tanh(x * w) ** 2) * (x_dot + x * w_dot), np.sum(x_dot / w)


class _VjpWithState:
    """A VJP that adds up what it returns, in an array of its own."""

    def __init__(self) -> None:
        self.sums: dict[tuple, np.ndarray] = {}

    def __call__(self, x, w, y_bar, s_bar):
        x_bar, w_bar = vjp(x, w, y_bar, s_bar)
        self.sums[x.shape] = self.sums.get(x.shape, 0) + x_bar
        return self.sums[x.shape], w_bar


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (ArrayCandidate(_forward_that_clears, vjp, jvp), "x was written to, after the forward"),
        (ArrayCandidate(forward, _vjp_that_scales, jvp), "y_bar was written to, after the vjp"),
        (ArrayCandidate(forward, vjp, _jvp_that_scales), "x_dot was written to, after the jvp"),
        (ArrayCandidate(forward, _VjpWithState(), jvp), "x_bar differs between two calls"),
    ],
    ids=["forward", "vjp", "jvp", "state"],
)
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_what_is_written_to_is_named(mistake: ArrayCandidate, said: str, dtype: str) -> None:
    spec = replace(SPEC, output_names=("y", "s"))
    report = crosscheck(mistake, spec, checks=["purity"], dtypes=[dtype], name="mine")
    (row,) = [row for row in report.rows if row.candidate == "mine"]
    assert row.verdict is Verdict.MISMATCH, str(report)
    assert row.failure is not None
    said_of = [f"{wrong.label} {wrong.pattern}, {wrong.circumstance}" for wrong in row.failure.wrong]
    assert any(text.startswith(said) for text in said_of), said_of


def test_a_constant_that_is_written_to_is_named() -> None:
    def sorts_the_index(x, index):
        index.sort()
        return x[index]

    spec = OpSpec("pick", lambda x, i: x[jnp.sort(i)], "(n),(m)->(m)", sizes="n >= 1", domains={"i": integer(0, "n")})
    report = crosscheck(ArrayCandidate(sorts_the_index), spec, checks=["purity"], dtypes=["float64"])
    assert report.rows[-1].failure is not None, str(report)
    assert [(w.label, w.pattern) for w in report.rows[-1].failure.wrong] == [("i", "was written to")]


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_formulas_that_write_to_arrays_of_their_own_are_pure(dtype: str) -> None:
    def in_copies(x, w):
        y = x * w
        np.tanh(y, out=y)
        return y, np.sum(x)

    report = crosscheck(ArrayCandidate(in_copies, vjp, jvp), SPEC, checks=["purity"], dtypes=[dtype], name="mine")
    assert [row.verdict for row in report.rows if row.candidate == "mine"] == [Verdict.PASS], str(report)


def test_what_has_no_formula_is_refused_by_name() -> None:
    report = crosscheck(ArrayCandidate(forward), SPEC, checks=["forward", "vjp", "jvp"], dtypes=["float64"])
    reasons = {row.check: row.reason for row in report.rows if row.verdict is Verdict.UNSUPPORTED}
    assert reasons["vjp"].startswith("forward, a candidate in NumPy, has no reverse mode; no refusal excuses")
    assert reasons["jvp"] == "forward, a candidate in NumPy, has no forward mode"


@pytest.mark.slow
def test_constants_and_parameters_reach_every_formula() -> None:
    def pick(x, index, *, power):
        return x[index] ** power

    def pick_vjp(x, index, y_bar, *, power):
        x_bar = np.zeros_like(x)
        np.add.at(x_bar, index, y_bar * power * x[index] ** (power - 1))
        return x_bar

    def pick_jvp(x, index, x_dot, *, power):
        return power * x[index] ** (power - 1) * x_dot[index]

    spec = OpSpec(
        "pick",
        primal=lambda x, index, power: x[index] ** power,
        signature="(n),(m)->(m)",
        sizes="n >= 1",
        domains={"index": integer(0, "n")},
        params={"power": 3},
    )
    checks = ["forward", "vjp", "jvp", "linearity"]
    report = crosscheck(ArrayCandidate(pick, pick_vjp, pick_jvp), spec, checks=checks)
    assert report.passed, str(report)

    def swapped_vjp(x, index, y_bar, *, power):
        return pick_vjp(x, index[::-1], y_bar, power=power)

    swapped = ArrayCandidate(pick, swapped_vjp, pick_jvp)
    assert not crosscheck(swapped, spec, checks=["vjp"], dtypes=["float64"]).passed


def test_an_operator_with_one_output() -> None:
    spec = OpSpec("tanh", primal=jnp.tanh, signature="(n)->(n)")
    right = ArrayCandidate(np.tanh, lambda x, y_bar: y_bar * (1 - np.tanh(x) ** 2))
    report = crosscheck(right, spec, checks=["vjp", "vjp_partial"])
    assert report.passed, str(report)
    careless = ArrayCandidate(np.tanh, lambda x, y_bar: y_bar * (1 - np.tanh(x) ** 2) + 1e-3)
    assert {row.verdict for row in crosscheck(careless, spec, checks=["vjp_partial"]).rows[-4:]} == {Verdict.MISMATCH}


@pytest.mark.slow
def test_another_process_judges_it_too() -> None:
    report = crosscheck(ArrayCandidate(forward, vjp, jvp), SPEC_HERE, checks=["vjp"], dtypes=["float64"], isolate=True)
    assert report.passed, str(report)


def _primal(x, w):
    return jnp.tanh(x * w), jnp.sum(x)


SPEC_HERE = OpSpec("scaled_tanh", primal=_primal, signature="(n),(n)->(n),()")


def test_a_formula_that_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match="ArrayCandidate: vjp must be a function of arrays, got float"):
        ArrayCandidate(forward, 3.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="forward must be a function of arrays, got NoneType"):
        ArrayCandidate(None)  # type: ignore[arg-type]
