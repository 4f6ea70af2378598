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

from parity_tests import Domain, OpSpec, Report, Verdict, crosscheck
from parity_tests.harness.findings import Fact
from parity_tests.harness.judging import certified, kept_certificates
from parity_tests.harness.judging.certified import Oracles
from parity_tests.harness.judging.kept_certificates import KeptCertificates, _make_room, digest_of_source
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle import certificate
from parity_tests.harness.oracle.witness import registered
from parity_tests.harness.report.results import Row
from parity_tests.harness.rounding import registry
from parity_tests.harness.specs.domains import integer
from parity_tests.suite.marks import fast

_MARK = 12345  # comparisons, which no certificate of these tests has
_folder_of_jax = kept_certificates.folder  # the suite keeps none, see its conftest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where certificates are kept in this test."""
    monkeypatch.setattr(kept_certificates, "folder", lambda: tmp_path / "kept")
    return tmp_path / "kept"


def _certificate(spec: OpSpec, name: str = "vjp", seed: int = 0) -> Row:
    """What the oracle's own row is in a run of its own."""
    return Oracles(spec, "cpu", seed).certified_oracle(FLOAT64).certificate(name).row


def _is_kept(spec: OpSpec, folder: Path, name: str = "vjp", seed: int = 0) -> bool:
    """Does a run read one of the files in the folder? It does if it reports the number that is written there."""
    for file in folder.iterdir():
        file.write_text(json.dumps(json.loads(file.read_text()) | {"comparisons": _MARK}))
    return _certificate(spec, name, seed).comparisons == _MARK


def _files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.exists() else []


def _sine(**fields) -> OpSpec:
    return OpSpec(**({"name": "sine", "primal": lambda x: jnp.sin(x), "signature": "(n)->(n)"} | fields))


_RIGHT = _sine(vjp=lambda x, y_bar: (y_bar * jnp.cos(x),))
_WRONG = _sine(vjp=lambda x, y_bar: (y_bar * (jnp.cos(x) + 1e-6),))


def test_a_second_run_reads_what_the_first_has_kept(folder: Path):
    new = _certificate(_RIGHT)
    assert new.verdict is Verdict.PASS
    (file,) = _files(folder)
    assert _is_kept(_RIGHT, folder)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"comparisons": new.comparisons}))
    assert dataclasses.replace(_certificate(_RIGHT), seconds=new.seconds) == new


def _without_times(report: Report) -> str:
    content = report.as_dict() | {"seconds": {}}
    rows, undated = [row | {"seconds": 0.0} for row in content["rows"]], {"date": ""}
    return json.dumps(content | {"rows": rows, "environment": content["environment"] | undated})


def test_the_report_is_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch):
    def run() -> Report:
        return crosscheck(torch.sin, _RIGHT, checks=["vjp", "jvp"], dtypes=["float64"])

    first, second = run(), run()
    assert len(_files(folder)) == 2
    monkeypatch.setattr(kept_certificates, "folder", lambda: None)
    assert _without_times(first) == _without_times(second) == _without_times(run())


@pytest.mark.parametrize("name", ["jvp", "vjp_of_jvp"])
def test_other_maps_are_kept_too(folder: Path, name: str):
    assert _certificate(_RIGHT, name).passed
    assert _is_kept(_RIGHT, folder, name)
    assert not _is_kept(_RIGHT, folder)  # each has its own


def test_constants_of_a_sample_are_kept_too(folder: Path):
    """Such a sample has an oracle of its own."""

    def spec(primal: Callable) -> OpSpec:
        return OpSpec("taken", primal, "(n,d),(m)->(m,d)", domains={"indices": integer(0, "n")})

    taken = spec(lambda x, indices: x[indices] * x[indices])
    assert _certificate(taken).passed
    assert _is_kept(taken, folder)
    assert not _is_kept(spec(lambda x, indices: x[indices] * x[0]), folder)


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
    monkeypatch.setattr(os, "scandir", lambda path: entries)
    _make_room(folder, 10)
    assert _files(folder) == [third]
    assert not second.exists()


def test_a_certificate_that_is_read_is_used(folder: Path):
    _certificate(_RIGHT)
    (file,) = _files(folder)
    _file(folder, "unused", days=5)
    os.utime(file, (0, 0))
    _certificate(_RIGHT)
    assert file.stat().st_mtime > time.time() - 86400
    _make_room(folder, file.stat().st_size)
    assert _files(folder) == [file]


def test_a_new_certificate_takes_the_place_of_an_old_one(folder: Path):
    largest = 50_000
    old, older = _file(folder, "old", 30, largest // 2), _file(folder, "older", 31, largest // 2)
    certified_oracle = Oracles(_RIGHT, "cpu", 0).certified_oracle(FLOAT64)
    row = certified_oracle.certificate("vjp").row
    assert older.exists()
    with pinned():
        KeptCertificates(certified_oracle.oracle, certified_oracle.cases, largest).write(row)
    assert old.exists()
    assert not older.exists()
    assert len(_files(folder)) == 2


# What a certificate rests on.


def _by_rule(rule: Callable) -> OpSpec:
    """The square with a rule of its own, behind the same program."""
    f = jax.custom_jvp(lambda x: x * x)
    f.defjvp(lambda primals, tangents: (primals[0] * primals[0], rule(primals[0], tangents[0])))
    return _sine(primal=lambda x: f(x))


_WEIGHTS = np.linspace(1, 2, 50)
_OTHER_WEIGHTS = np.where(np.arange(50) == 25, 1.25, _WEIGHTS)
_WEIGHTED, _OTHERWISE_WEIGHTED = (_sine(primal=lambda x, w=w: jnp.sin(x) * w.sum()) for w in (_WEIGHTS, _OTHER_WEIGHTS))


@fast("the primal", "a constant array*", "the explicit formula", "a rule of custom_jvp", "a parameter")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(_sine(primal=lambda x: 0.1 * x * x), _sine(primal=lambda x: 0.1 * (x * x)), id="the primal"),
        pytest.param(_WEIGHTED, _OTHERWISE_WEIGHTED, id="a constant in the closure"),
        pytest.param(
            _sine(primal=lambda x: x * jnp.outer(x, _WEIGHTS).sum()),
            _sine(primal=lambda x: x * jnp.outer(x, _OTHER_WEIGHTS).sum()),
            id="a constant array in the closure",
        ),
        pytest.param(_RIGHT, _sine(vjp=lambda x, y_bar: (jnp.cos(x) * y_bar,)), id="the explicit formula"),
        pytest.param(_RIGHT, _sine(), id="no explicit formula"),
        pytest.param(_by_rule(lambda x, t: 2 * x * t), _by_rule(lambda x, t: x * t + x * t), id="a rule of custom_jvp"),
        pytest.param(_RIGHT, dataclasses.replace(_RIGHT, sizes="n = 7"), id="the sizes"),
        pytest.param(_RIGHT, dataclasses.replace(_RIGHT, signature="(n,m)->(n,m)"), id="the signature"),
        pytest.param(_RIGHT, dataclasses.replace(_RIGHT, domains={"x": "positive"}), id="the domain"),
        pytest.param(_RIGHT, dataclasses.replace(_RIGHT, kinks={"x": (0.5,)}), id="the kinks"),
        pytest.param(
            *(_sine(primal=lambda x, p: jnp.sin(p * x), params={"p": p}) for p in (2.0, 3.0)), id="a parameter"
        ),
        pytest.param(
            *(OpSpec("sine", jnp.sin, inputs=(np.array([1.0, x]),)) for x in (2.0, 3.0)), id="the inputs that are given"
        ),
    ],
)
def test_what_has_changed_is_certified_anew(folder: Path, one: OpSpec, other: OpSpec):
    assert _certificate(one).passed
    assert _is_kept(one, folder)
    assert not _is_kept(other, folder)


def test_another_seed_is_certified_anew(folder: Path):
    _certificate(_RIGHT)
    assert not _is_kept(_RIGHT, folder, seed=1)
    assert _is_kept(_RIGHT, folder, seed=0)


@pytest.mark.parametrize("package", ["jax", "jaxlib", "numpy", "scipy", "ml_dtypes"])
def test_another_version_is_certified_anew(folder: Path, monkeypatch: pytest.MonkeyPatch, package: str):
    _certificate(_RIGHT)
    monkeypatch.setattr(f"{package}.__version__", "99.9")
    assert not _is_kept(_RIGHT, folder)


@pytest.mark.parametrize("flags", ["--xla_cpu_enable_fast_math=true"])
def test_other_flags_of_the_compiler_are_certified_anew(folder: Path, monkeypatch: pytest.MonkeyPatch, flags: str):
    _certificate(_RIGHT)
    monkeypatch.setenv("XLA_FLAGS", flags)
    assert not _is_kept(_RIGHT, folder)


def test_another_harness_certifies_anew(folder: Path, monkeypatch: pytest.MonkeyPatch):
    _certificate(_RIGHT)
    monkeypatch.setattr(kept_certificates, "_source", lambda: "another")
    assert not _is_kept(_RIGHT, folder)


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
        pytest.param(_RIGHT, _WRONG, id="a formula"),
        pytest.param(_by_rule(lambda x, t: 2 * x * t), _by_rule(lambda x, t: 3 * x * t), id="a rule of custom_jvp"),
        pytest.param(
            *(_sine(vjp=lambda x, g, w=w: (g * jnp.cos(x) * w[0],)) for w in (np.ones(9), np.full(9, 1.001))),
            id="a constant of a formula",
        ),
    ],
)
def test_a_wrong_formula_after_a_right_one_is_convicted(folder: Path, right: OpSpec, wrong: OpSpec):
    assert _certificate(right).verdict is Verdict.PASS
    assert _certificate(wrong).verdict is Verdict.MISMATCH
    assert len(_files(folder)) == 1  # and is not kept
    assert _is_kept(right, folder)


def test_a_rule_that_raises_after_a_right_one_is_an_error(folder: Path):
    def refuse(x, t):
        raise TypeError("no rule")

    assert _certificate(_by_rule(lambda x, t: 2 * x * t)).passed
    row = _certificate(_by_rule(refuse))
    assert row.verdict is Verdict.ERROR
    assert "no rule" in row.reason


def test_a_certificate_with_a_note_is_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """Another run may have an answer where a witness has raised."""

    def certify(oracle, name, sample):
        if sample.name == "one_n":
            raise FloatingPointError("no witness here")
        return certificate.certify(oracle, name, sample)

    monkeypatch.setattr(certified, "certify", certify)
    assert _certificate(_RIGHT).passed
    assert _files(folder) == []


# What somebody else may have written.


def _file_of(spec: OpSpec, folder: Path) -> Path:
    """Where a run would look for the certificate of a spec's VJP."""
    certified_oracle = Oracles(spec, "cpu", 0).certified_oracle(FLOAT64)
    with pinned("cpu"):
        blank = Row(spec.name, "oracle", "vjp", "float64", "cpu", Verdict.PASS, 0.0, 0)
        file = certified_oracle._kept._file(blank)
    assert file is not None
    return file


def test_two_formulas_have_a_file_each(folder: Path):
    """The programs are in the name: of one formula the certificate of another is not even looked at."""
    assert _file_of(_RIGHT, folder) != _file_of(_WRONG, folder)
    assert _file_of(_RIGHT, folder) == _file_of(_sine(vjp=lambda x, y_bar: (y_bar * jnp.cos(x),)), folder)


@pytest.mark.parametrize("kept", ["forward", "all that hold", "first"])
def test_a_forged_certificate_of_a_wrong_formula_is_not_read(folder: Path, kept: str):
    """It stands where a run looks for it, and all that it lists holds; but it does not list the wrong formula."""
    assert _certificate(_RIGHT).passed
    (file,) = _files(folder)
    content = json.loads(file.read_text())
    programs = content["programs"]
    of_forward = [entry for entry in programs if entry[1] == "forward"]
    lists = {"forward": of_forward, "first": programs[:1]}
    # Autodiff of the primal, and its JVP, are the same for both specs
    lists["all that hold"] = [entry for entry in programs if entry[1] != "vjp" or entry[2]]
    forged = _file_of(_WRONG, folder)
    forged.write_text(json.dumps(content | {"programs": lists[kept], "comparisons": _MARK}))
    row = _certificate(_WRONG)
    assert (row.verdict, row.comparisons == _MARK) == (Verdict.MISMATCH, False)


@pytest.mark.parametrize("left_out", [0, 5, -1])
def test_a_certificate_that_leaves_a_needed_program_out_is_not_read(folder: Path, left_out: int):
    """The count is not enough: of all that a witness asks for none may be missing."""
    assert _certificate(_RIGHT).passed
    (file,) = _files(folder)
    content = json.loads(file.read_text())
    needed = [i for i, entry in enumerate(content["programs"]) if entry[1] in ("vjp", "jvp")]
    del content["programs"][needed[left_out]]
    file.write_text(json.dumps(content | {"comparisons": _MARK}))
    assert _certificate(_RIGHT).comparisons != _MARK


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_a_folder_that_others_may_write_to_is_not_believed(folder: Path, mode: int):
    assert _certificate(_RIGHT).passed
    (file,) = _files(folder)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"comparisons": _MARK}))
    assert _certificate(_RIGHT).comparisons == _MARK
    folder.chmod(mode)
    report = crosscheck(torch.sin, _RIGHT, checks=["vjp", "jvp"], dtypes=["float32", "float64"])
    assert all(row.comparisons != _MARK for row in report.rows)
    (line,) = (line for line in report.skipped if "certificates" in line)
    assert line == (
        f"certificates of the oracle are not kept from run to run: others may write to it, {folder}; set "
        "JAX_COMPILATION_CACHE_DIR to a folder of your own, or chmod go-w it"
    )
    assert _files(folder) == [file]


def test_a_folder_of_another_user_is_not_believed(folder: Path, monkeypatch: pytest.MonkeyPatch):
    assert _certificate(_RIGHT).passed
    (file,) = _files(folder)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"comparisons": _MARK}))
    monkeypatch.setattr(kept_certificates.os, "getuid", lambda: os.stat(folder).st_uid + 1)
    assert _certificate(_RIGHT).comparisons != _MARK
    why = kept_certificates.why_not_trusted()
    assert why is not None
    assert "it belongs to another user" in why


def test_a_link_to_a_folder_that_others_may_write_to_is_not_believed(folder: Path, tmp_path: Path):
    (tmp_path / "open").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "open")
    assert kept_certificates.why_not_trusted() is None
    (tmp_path / "open").chmod(0o777)
    assert kept_certificates.why_not_trusted() is not None


def test_a_file_that_others_may_write_to_is_not_believed(folder: Path):
    assert _certificate(_RIGHT).passed
    (file,) = _files(folder)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"comparisons": _MARK}))
    file.chmod(0o666)
    assert _certificate(_RIGHT).comparisons != _MARK


def test_a_new_folder_is_the_users_alone(folder: Path):
    before = os.umask(0o002)
    try:
        assert _certificate(_RIGHT).passed
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert _is_kept(_RIGHT, folder)


# What is not kept.


@dataclasses.dataclass(frozen=True)
class _Own:
    """A witness of the user's own, of whose rule nothing is known."""

    name: str = "own"

    def can_judge(self, oracle, name: str) -> bool:
        return True

    def findings(self, place):
        yield Fact("a property", True, "does not hold")


def test_nothing_is_kept_beside_a_witness_of_the_users_own(folder: Path):
    with registered(_Own()):
        assert _certificate(_RIGHT).passed
    assert _files(folder) == []
    _certificate(_RIGHT)
    assert _is_kept(_RIGHT, folder)
    with registered(_Own()):
        assert not _is_kept(_RIGHT, folder)


def test_nothing_is_kept_beside_a_rounding_rule_of_the_users_own(folder: Path):
    """Its source is not part of the digest, so that a changed rule would find old certificates."""
    with registry.scoped_records():
        registry.primitive("a primitive of the user's own")(lambda eqn, x, e, y, p: e[0])
        assert _certificate(_RIGHT).passed
    assert _files(folder) == []


def _uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.uniform(1, 2, shape)


@pytest.mark.parametrize(
    "domain",
    [
        pytest.param(_uniform, id="a sampler"),
        pytest.param(Domain("own", lambda rng, shape, sizes: _uniform(rng, shape)), id="a domain"),
        pytest.param(Domain("real", lambda rng, shape, sizes: _uniform(rng, shape)), id="a domain of a known name"),
    ],
)
def test_domains_of_the_users_own(folder: Path, domain):
    assert _certificate(_sine(domains={"x": domain})).passed
    assert _files(folder) == []


def test_a_surrogate(folder: Path):
    assert _certificate(_sine(surrogate=lambda x, y_bar: (y_bar,))).passed
    assert _files(folder) == []


def test_an_effect(folder: Path):
    def printing(x):
        jax.debug.callback(lambda: None)
        return jnp.sin(x)

    _certificate(_sine(primal=printing))
    assert _files(folder) == []


# Files and folders.


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(lambda text: text[: len(text) // 2], id="truncated"),
        pytest.param(lambda text: "", id="empty"),
        pytest.param(lambda text: "[1, 2]", id="no object"),
        pytest.param(lambda text: text.replace('"format": 2', '"format": 1'), id="another format"),
        pytest.param(lambda text: text.replace('"comparisons": ', '"comparisons": -'), id="a negative count"),
        pytest.param(lambda text: json.dumps(json.loads(text) | {"error_over_bound": float("inf")}), id="infinite"),
        pytest.param(lambda text: json.dumps(json.loads(text) | {"programs": []}), id="no programs"),
        pytest.param(lambda text: json.dumps(json.loads(text) | {"programs": [[9, "vjp", False, [], ""]]}), id="9th"),
        pytest.param(lambda text: json.dumps(json.loads(text) | {"programs": [["vjp"]]}), id="half an entry"),
        pytest.param(lambda text: json.dumps(json.loads(text) | {"conventions": [1]}), id="a number for a line"),
    ],
)
def test_a_file_that_is_no_certificate_is_replaced(folder: Path, content: Callable[[str], str]):
    expected = _certificate(_RIGHT)
    (file,) = _files(folder)
    right = json.loads(file.read_text())
    file.write_text(content(file.read_text()))
    assert dataclasses.replace(_certificate(_RIGHT), seconds=expected.seconds) == expected
    assert json.loads(file.read_text()) == right
    assert _files(folder) == [file]


def test_bytes_that_are_no_text(folder: Path):
    _certificate(_RIGHT)
    (file,) = _files(folder)
    file.write_bytes(b"\xff\xfe\x00")
    assert _certificate(_RIGHT).passed
    assert _is_kept(_RIGHT, folder)


def test_a_folder_that_cannot_be_made(folder: Path):
    folder.write_text("a file")
    assert _certificate(_RIGHT).passed
    assert folder.read_text() == "a file"


def test_a_file_that_cannot_be_written(folder: Path):
    _certificate(_RIGHT)
    (file,) = _files(folder)
    file.unlink()
    file.mkdir()
    assert _certificate(_RIGHT).passed
    assert _files(folder) == [file]


def test_without_jaxs_cache_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kept_certificates, "folder", _folder_of_jax)
    monkeypatch.chdir(tmp_path)
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    try:
        assert _certificate(_RIGHT).passed
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
    assert _files(tmp_path) == []


def test_the_folder_is_that_of_jaxs_cache(tmp_path: Path):
    """No program is compiled here, so that JAX does not begin to use the folder."""
    before = jax.config.jax_compilation_cache_dir, jax.config.jax_enable_compilation_cache
    try:
        jax.config.update("jax_compilation_cache_dir", str(tmp_path))
        assert _folder_of_jax() == tmp_path / "gradparity-certificates"
        jax.config.update("jax_enable_compilation_cache", False)
        assert _folder_of_jax() is None
        jax.config.update("jax_enable_compilation_cache", True)
        jax.config.update("jax_compilation_cache_dir", "gs://bucket/cache")
        assert _folder_of_jax() is None
    finally:
        jax.config.update("jax_compilation_cache_dir", before[0])
        jax.config.update("jax_enable_compilation_cache", before[1])


@pytest.mark.parametrize(
    ("of_jax", "largest"),
    [(-1, kept_certificates.LARGEST_FOLDER), (1000, 1000), (2**40, kept_certificates.LARGEST_FOLDER)],
)
def test_the_folder_is_no_larger_than_jaxs_cache_may_be(tmp_path: Path, of_jax: int, largest: int):
    before = jax.config.jax_compilation_cache_dir, jax.config.jax_compilation_cache_max_size
    try:
        jax.config.update("jax_compilation_cache_dir", str(tmp_path))
        jax.config.update("jax_compilation_cache_max_size", of_jax)
        assert kept_certificates._largest_folder() == largest
        jax.config.update("jax_compilation_cache_max_size", 0)
        assert _folder_of_jax() is None
    finally:
        jax.config.update("jax_compilation_cache_dir", before[0])
        jax.config.update("jax_compilation_cache_max_size", before[1])
