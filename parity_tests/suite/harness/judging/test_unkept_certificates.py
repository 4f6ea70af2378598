"""Certificates that are not kept, or not believed: what others have written, what cannot be named, what is no file."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import Domain, OpSpec, Verdict, crosscheck
from parity_tests.harness.findings import Fact
from parity_tests.harness.judging import kept_certificates
from parity_tests.harness.judging.certified import Oracles
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.witness import registered
from parity_tests.harness.primitives import registry
from parity_tests.harness.report.results import Row
from parity_tests.suite.harness.judging._kept import (
    MARK,
    RIGHT,
    WRONG,
    certificate_of,
    files,
    folder_of_jax,
    is_kept,
    sine,
)
from parity_tests.suite.marks import fast

# What somebody else may have written.


def _file_of(spec: OpSpec, folder: Path) -> Path:
    """Where a run would look for the certificate of a spec's VJP."""
    certified_oracle = Oracles(spec, "cpu", 0).certified_oracle(FLOAT64)
    with pinned():
        blank = Row(spec.name, "oracle", "vjp", "float64", "cpu", Verdict.PASS, 0.0, 0)
        file = certified_oracle._kept._file(blank)
    assert file is not None
    return file


def test_two_formulas_have_a_file_each(folder: Path):
    """The programs are in the name: of one formula the certificate of another is not even looked at."""
    assert _file_of(RIGHT, folder) != _file_of(WRONG, folder)
    assert _file_of(RIGHT, folder) == _file_of(sine(vjp=lambda x, y_bar: (y_bar * jnp.cos(x),)), folder)


@pytest.mark.parametrize("kept", ["forward", "all that hold", "first"])
def test_a_forged_certificate_of_a_wrong_formula_is_not_read(folder: Path, kept: str):
    """It stands where a run looks for it, and all that it lists holds; but it does not list the wrong formula."""
    assert certificate_of(RIGHT).passed
    (file,) = files(folder)
    content = json.loads(file.read_text())
    programs = content["programs"]
    of_forward = [entry for entry in programs if entry[1] == "forward"]
    lists = {"forward": of_forward, "first": programs[:1]}
    # Autodiff of the primal, and its JVP, are the same for both specs
    lists["all that hold"] = [entry for entry in programs if entry[1] != "vjp" or entry[2]]
    forged = _file_of(WRONG, folder)
    forged.write_text(json.dumps(content | {"programs": lists[kept], "comparisons": MARK}))
    row = certificate_of(WRONG)
    assert (row.verdict, row.comparisons == MARK) == (Verdict.MISMATCH, False)


@pytest.mark.parametrize("left_out", [0, 5, -1])
def test_a_certificate_that_leaves_a_needed_program_out_is_not_read(folder: Path, left_out: int):
    """The count is not enough: of all that a witness asks for none may be missing."""
    assert certificate_of(RIGHT).passed
    (file,) = files(folder)
    content = json.loads(file.read_text())
    needed = [i for i, entry in enumerate(content["programs"]) if entry[1] in ("vjp", "jvp")]
    del content["programs"][needed[left_out]]
    file.write_text(json.dumps(content | {"comparisons": MARK}))
    assert certificate_of(RIGHT).comparisons != MARK


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_a_folder_that_others_may_write_to_is_not_believed(folder: Path, mode: int):
    assert certificate_of(RIGHT).passed
    (file,) = files(folder)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"comparisons": MARK}))
    assert certificate_of(RIGHT).comparisons == MARK
    folder.chmod(mode)
    report = crosscheck(torch.sin, RIGHT, checks=["vjp", "jvp"], dtypes=["float32", "float64"])
    assert all(row.comparisons != MARK for row in report.rows)
    (line,) = (line for line in report.skipped if "certificates" in line)
    assert line == (
        f"certificates of the oracle are not kept from run to run: others may write to it, {folder}; set "
        "JAX_COMPILATION_CACHE_DIR to a folder of your own, or chmod go-w it"
    )
    assert files(folder) == [file]


def test_a_folder_of_another_user_is_not_believed(folder: Path, monkeypatch: pytest.MonkeyPatch):
    assert certificate_of(RIGHT).passed
    (file,) = files(folder)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"comparisons": MARK}))
    monkeypatch.setattr(kept_certificates.os, "getuid", lambda: os.stat(folder).st_uid + 1)
    assert certificate_of(RIGHT).comparisons != MARK
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
    assert certificate_of(RIGHT).passed
    (file,) = files(folder)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"comparisons": MARK}))
    file.chmod(0o666)
    assert certificate_of(RIGHT).comparisons != MARK


def test_a_new_folder_is_the_users_alone(folder: Path):
    before = os.umask(0o002)
    try:
        assert certificate_of(RIGHT).passed
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert is_kept(RIGHT, folder)


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
        assert certificate_of(RIGHT).passed
    assert files(folder) == []
    certificate_of(RIGHT)
    assert is_kept(RIGHT, folder)
    with registered(_Own()):
        assert not is_kept(RIGHT, folder)


def test_nothing_is_kept_beside_a_rounding_rule_of_the_users_own(folder: Path):
    """Its source is not part of the digest, so that a changed rule would find old certificates."""
    with registry.scoped_records():
        registry.primitive("a primitive of the user's own")(lambda eqn, x, e, y, p: e[0])
        assert certificate_of(RIGHT).passed
    assert files(folder) == []


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
    assert certificate_of(sine(domains={"x": domain})).passed
    assert files(folder) == []


def test_a_surrogate(folder: Path):
    assert certificate_of(sine(surrogate=lambda x, y_bar: (y_bar,))).passed
    assert files(folder) == []


def test_an_effect(folder: Path):
    def printing(x):
        jax.debug.callback(lambda: None)
        return jnp.sin(x)

    certificate_of(sine(primal=printing))
    assert files(folder) == []


# Files and folders.


@fast("infinite", "no programs", "half an entry")
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
    expected = certificate_of(RIGHT)
    (file,) = files(folder)
    right = json.loads(file.read_text())
    file.write_text(content(file.read_text()))
    assert dataclasses.replace(certificate_of(RIGHT), seconds=expected.seconds) == expected
    assert json.loads(file.read_text()) == right
    assert files(folder) == [file]


def test_bytes_that_are_no_text(folder: Path):
    certificate_of(RIGHT)
    (file,) = files(folder)
    file.write_bytes(b"\xff\xfe\x00")
    assert certificate_of(RIGHT).passed
    assert is_kept(RIGHT, folder)


def test_a_folder_that_cannot_be_made(folder: Path):
    folder.write_text("a file")
    assert certificate_of(RIGHT).passed
    assert folder.read_text() == "a file"


def test_a_file_that_cannot_be_written(folder: Path):
    certificate_of(RIGHT)
    (file,) = files(folder)
    file.unlink()
    file.mkdir()
    assert certificate_of(RIGHT).passed
    assert files(folder) == [file]


def test_without_jaxs_cache_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kept_certificates, "folder", folder_of_jax)
    monkeypatch.chdir(tmp_path)
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    try:
        assert certificate_of(RIGHT).passed
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
    assert files(tmp_path) == []


def test_the_folder_is_that_of_jaxs_cache(tmp_path: Path):
    """No program is compiled here, so that JAX does not begin to use the folder."""
    before = jax.config.jax_compilation_cache_dir, jax.config.jax_enable_compilation_cache
    try:
        jax.config.update("jax_compilation_cache_dir", str(tmp_path))
        assert folder_of_jax() == tmp_path / "gradparity-certificates"
        jax.config.update("jax_enable_compilation_cache", False)
        assert folder_of_jax() is None
        jax.config.update("jax_enable_compilation_cache", True)
        jax.config.update("jax_compilation_cache_dir", "gs://bucket/cache")
        assert folder_of_jax() is None
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
        assert folder_of_jax() is None
    finally:
        jax.config.update("jax_compilation_cache_dir", before[0])
        jax.config.update("jax_compilation_cache_max_size", before[1])
