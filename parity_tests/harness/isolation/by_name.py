"""Callables for another process, each pickled by the name under which it can be imported there."""

from __future__ import annotations

import importlib
import io
import pickle
import types
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from pathlib import Path

from parity_tests.harness.candidates.base import AnyCandidate
from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.exceptions.explaining import explain
from parity_tests.harness.judging.certified import Oracles
from parity_tests.harness.judging.plan import Plan
from parity_tests.harness.judging.selection import select_checks, select_precisions, select_samples
from parity_tests.harness.report.report import Report
from parity_tests.harness.report.results import Row
from parity_tests.harness.specs.spec import OpSpec

REMEDY = (
    "with isolate=True another process judges, which imports what it is given: define it at the top level of a module "
    "(no lambda, no function within a function), or give isolate=False"
)


@dataclass(frozen=True)
class Calls:
    """Callables to judge, in another process: see `messages.Work`.

    Attributes:
        pickled: the spec and the candidates, as `pickled` makes them.
        checks, dtypes, seed, deadline: those of a `Plan`, by name.
        quick: at a few samples.
    """

    pickled: bytes
    device: str
    checks: tuple[str, ...]
    dtypes: tuple[str, ...]
    seed: int
    deadline: float
    quick: bool
    folder: Path | None = None

    @property
    def source(self) -> Hashable:
        """The key of what `load` returns."""
        return self.pickled

    def load(self) -> tuple[OpSpec, list[AnyCandidate]]:
        """The spec and the candidates, imported."""
        try:
            return pickle.loads(self.pickled)
        except Exception as error:
            raise ImportError(f"{type(error).__name__}: {error}; {REMEDY}") from error

    @property
    def sampling(self) -> Hashable:
        """The key of the oracles, beside the spec."""
        return self.device, self.seed, self.quick

    def oracles(self, spec: OpSpec) -> Oracles:
        """The oracles that judge all candidates."""
        return Oracles(spec, self.device, self.seed, select_samples(self.quick))

    def plan(self, spec: OpSpec, candidates: Sequence[AnyCandidate | NotBuilt], oracles: Oracles) -> Plan:
        """The plan for these candidates."""
        return Plan(
            spec=spec,
            candidates=candidates,
            checks=select_checks(self.checks),
            precisions=select_precisions(self.dtypes, spec),
            device=self.device,
            seed=self.seed,
            replay=self.again,
            samples=select_samples(self.quick),
            deadline=self.deadline,
            oracles=oracles,
        )

    def save(self, report: Report) -> None:
        """Make the files of the last row's reproducer, which need a candidate; whoever has the report writes them."""
        row = report.rows[-1]
        if row.failure is not None and row.failure.evidence is not None:
            files = explain("the reproducer", row.failure.evidence.files)
            lines = (*row.failure.unexplained, *files.unexplained)
            report.rows[-1] = replace(row, failure=replace(row.failure, evidence=files.value, unexplained=lines))

    def again(self, row: Row) -> str:
        """The call that judges a row again."""
        return replay_line(self.quick, row)

    def release(self, candidates: Sequence[AnyCandidate | NotBuilt]) -> bool:
        """None runs in a process of its own."""
        return False


def replay_line(quick: bool, row: Row) -> str:
    """The options with which the same call judges a row again, and nothing else."""
    options = f'checks=["{row.check}"], dtypes=["{row.dtype}"], device="{row.device}"{", quick=True" if quick else ""}'
    return f"the same call with {options}"


def pickled(spec: OpSpec, candidates: Iterable[AnyCandidate]) -> bytes:
    """A spec and candidates, for `Calls`.

    Raises:
        TypeError: one of them cannot be sent; the message names it, and the remedy.
    """
    candidates = list(candidates)
    for what, thing in ((f"OpSpec {spec.name}", spec), *((f"candidate {c.name!r}", c) for c in candidates)):
        try:
            _dumped(thing)
        except Exception as error:  # an object's own __reduce__ may raise anything
            raise TypeError(f"{what} cannot be sent to another process ({error}); {REMEDY}") from error
    return _dumped((spec, candidates))


class _Pickler(pickle.Pickler):
    """A pickler that sends other callables by name, too, such as those that `jax.jit` and `jax.custom_vjp` make."""

    def reducer_override(self, obj: object) -> object:
        module, name = getattr(obj, "__module__", None), getattr(obj, "__qualname__", getattr(obj, "__name__", None))
        wrapped = not isinstance(obj, types.FunctionType | types.BuiltinFunctionType | types.MethodType | type)
        if callable(obj) and wrapped and isinstance(module, str) and isinstance(name, str):
            try:
                if _imported(module, name) is obj:
                    return partial(_imported, module, name), ()
            except (ImportError, AttributeError):
                pass  # it has no name of its own
        return NotImplemented


def _imported(module: str, name: str) -> object:
    return attrgetter(name)(importlib.import_module(module))


def _dumped(thing: object) -> bytes:
    file = io.BytesIO()
    _Pickler(file).dump(thing)
    return file.getvalue()
