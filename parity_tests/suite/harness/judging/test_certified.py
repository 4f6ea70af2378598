"""The court before anybody stands trial: samples that tell something, and a diagnosis that is not the verdict."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import OpSpec, Verdict, crosscheck
from parity_tests.harness.diagnosis import diagnosis
from parity_tests.harness.judging import certified
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle import certificate
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.specs.samples import samples
from parity_tests.suite.harness._ops import SQUARE, judged, rows
from parity_tests.suite.marks import fast
from parity_tests.suite.rotation import rotating

HINGE = OpSpec("hinge", primal=lambda x: jnp.maximum(0.0, x.sum() - 1.5), signature="(3)->()")


@pytest.mark.slow
@rotating(3)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 2, 3, 4, 5))])
def test_what_is_flat_more_often_than_not_is_judged_where_it_is_not(seed: int):
    report = crosscheck(lambda x: torch.relu(x.sum() - 1.5), HINGE, checks=["vjp", "make_fx", "compile"], seed=seed)
    assert report.passed, str(report)
    assert {row.verdict for row in rows(report)} == {Verdict.PASS}


def test_what_is_flat_everywhere_tells_nothing():
    row = judged(lambda x: 0 * x, OpSpec("zero", primal=lambda x: 0 * x, signature="(n)->(n)"), "vjp")
    assert row.verdict is Verdict.UNRESOLVED


def test_a_verdict_stands_without_a_diagnosis(monkeypatch: pytest.MonkeyPatch):
    def fails(*args):
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(diagnosis, "looks_like", fails)
    row = judged(lambda x: x * x.detach(), SQUARE, "vjp")
    assert row.verdict is Verdict.MISMATCH
    assert row.failure.wrong[0].looks_like is None
    (line,) = row.failure.unexplained
    assert line.startswith("what x_bar looks like failed: ZeroDivisionError: by nothing (at test_certified.py:")


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_a_threshold_rounds(dtype: str):
    """0.3 is 0.30078125 in bfloat16, which u may be: neither side of the threshold is wrong then."""
    spec = OpSpec(
        "dropout",
        primal=lambda x, u: jnp.where(u > 0.3, x, 0.0),
        inputs=(np.array([1.0, 2.0, 3.0]), np.array([0.30078125, 0.5, 0.25])),
        constants=["u"],
    )
    strict, loose = (lambda x, u, t=t: x * (u > t) for t in (0.3007, 0.3008))
    assert judged(strict, spec, "vjp", dtype).verdict is Verdict.PASS
    assert judged(loose, spec, "vjp", dtype).verdict is (Verdict.MISMATCH if dtype == "float64" else Verdict.PASS)
    assert judged(lambda x, u: x * (u > 0.6), spec, "vjp", dtype).verdict is Verdict.MISMATCH


# A sample at which a witness raises says nothing; the others still do.


def _certify_raising(names: tuple[str, ...] | None):
    def certify(oracle, name, sample):
        if names is None or sample.name in names:
            raise FloatingPointError("no witness here")
        return certificate.certify(oracle, name, sample)

    return certify


def test_a_certificate_that_raises_at_one_sample(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(certified, "certify", _certify_raising(("one_n",)))
    report = crosscheck(torch.sin, OpSpec("sin", jnp.sin, "(n)->(n)"), checks=["vjp"], dtypes=["float64"])
    assert report.passed, str(report)
    (line,) = report.skipped
    assert line.startswith("sin, sample one_n: no certificate of vjp there: FloatingPointError: no witness here (at ")


def test_a_certificate_that_raises_at_every_sample(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(certified, "certify", _certify_raising(None))
    report = crosscheck(torch.sin, OpSpec("sin", jnp.sin, "(n)->(n)"), checks=["vjp"], dtypes=["float64"])
    certificate_row, row = report.rows
    assert certificate_row.verdict is Verdict.ERROR
    assert certificate_row.reason.startswith("FloatingPointError: no witness here (at ")
    assert row.verdict is Verdict.UNRESOLVED


@fast("nan")
@pytest.mark.parametrize("value", [-np.inf, np.nan])
def test_values_that_are_not_finite_are_no_obstacle_to_a_certificate(value):
    spec = OpSpec("masked", lambda x: jnp.where(x > 0, x * x, value), "(n)->(n)")
    candidate = lambda x: torch.where(x > 0, x * x, value)  # noqa: E731
    report = crosscheck(candidate, spec, checks=["forward", "vjp", "jvp"], dtypes=["float64"])
    assert report.passed, str(report)


def test_courts_at_other_seeds_share_what_is_traced_and_certified(monkeypatch: pytest.MonkeyPatch):
    """Whichever of them is asked first, and in whatever order."""
    names: list[str] = []

    def certify(oracle, name, sample):
        names.append(name)
        return original(oracle, name, sample)

    original = certified.certify
    monkeypatch.setattr(certified, "certify", certify)
    first = certified.Oracles(SQUARE, "cpu", 0)
    certified_oracles = [first.at_seed(seed).certified_oracle(FLOAT64) for seed in (1, 2)]
    with pinned():
        oracles = [certified_oracle.oracle for certified_oracle in certified_oracles]
        programs = [oracle.traced("vjp", [np.ones((3, 3))] * 2, by_autodiff=False)[0] for oracle in oracles]
    assert programs[0] is programs[1]
    certificates = [
        certified_oracle.certificate("vjp")
        for certified_oracle in (*certified_oracles, first.certified_oracle(FLOAT64))
    ]
    assert certificates[0].row.passed
    assert certificates[0] is certificates[1] is certificates[2]
    assert names == ["vjp"]


def test_notes_are_those_of_each_oracle_and_of_each_certificate(monkeypatch: pytest.MonkeyPatch):
    """Asked for again, or at another seed, a certificate has its notes; those of the samples stay as they are."""
    spec = OpSpec("mean", lambda x: x.mean(), "(n)->()")
    monkeypatch.setattr(certified, "certify", _certify_raising(("one_n",)))
    oracles = certified.Oracles(spec, "cpu", 0)
    before = oracles.certified_oracle(FLOAT64)
    notes = before.notes
    assert [note.text for note in notes] == ["mean, sample zero_n: the oracle's value there is not finite"]
    for certified_oracle in (before, before, oracles.at_seed(1).certified_oracle(FLOAT64)):
        (note,) = certified_oracle.certificate("vjp").notes
        assert note.text.startswith("mean, sample one_n: no certificate of vjp there: FloatingPointError: ")
        assert certified_oracle.notes == notes


@pytest.mark.parametrize(
    ("primal", "name", "reason"),
    [
        pytest.param(lambda x: x.mean(), "zero_n", "the oracle's value there is not finite", id="empty"),
        pytest.param(lambda x: x.std(ddof=1), "one_n", "the oracle's value there is not finite", id="of size 1"),
        pytest.param(lambda x: x * jnp.nan, "all_axes_differ", "the oracle's value there is NaN", id="NaN"),
        pytest.param(
            lambda x: (x[:, None] * x).sum(), "many_n", "an intermediate of the oracle has more than 2^20 entries",
            id="too large",
        ),
        pytest.param(lambda x: x * x, "all_axes_differ", None, id="judged"),
        pytest.param(lambda x: x.sum(), "zero_n", None, id="judged where it is empty"),
    ],
)  # fmt: skip
def test_why_a_sample_is_not_judged(primal, name: str, reason: str | None):
    spec = OpSpec("op", primal, "(n)->()" if primal(jnp.ones(3)).ndim == 0 else "(n)->(n)")
    (sample,) = (sample for sample in samples(spec, 0) if sample.name == name)
    with pinned():
        assert certified.why_not_judged(Oracle(spec, sample), sample) == reason
