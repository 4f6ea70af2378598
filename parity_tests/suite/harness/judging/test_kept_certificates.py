"""Certificates that a run has kept are read by the next one, unless anything that they rest on has changed."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import OpSpec, Report, Verdict, crosscheck
from parity_tests.harness.judging import certified, kept_certificates
from parity_tests.harness.judging.certified import Oracles
from parity_tests.harness.judging.kept_certificates import KeptCertificates, _make_room, digest_of_source
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle import certificate
from parity_tests.harness.specs.domains import integer
from parity_tests.suite.harness.judging._kept import (
    RIGHT,
    WRONG,
    certificate_of,
    files,
    is_kept,
    sine,
)
from parity_tests.suite.marks import fast


def test_a_second_run_reads_what_the_first_has_kept(folder: Path):
    new = certificate_of(RIGHT)
    assert new.verdict is Verdict.PASS
    (file,) = files(folder)
    assert is_kept(RIGHT, folder)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"comparisons": new.comparisons}))
    assert dataclasses.replace(certificate_of(RIGHT), seconds=new.seconds) == new


def _without_times(report: Report) -> str:
    content = report.as_dict() | {"seconds": {}}
    rows, undated = [row | {"seconds": 0.0} for row in content["rows"]], {"date": ""}
    return json.dumps(content | {"rows": rows, "environment": content["environment"] | undated})


def test_the_report_is_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch):
    def run() -> Report:
        return crosscheck(torch.sin, RIGHT, checks=["vjp", "jvp"], dtypes=["float64"])

    first, second = run(), run()
    assert len(files(folder)) == 2
    monkeypatch.setattr(kept_certificates, "folder", lambda: None)
    assert _without_times(first) == _without_times(second) == _without_times(run())


@pytest.mark.parametrize("name", ["jvp", "vjp_of_jvp"])
def test_other_maps_are_kept_too(folder: Path, name: str):
    assert certificate_of(RIGHT, name).passed
    assert is_kept(RIGHT, folder, name)
    assert not is_kept(RIGHT, folder)  # each has its own


@pytest.mark.slow
def test_constants_of_a_sample_are_kept_too(folder: Path):
    """Such a sample has an oracle of its own."""

    def spec(primal: Callable) -> OpSpec:
        return OpSpec("taken", primal, "(n,d),(m)->(m,d)", domains={"indices": integer(0, "n")})

    taken = spec(lambda x, indices: x[indices] * x[indices])
    assert certificate_of(taken).passed
    assert is_kept(taken, folder)
    assert not is_kept(spec(lambda x, indices: x[indices] * x[0]), folder)


# The folder is bounded.


def _file(folder: Path, name: str, days: float, size: int = 10) -> Path:
    """A file of this size in the folder, last used so many days ago."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(bytes(size))
    then = time.time() - days * 86400
    os.utime(folder / name, (then, then))
    return folder / name


def test_what_was_not_used_for_the_longest_time_is_deleted(folder: Path):
    files = [_file(folder, name, days) for name, days in (("a.json", 1), (".1-2.tmp", 3), ("b.json", 2))]
    (folder / "somebody else's").mkdir()
    _make_room(folder, 30)
    assert all(file.exists() for file in files)
    _make_room(folder, 29)
    assert [file.exists() for file in files] == [True, False, True]
    _make_room(folder, 10)
    assert [file.exists() for file in files] == [True, False, False]


def test_a_file_that_another_process_deletes_meanwhile_is_not_missed(folder: Path, monkeypatch: pytest.MonkeyPatch):
    first, second, third = (_file(folder, name, days) for name, days in (("a", 3), ("b", 2), ("c", 1)))
    entries = list(os.scandir(folder))
    first.unlink()
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(os, "scandir", lambda path: entries)
        _make_room(folder, 10)
    assert files(folder) == [third]
    assert not second.exists()


def test_a_certificate_that_is_read_is_used(folder: Path):
    certificate_of(RIGHT)
    (file,) = files(folder)
    _file(folder, "unused", days=5)
    os.utime(file, (0, 0))
    certificate_of(RIGHT)
    assert file.stat().st_mtime > time.time() - 86400
    _make_room(folder, file.stat().st_size)
    assert files(folder) == [file]


def test_a_new_certificate_takes_the_place_of_an_old_one(folder: Path):
    largest = 50_000
    old, older = _file(folder, "old", 30, largest // 2), _file(folder, "older", 31, largest // 2)
    certified_oracle = Oracles(RIGHT, "cpu", 0).certified_oracle(FLOAT64)
    row = certified_oracle.certificate("vjp").row
    assert older.exists()
    with pinned():
        KeptCertificates(certified_oracle.oracle, certified_oracle.cases, largest).write(row)
    assert old.exists()
    assert not older.exists()
    assert len(files(folder)) == 2


# What a certificate rests on.


def _by_rule(rule: Callable) -> OpSpec:
    """The square with a rule of its own, behind the same program."""
    f = jax.custom_jvp(lambda x: x * x)
    f.defjvp(lambda primals, tangents: (primals[0] * primals[0], rule(primals[0], tangents[0])))
    return sine(primal=lambda x: f(x))


_WEIGHTS = np.linspace(1, 2, 50)
_OTHER_WEIGHTS = np.where(np.arange(50) == 25, 1.25, _WEIGHTS)
_WEIGHTED, _OTHERWISE_WEIGHTED = (sine(primal=lambda x, w=w: jnp.sin(x) * w.sum()) for w in (_WEIGHTS, _OTHER_WEIGHTS))


@fast("the primal", "a constant array*", "the explicit formula", "a rule of custom_jvp", "a parameter")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(sine(primal=lambda x: 0.1 * x * x), sine(primal=lambda x: 0.1 * (x * x)), id="the primal"),
        pytest.param(_WEIGHTED, _OTHERWISE_WEIGHTED, id="a constant in the closure"),
        pytest.param(
            sine(primal=lambda x: x * jnp.outer(x, _WEIGHTS).sum()),
            sine(primal=lambda x: x * jnp.outer(x, _OTHER_WEIGHTS).sum()),
            id="a constant array in the closure",
        ),
        pytest.param(RIGHT, sine(vjp=lambda x, y_bar: (jnp.cos(x) * y_bar,)), id="the explicit formula"),
        pytest.param(RIGHT, sine(), id="no explicit formula"),
        pytest.param(_by_rule(lambda x, t: 2 * x * t), _by_rule(lambda x, t: x * t + x * t), id="a rule of custom_jvp"),
        pytest.param(RIGHT, dataclasses.replace(RIGHT, sizes="n = 7"), id="the sizes"),
        pytest.param(RIGHT, dataclasses.replace(RIGHT, signature="(n,m)->(n,m)"), id="the signature"),
        pytest.param(RIGHT, dataclasses.replace(RIGHT, domains={"x": "positive"}), id="the domain"),
        pytest.param(RIGHT, dataclasses.replace(RIGHT, kinks={"x": (0.5,)}), id="the kinks"),
        pytest.param(
            *(sine(primal=lambda x, p: jnp.sin(p * x), params={"p": p}) for p in (2.0, 3.0)), id="a parameter"
        ),
        pytest.param(
            *(OpSpec("sine", jnp.sin, inputs=(np.array([1.0, x]),)) for x in (2.0, 3.0)), id="the inputs that are given"
        ),
    ],
)
def test_what_has_changed_is_certified_anew(folder: Path, one: OpSpec, other: OpSpec):
    assert certificate_of(one).passed
    assert is_kept(one, folder)
    assert not is_kept(other, folder)


def test_another_seed_is_certified_anew(folder: Path):
    certificate_of(RIGHT)
    assert not is_kept(RIGHT, folder, seed=1)
    assert is_kept(RIGHT, folder, seed=0)


@pytest.mark.parametrize("package", ["jax", "jaxlib", "numpy", "scipy", "ml_dtypes"])
def test_another_version_is_certified_anew(folder: Path, monkeypatch: pytest.MonkeyPatch, package: str):
    certificate_of(RIGHT)
    monkeypatch.setattr(f"{package}.__version__", "99.9")
    assert not is_kept(RIGHT, folder)


@pytest.mark.parametrize("flags", ["--xla_cpu_enable_fast_math=true"])
def test_other_flags_of_the_compiler_are_certified_anew(folder: Path, monkeypatch: pytest.MonkeyPatch, flags: str):
    certificate_of(RIGHT)
    monkeypatch.setenv("XLA_FLAGS", flags)
    assert not is_kept(RIGHT, folder)


def test_another_harness_certifies_anew(folder: Path, monkeypatch: pytest.MonkeyPatch):
    certificate_of(RIGHT)
    monkeypatch.setattr(kept_certificates, "_source", lambda: "another")
    assert not is_kept(RIGHT, folder)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with one file, as the harness has many."""
    folder = tmp_path / "harness"
    folder.mkdir()
    (folder / "rule.py").write_text("BOUND = 1\n")
    return folder


def test_the_digest_of_a_source(source: Path):
    before = digest_of_source(source, math.inf)
    assert digest_of_source(source, math.inf) == before
    (source / "rule.py").write_text("BOUND = 2\n")
    assert digest_of_source(source, math.inf) not in (before, None)
    (source / "rule.py").unlink()
    assert digest_of_source(source, math.inf) is None


def test_a_source_that_was_edited_after_its_import_has_no_digest(source: Path):
    """What runs is not what is written there."""
    assert digest_of_source(source, imported=0.0) is None


# Never too kind.


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        pytest.param(RIGHT, WRONG, id="a formula"),
        pytest.param(_by_rule(lambda x, t: 2 * x * t), _by_rule(lambda x, t: 3 * x * t), id="a rule of custom_jvp"),
        pytest.param(
            *(sine(vjp=lambda x, g, w=w: (g * jnp.cos(x) * w[0],)) for w in (np.ones(9), np.full(9, 1.001))),
            id="a constant of a formula",
        ),
    ],
)
def test_a_wrong_formula_after_a_right_one_is_convicted(folder: Path, right: OpSpec, wrong: OpSpec):
    assert certificate_of(right).verdict is Verdict.PASS
    assert certificate_of(wrong).verdict is Verdict.MISMATCH
    assert len(files(folder)) == 1  # and is not kept
    assert is_kept(right, folder)


def test_a_rule_that_raises_after_a_right_one_is_an_error(folder: Path):
    def refuse(x, t):
        raise TypeError("no rule")

    assert certificate_of(_by_rule(lambda x, t: 2 * x * t)).passed
    row = certificate_of(_by_rule(refuse))
    assert row.verdict is Verdict.ERROR
    assert "no rule" in row.reason


def test_a_certificate_with_a_note_is_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """Another run may have an answer where a witness has raised."""

    def certify(oracle, name, sample):
        if sample.name == "one_n":
            raise FloatingPointError("no witness here")
        return certificate.certify(oracle, name, sample)

    monkeypatch.setattr(certified, "certify", certify)
    assert certificate_of(RIGHT).passed
    assert files(folder) == []
