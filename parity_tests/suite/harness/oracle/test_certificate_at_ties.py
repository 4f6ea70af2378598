"""A wrong oracle is found out at special points: where its derivative contradicts the slopes of its own values."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import OpSpec, Verdict, crosscheck
from parity_tests.harness.judging.certified import Oracles
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.oracle import certificate_at_ties
from parity_tests.harness.report.results import ORACLE, Row
from parity_tests.harness.specs.samples import samples
from parity_tests.operators.operator import function
from parity_tests.suite.harness._ops import hypot_by_a_ratio, judged
from parity_tests.suite.marks import fast

FIRST, SECOND = ("vjp", "jvp"), ("vjp_of_vjp", "jvp_of_vjp", "vjp_of_jvp", "jvp_of_jvp")
HYPOT = OpSpec("hypot", hypot_by_a_ratio, "(n),(n)->(n)", input_names=("x", "y"))


def certificates(spec: OpSpec, *names: str, seed: int = 0) -> dict[str, Row]:
    """The oracle's certificates at the first sample, from which special points are made."""
    certified_oracle = Oracles(
        spec, "cpu", seed, lambda spec, seed: itertools.islice(samples(spec, seed), 1)
    ).certified_oracle(FLOAT64)
    return {name: certified_oracle.certificate(name).row for name in names}


def spec_of(primal: Callable, signature: str = "(n)->(n)", **more) -> OpSpec:
    return OpSpec("op", primal, signature, **more)


def with_rule(f: Callable, derivative: Callable) -> Callable:
    """A function of one number with a derivative of its own."""

    @jax.custom_jvp
    def ruled(x):
        return f(x)

    ruled.defjvp(lambda x, x_dot: (ruled(*x), derivative(*x) * x_dot[0]))
    return ruled


sinh_flat_at_0 = with_rule(jnp.sinh, lambda x: jnp.where(x == 0, 0.0, jnp.cosh(x)))


def wrong(row: Row) -> bool:
    """Whether the certificate says that the oracle is wrong at a special point; the map has one all the same."""
    assert row.verdict is Verdict.PASS
    assert not row.reason or row.reason.startswith("the oracle is wrong where ")
    return bool(row.reason)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_second_derivative_of_hypot(seed):
    rows = certificates(HYPOT, *FIRST, *SECOND, seed=seed)
    assert {name for name, row in rows.items() if wrong(row)} == {*SECOND}
    for name in SECOND:
        reason, base = rows[name].reason, name.split("_of_")[1]
        assert reason.startswith("the oracle is wrong where each of x, y is 1 (sample all_axes_differ): "), reason
        assert f"the derivative of its {base} along one direction is " in reason
        assert reason.endswith(" (JAX's rule of max or min or abs); there it judges by the limits of its derivative")


@pytest.mark.slow
def test_the_second_derivative_of_hypot_by_jax():
    """`jax.hessian(jnp.hypot)(1.0, 1.0)` is 0 before JAX 0.12; it should be 0.35."""
    rows = certificates(spec_of(jnp.hypot, "(n),(n)->(n)"), *FIRST, *SECOND)
    mended = abs(jax.hessian(jnp.hypot)(1.0, 1.0) - 8**-0.5) < 1e-3
    assert {name for name, row in rows.items() if wrong(row)} == (set() if mended else {*SECOND})
    assert mended or all("(JAX's rule of hypot); " in rows[name].reason for name in SECOND)


@pytest.mark.slow
def test_a_function_of_jax_that_chooses_is_named():
    """This is x², and its second derivative at 0 is 1 by JAX: the half of each slope of clip, twice."""
    spec = spec_of(lambda x: jnp.clip(x, min=0) ** 2 + jnp.clip(x, max=0) ** 2)
    rows = certificates(spec, "vjp", "vjp_of_vjp")
    assert [*map(wrong, rows.values())] == [False, True]
    assert " (JAX's rule of clip); " in rows["vjp_of_vjp"].reason


@pytest.mark.slow
def test_it_judges_by_its_limits_there():
    def candidate(x, y):
        return torch.sqrt(x * x + y * y)

    checks = ["vjp", "points_second_order"]
    report = crosscheck(candidate, HYPOT, checks=checks, dtypes=["float64"], quick=True)
    rows = {row.check: row for row in report.rows if row.candidate != ORACLE}
    assert {row.verdict for row in rows.values()} == {Verdict.PASS}


def test_what_is_derived_from_a_wrong_derivative_is_not_told_again():
    rows = certificates(spec_of(sinh_flat_at_0), "vjp", "vjp_of_vjp", "vjp_of_vjp_of_vjp")
    assert {name for name, row in rows.items() if wrong(row)} == {"vjp"}
    assert (
        "where x is 0 (sample all_axes_differ): the derivative of its forward along one direction is 0, the slope of "
        "its values " in rows["vjp"].reason
    )


def test_a_wrong_rule_of_the_users():
    row = certificates(spec_of(sinh_flat_at_0), "jvp")["jvp"]
    assert wrong(row)
    assert "(the primal's own jax.custom_jvp ruled); " in row.reason


def test_a_kink_hides_no_wrong_rule_of_another_input():
    spec = spec_of(lambda x, y: jax.nn.relu(x) + sinh_flat_at_0(y), "(n),(n)->(n)")
    assert all(map(wrong, certificates(spec, *FIRST).values()))


@pytest.mark.slow
def test_the_squared_absolute_value_of_complex_numbers():
    spec = spec_of(lambda x: jnp.abs(jnp.fft.rfft(x)) ** 2, "(8)->(5)")
    rows = certificates(spec, "vjp", "vjp_of_vjp")
    assert not wrong(rows["vjp"])
    assert wrong(rows["vjp_of_vjp"])
    assert " (JAX's rule of abs); " in rows["vjp_of_vjp"].reason


def test_a_branch_at_zero_that_forgets_the_second_derivative():
    """It is the primal's own, and no rule of JAX is blamed."""

    def sinc(x):
        return jnp.where(x == 0, 1.0, jnp.sin(x) / jnp.where(x == 0, 1.0, x))

    rows = certificates(spec_of(sinc), *FIRST, "vjp_of_vjp")
    assert [*map(wrong, rows.values())] == [False, False, True]
    assert "JAX's rule" not in rows["vjp_of_vjp"].reason


def test_a_branch_at_zero_that_forgets_the_first_derivative():
    def relative_exponential(x):
        return jnp.where(x == 0, 1.0, jnp.expm1(x) / jnp.where(x == 0, 1.0, x))

    reasons = {row.reason for row in certificates(spec_of(relative_exponential), *FIRST).values()}
    assert all("where x is 0 (sample" in reason for reason in reasons), reasons
    assert "JAX's rule" not in "".join(reasons)


def test_a_formula_that_is_wrong_at_ties_is_found_out():
    def vjp(x, y, g):
        r = jnp.sqrt(x * x + y * y)
        return g * jnp.where(x == y, 0.0, x / r), g * y / r

    spec = spec_of(lambda x, y: jnp.sqrt(x * x + y * y), "(n),(n)->(n)", vjp=vjp)
    row = certificates(spec, "vjp")["vjp"]
    assert wrong(row)
    assert "(JAX's rule" not in row.reason


@fast("abs", "odd power", "relu", "jump", "narrow bump", "smoothed abs")
@pytest.mark.parametrize(
    ("primal", "signature"),
    [
        pytest.param(lambda x, y: jnp.sqrt(x * x + y * y), "(n),(n)->(n)", id="square root"),
        pytest.param(jnp.linalg.norm, "(n)->()", id="norm"),
        pytest.param(jnp.abs, "(n)->(n)", id="abs"),
        pytest.param(lambda x: jnp.abs(x) ** 1.5, "(n)->(n)", id="power of abs"),
        pytest.param(lambda x: x * jnp.sqrt(jnp.abs(x)), "(n)->(n)", id="odd power"),
        pytest.param(jax.nn.relu, "(n)->(n)", id="relu"),
        pytest.param(lambda x: jax.nn.relu(x) ** 2, "(n)->(n)", id="relu squared"),
        pytest.param(jnp.sign, "(n)->(n)", id="sign"),
        pytest.param(jnp.maximum, "(n),(n)->(n)", id="maximum"),
        pytest.param(lambda x, y: jnp.where(x > y, x, 2 * y), "(n),(n)->(n)", id="jump"),
        pytest.param(lambda x: jnp.max(x, -1), "(n,m)->(n)", id="max"),
        pytest.param(lambda x: jnp.cumsum(jnp.sort(x)), "(n)->(n)", id="sort"),
        pytest.param(lambda x: jnp.median(x, -1), "(n,3)->(n)", id="median of three"),
        pytest.param(lambda x: jnp.median(x), "(3)->()", id="one median of three"),
        pytest.param(jnp.prod, "(n)->()", id="prod"),
        pytest.param(lambda x: jnp.exp(-((1e7 * x) ** 2)), "(n)->(n)", id="narrow bump"),
        pytest.param(lambda x: jnp.exp(-((1e15 * x) ** 2)), "(n)->(n)", id="narrower bump"),
        pytest.param(lambda x, y: jnp.exp(-((1e10 * (x - y)) ** 2)), "(n),(n)->(n)", id="narrow bump at a tie"),
        pytest.param(lambda x: jnp.sqrt(x * x + 1e-12), "(n)->(n)", id="smoothed abs"),
        pytest.param(lambda x, y: jnp.sqrt((x - y) ** 2 + 1e-30), "(n),(n)->(n)", id="smoothed distance"),
        pytest.param(
            lambda x, y: jnp.sum(x * y) / jnp.sqrt((jnp.sum(x * x) + 1e-12) * (jnp.sum(y * y) + 1e-12)),
            "(n),(n)->()",
            id="cosine",
        ),
        pytest.param(jax.nn.logsumexp, "(n)->()", id="logsumexp"),
        pytest.param(jnp.logaddexp, "(n),(n)->(n)", id="logaddexp"),
    ],
)
def test_neither_a_kink_nor_a_change_within_a_small_distance_is_a_contradiction(primal, signature):
    spec = spec_of(primal, signature)
    certified_oracle = Oracles(
        spec, "cpu", 0, lambda spec, seed: itertools.islice(samples(spec, seed), 1)
    ).certified_oracle(FLOAT64)
    special = certificate_at_ties.SpecialPoints(certified_oracle.oracle, certified_oracle.cases)
    assert {name: special.contradiction(name) for name in (*FIRST, *SECOND)} == dict.fromkeys((*FIRST, *SECOND))


def test_where_a_solver_gives_up_nothing_is_said(monkeypatch):
    def gives_up(*_):
        raise np.linalg.LinAlgError("singular matrix")

    assert wrong(certificates(spec_of(sinh_flat_at_0), "vjp")["vjp"])
    monkeypatch.setattr(certificate_at_ties, "_contradiction_at", gives_up)
    assert not wrong(certificates(spec_of(sinh_flat_at_0), "vjp")["vjp"])


@fast("i1")
@pytest.mark.parametrize(
    ("primal", "signature", "domains", "point", "second"),
    [
        pytest.param(jnp.i0, "(n)->(n)", {}, (0.0,), 0.5, id="i0"),
        pytest.param(jax.scipy.special.i1, "(n)->(n)", {}, (0.0,), 0.0, id="i1", marks=pytest.mark.slow),
        pytest.param(
            jax.scipy.special.betaln, "(n),(n)->(n)", {"a": "positive", "b": "positive"}, (1.0, 1.0), 1.0, id="betaln"
        ),
    ],
)
def test_second_derivatives_of_jax_that_are_wrong(primal, signature, domains, point, second):
    """See docs/found.md, and 0.11 and 0.12 have mended some of them. The first derivatives are right."""
    rows = certificates(spec_of(primal, signature, domains=domains), "vjp", "vjp_of_vjp")
    mended = abs(jax.grad(jax.grad(primal))(*point) - second) < 1e-3
    assert [*map(wrong, rows.values())] == [False, not mended]


# ELU as a double `where`, which is smooth at 0: JAX's rule of `minimum` makes one half of its slope there.


ELU = spec_of(lambda x: jnp.where(x > 0, x, jnp.exp(jnp.minimum(x, 0)) - 1), input_names=("x",))
ELU_1 = spec_of(lambda x: jnp.where(x > 0, x, jnp.exp(jnp.minimum(x, 0)) - 1), "(1)->(1)", input_names=("x",))


def _slope(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x > 0, torch.ones_like(x), torch.exp(torch.clamp(x, max=0)))


def elu(slope: Callable = _slope, twice: Callable = lambda x: x) -> Callable:
    """With a backward of its own; `twice` changes what a double backward sees."""
    return function(
        lambda x: torch.where(x > 0, x, torch.expm1(torch.clamp(x, max=0))), lambda x, g: g * twice(slope(x))
    )


@fast("n-vjp_of_vjp-float32")
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("check", ["vjp", "jvp", "vjp_of_vjp", "points", "points_second_order"])
@pytest.mark.parametrize("spec", [ELU, ELU_1], ids=["n", "1"])
def test_right_code_passes_an_oracle_that_is_wrong_at_one_point(spec, check, dtype):
    row = judged(torch.nn.functional.elu, spec, check, dtype)
    assert row.verdict in (Verdict.PASS, Verdict.SKIPPED), row.failure


MISTAKES = {
    "the double backward": ("vjp_of_vjp", elu(twice=lambda x: x.detach())),
    "the slope at 0": ("points", elu(lambda x: torch.where(x == 0, 3 * torch.ones_like(x), _slope(x)))),
    "minus the slope at 0": ("points", elu(lambda x: torch.where(x == 0, -torch.ones_like(x), _slope(x)))),
    "the slope at -1": ("points", elu(lambda x: torch.where(x == -1, torch.ones_like(x), _slope(x)))),
    "not a number at 0": ("points", elu(lambda x: _slope(x) + 0 * (1 / x))),
    "the slope below 0": ("vjp", elu(lambda x: torch.where(x < 0, 1 - _slope(x), _slope(x)))),
}


@fast("the double backward", "the slope at 0")
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_seen_by_an_oracle_that_is_wrong_at_one_point(name):
    check, candidate = MISTAKES[name]
    assert judged(elu(), ELU, check).verdict is Verdict.PASS
    assert judged(candidate, ELU, check).verdict is Verdict.MISMATCH


def test_at_one_point_it_is_said_once():
    report = crosscheck(elu(), ELU, checks=["vjp", "jvp", "vjp_of_vjp"], dtypes=["float64", "float32"])
    assert report.passed
    assert str(report).count("the oracle is wrong where x is 0") == 1
