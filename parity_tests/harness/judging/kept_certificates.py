"""The oracle's certificates, kept from one run to the next in the folder of JAX's compilation cache.

A certificate follows from the spec, the samples, the harness, the versions of what it computes with, and the programs
that JAX traces of the oracle. All of it is in the name of its file: of the programs those of which it is known in
advance that a witness asks for them. Which others there will be is not known; the file lists all that the oracle had
traced by then, each with its digest. It is read only if it lists all of the known ones, and if the same requests give
the same programs again: then the witnesses would have been given the same numbers, one after the other. Tracing takes a
tenth of the time that the witnesses take, and most of it is needed by the checks anyway.

What stands in such a file is believed. So the folder must be the user's own, and nobody else may write to it: a folder
of another user, or one that others may write to, keeps nothing, which the report says.

The folder is bounded as JAX bounds its own cache: by a size in bytes, beyond which the files that were not used for the
longest time are deleted. JAX has no bound by default; here it is `LARGEST_FOLDER`.

Only certificates that pass are kept. Where something takes part that a digest does not see, none is: a callback, a
sampler, a witness or a rounding rule of the user's own, a surrogate gradient.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import math
import os
import platform
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import jax
import jaxlib
import ml_dtypes
import numpy as np
import scipy

from parity_tests.harness.data_files import built, parsed_json
from parity_tests.harness.findings import Verdict
from parity_tests.harness.language.digest import NoDigest
from parity_tests.harness.maps import BASES, ORDERS
from parity_tests.harness.numbers.fingerprint import fingerprint
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.oracle.programs import Request
from parity_tests.harness.oracle.witness import witnesses
from parity_tests.harness.primitives.registry import records
from parity_tests.harness.report.atomic_file import write_text
from parity_tests.harness.report.results import Row
from parity_tests.harness.specs import domains
from parity_tests.harness.specs.domains import DOMAINS, Domain
from parity_tests.harness.specs.samples import Sample
from parity_tests.harness.specs.spec import FORMULAS, OpSpec

LARGEST_FOLDER = 2**26  # bytes: some thousands of certificates, of tens of kilobytes at the most
_FORMAT = 2
_NUMBERS = ("float64", "complex128")
_HARNESS = Path(__file__).parents[1]
_IMPORTED = time.time()
_PRIMITIVES = "parity_tests.harness.primitives."
_WITNESSES = "parity_tests.harness.oracle."


class KeptCertificates:
    """The certificates of one oracle at these samples. Must be used inside `numerics.pinned()`.

    Their folder has at most `largest` bytes, or fewer if the user gives JAX's own cache fewer.
    """

    def __init__(self, oracle: Oracle, cases: Sequence[Sample], largest: int = LARGEST_FOLDER) -> None:
        self._oracle, self._cases, self._largest = oracle, cases, largest
        self._digests: dict[tuple[int, Request], str] = {}

    def read(self, blank: Row) -> Row | None:
        """The row of a map, whose name is `blank.check`, as an earlier run has kept it; None if there is none.

        A file that cannot be read, or is not what `write` has written, is as good as none.
        """
        if (file := self._file(blank)) is None:
            return None
        try:
            content = built(_Content, parsed_json(_own_text(file), str(file), "a certificate"))
        except (OSError, ValueError):
            return None
        if not content.holds or not all(self._still_gives(*entry) for entry in content.programs):
            return None
        if not {*self._needed(blank.check)} <= {(entry[0], _request(*entry[1:4])) for entry in content.programs}:
            return None
        with contextlib.suppress(OSError):
            os.utime(file)  # when it was last used, by which `_make_room` decides
        return replace(
            blank,
            error_over_bound=content.error_over_bound,
            comparisons=content.comparisons,
            conventions=content.conventions,
        )

    def write(self, row: Row) -> None:
        """Keep a certificate for later runs, if it passes. A folder that cannot be written to keeps none."""
        if row.verdict is not Verdict.PASS or row.reason or (file := self._file(row)) is None:
            return
        try:
            programs = list(self._programs())
        except NoDigest:
            return
        content = {
            "format": _FORMAT,
            "error_over_bound": row.error_over_bound,
            "comparisons": row.comparisons,
            "conventions": row.conventions,
            "programs": programs,
        }
        # The next run makes it again; the report has nothing to say of that.
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_text(file, json.dumps(content))
            file.chmod(0o600)  # whatever the umask: a file that others may write to is not read
            _make_room(file.parent, _largest_folder(self._largest))

    def _file(self, row: Row) -> Path | None:
        """The file of a row's certificate; None if it cannot be kept."""
        where = folder()
        if where is None or why_not_trusted() or self._facts is None or not _all_of_the_harness():
            return None
        try:
            programs = sorted((i, repr(request), self._digest(i, request)) for i, request in self._needed(row.check))
        except Exception:  # one cannot be traced, or has no digest: the new certificate says what is wrong
            return None
        facts = [self._facts, _environment(), _source(), row.op, row.check, row.dtype, list(witnesses())]
        facts.append(programs)
        return where / f"{hashlib.sha256(repr(facts).encode()).hexdigest()}.json"

    @functools.cached_property
    def _facts(self) -> str | None:
        """All that the witnesses know of the operator besides its programs; None if that cannot be written down."""
        spec = self._oracle.spec
        if spec.surrogate is not None or not _domains_are_known(spec, self._cases) or _source() is None:
            return None
        try:
            samples = [_of_sample(self._oracle, sample) for sample in self._cases]
            return repr([_of_spec(spec), _of_primal(self._oracle, self._cases[0]), *samples])
        except Exception:
            return None  # a sample cannot be drawn, or the primal raises there; the certificate says so

    @functools.cached_property
    def _oracles(self) -> list[Oracle]:
        """The oracle, and those of samples that have constants of their own, in the order of the samples."""
        every = [self._oracle, *(self._oracle.at(sample) for sample in self._cases)]
        return list({id(oracle): oracle for oracle in every}.values())

    def _programs(self) -> Iterator[list[Any]]:
        """The entries of a file: a request to one of the oracles, and the digest of its program.

        What could not be traced is not among them: where a witness raises there is a note, and nothing is kept.
        """
        for i, oracle in enumerate(self._oracles):
            for request in oracle.programs:
                arguments = [None if a is None else [list(a[0]), a[1].name] for a in request.arguments]
                yield [i, request.name, request.by_autodiff, arguments, self._digest(i, request)]

    def _needed(self, name: str) -> Iterator[tuple[int, Request]]:
        """Yield the programs that certify a map, each with its oracle's number: at each sample the map, by formula and
        by autodiff, all maps of which it is a derivative, and beside a VJP the JVP of the same order.
        """
        maps = [name]
        while maps[-1] != "forward":
            maps.append(BASES[maps[-1]])
        beside = [
            other for other, order in ORDERS.items() if order[-1:] == ("jvp",) and order[:-1] == ORDERS[name][:-1]
        ]
        for sample in self._cases:
            if sample.first_order_only:
                continue
            oracle = self._oracle.at(sample)
            i = next(k for k, known in enumerate(self._oracles) if known is oracle)
            shapes = oracle.shapes(tuple(sample.shapes))
            for one in dict.fromkeys([*maps, *(beside if ORDERS[name][-1:] == ("vjp",) else ())]):
                slots = oracle.map(one).arguments
                arguments = [np.broadcast_to(np.zeros((), oracle.dtypes[s.like]), shapes[s.like]) for s in slots]
                yield i, Request.of(one, arguments, by_autodiff=False)
                if one == name and oracle.has_formula(name):
                    yield i, Request.of(one, arguments, by_autodiff=True)

    def _still_gives(self, i: int, name: str, by_autodiff: bool, arguments: Sequence, digest: str) -> bool:
        """True if an entry of a file holds for these oracles."""
        try:
            return self._digest(i, _request(name, by_autodiff, arguments)) == digest
        except Exception:  # it cannot be traced any more, or has no digest: the new certificate says what is wrong
            return False

    def _digest(self, i: int, request: Request) -> str:
        """The digest of a program, which is traced if need be."""
        if (i, request) not in self._digests:
            program = self._oracles[i].traced(request.name, request.example(), request.by_autodiff)
            self._digests[i, request] = program.digest()
        return self._digests[i, request]


def folder() -> Path | None:
    """Where certificates are kept: in the folder of JAX's compilation cache; None if the user has set none."""
    where = jax.config.values["jax_compilation_cache_dir"]
    if not where or "://" in where or not jax.config.values["jax_enable_compilation_cache"] or not _largest_folder():
        return None
    return Path(where, "gradparity-certificates")


def why_not_trusted() -> str | None:
    """Why nothing is read from the folder or kept there, and what to do; None if it is the user's own, or none is set.

    A link counts as the folder to which it leads, if it is the user's own.
    """
    where = folder()
    if where is None:
        return None
    for look in (os.lstat, os.stat):
        try:
            status = look(where)
        except OSError:  # it will be made, by this user
            continue
        own = hasattr(os, "getuid") and status.st_uid == os.getuid()
        written_by_others = not stat.S_ISLNK(status.st_mode) and status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not own or written_by_others:
            who = "others may write to it" if own else "it belongs to another user"
            return (
                f"certificates of the oracle are not kept from run to run: {who}, {where}; "
                f"set JAX_COMPILATION_CACHE_DIR to a folder of your own{', or chmod go-w it' if own else ''}"
            )
    return None


def _own_text(file: Path) -> str:
    """The text of a file of the user's own: others may have put one there before the folder was closed to them.

    Raises:
        OSError: it cannot be read, or is another user's, or others may write to it.
        UnicodeDecodeError: it is no UTF-8.
    """
    with open(file, encoding="utf-8") as opened:
        status = os.fstat(opened.fileno())
        if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(f"{file} is not this user's alone")
        return opened.read()


def _request(name: str, by_autodiff: bool, arguments: Sequence) -> Request:
    """The request of an entry of a file."""
    kinds = (None if a is None else (tuple(a[0]), np.dtype(a[1])) for a in arguments)
    return Request(name, by_autodiff, tuple(kinds))


def _largest_folder(largest: int = LARGEST_FOLDER) -> int:
    """How many bytes the folder may have: these, or fewer if the user gives JAX's own cache fewer."""
    of_jax = jax.config.values["jax_compilation_cache_max_size"]
    return largest if of_jax < 0 else min(of_jax, largest)  # -1 is JAX's word for no bound


def _make_room(where: Path, largest: int) -> None:
    """Delete the files that were not used for the longest time, until the others have at most this many bytes.

    Other processes may do the same at the same time: a file that is gone is not missed, and who reads one finds it
    whole or not at all. A file that a killed process was about to write is deleted like the others.
    """
    files = []
    for entry in os.scandir(where):
        with contextlib.suppress(FileNotFoundError):
            if not entry.is_file(follow_symlinks=False):
                continue
            status = entry.stat(follow_symlinks=False)
            files.append((status.st_mtime_ns, entry.path, status.st_size))
    excess = sum(size for *_, size in files) - largest
    for _, path, size in sorted(files):
        if excess <= 0:
            return
        Path(path).unlink(missing_ok=True)
        excess -= size


@dataclass(frozen=True)
class _Content:
    """The data in a file; of each program the oracle, the map, whether by autodiff, its arguments, and the digest."""

    format: int
    error_over_bound: float
    comparisons: int
    conventions: tuple[str, ...]
    programs: tuple[tuple[int, str, bool, tuple[tuple[tuple[int, ...], str] | None, ...], str], ...]

    @property
    def holds(self) -> bool:
        """True if these are numbers and names of a certificate of this format."""
        named = all(
            i >= 0 and name in ORDERS and all(a is None or (a[1] in _NUMBERS and min(a[0], default=0) >= 0) for a in of)
            for i, name, _, of, _ in self.programs
        )
        return self.format == _FORMAT and math.isfinite(self.error_over_bound) and self.comparisons > 0 and named


def _all_of_the_harness() -> bool:
    """True if all witnesses, and all rules of rounding, are the harness's own, whose source is part of the digest."""
    own = all(type(witness).__module__.startswith(_WITNESSES) for witness in witnesses().values())
    return own and all(record.bound.__module__.startswith(_PRIMITIVES) for record in records().values())


def _domains_are_known(spec: OpSpec, cases: Sequence[Sample]) -> bool:
    """True if no domain is the user's own: its name then says how directions are projected.

    What is not differentiated may be drawn by `integer` too: its numbers are written down.
    """
    declared = all(
        isinstance(what, str)
        or (isinstance(what, Domain) and (_has_name(what) or what.draw.__module__ == domains.__name__))
        for what in spec.domains.values()
    )
    return declared and all(_has_name(domain) for sample in cases for domain in sample.domains)


def _has_name(domain: Domain) -> bool:
    return DOMAINS.get(domain.name) == domain.unscaled


def _of_spec(spec: OpSpec) -> list[object]:
    formulas = [name for name in FORMULAS if getattr(spec, name) is not None]
    named = {name: what if isinstance(what, str) else what.name for name, what in spec.domains.items()}
    kinks = {name: [float(x).hex() for x in values] for name, values in spec.kinks.items()}
    bindings = sorted(spec.conventions.items())
    return [
        spec.signature,
        spec.sizes,
        formulas,
        sorted(named.items()),
        sorted(kinks.items()),
        bindings,
        sorted(spec.detached),
    ]


def _of_primal(oracle: Oracle, sample: Sample) -> str:
    """The digest of the primal at the first sample, so that two operators of one name and signature get a file each."""
    oracle = oracle.at(sample)
    return oracle.traced("forward", sample.primals(oracle.inputs), by_autodiff=False).digest()


def _of_sample(oracle: Oracle, sample: Sample) -> list[object]:
    """All that a sample is, and the shapes and names of what the oracle makes of it."""
    oracle = oracle.at(sample)
    described = [(f.name, _in_words(getattr(sample, f.name))) for f in fields(sample) if f.init]
    primals = _in_words(sample.primals(oracle.inputs))
    names = [oracle.inputs, oracle.outputs, oracle.integers, *oracle.dtypes.items()]
    return [described, primals, names, oracle.outputs_at(sample.shapes), oracle.returns.differentiable]


def _in_words(value: Any) -> object:
    """A field of a sample, its arrays by their fingerprints."""
    if isinstance(value, np.ndarray):
        return fingerprint(value)
    if isinstance(value, Domain):
        return value.name
    if isinstance(value, Mapping):
        return [(key, _in_words(value[key])) for key in sorted(value)]
    if isinstance(value, tuple | list):
        return [_in_words(x) for x in value]
    return sorted(value) if isinstance(value, frozenset) else value


def _environment() -> tuple[str, ...]:
    """The versions, the machine and the flags that the numbers depend on, apart from the harness."""
    where = jax.devices()[0]
    versions = (f"{package.__name__} {package.__version__}" for package in (jax, jaxlib, ml_dtypes, np, scipy))
    machine = (sys.version, sys.platform, platform.machine(), where.platform, where.device_kind)
    return (*versions, *machine, os.environ.get("XLA_FLAGS", ""))


@functools.cache
def _source() -> str | None:
    """A digest of the harness; None if its files cannot be read, or have changed since this process has read them."""
    return digest_of_source(_HARNESS, _IMPORTED)


def digest_of_source(folder: Path, imported: float) -> str | None:
    """A digest of a folder's Python files; None if they cannot be read, or one has changed since they were imported.

    `imported`: when that was, in seconds as `time.time` has them.
    """
    digest = hashlib.sha256()
    files = sorted(folder.rglob("*.py"))
    try:
        if any(file.stat().st_mtime > imported for file in files):
            return None
        for file in files:
            digest.update(f"{file.relative_to(folder).as_posix()}\0".encode() + file.read_bytes() + b"\0")
    except OSError:
        return None
    return digest.hexdigest() if files else None
