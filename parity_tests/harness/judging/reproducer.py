"""A failure in two files: arrays for `gradparity replay`, and a script that needs torch, jax and numpy only."""

from __future__ import annotations

import codecs
import hashlib
import importlib
import io
import json
import keyword
import platform
import re
import sys
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import torch
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from numpy.lib import format as npy

from parity_tests.harness.candidates.base import AnyCandidate
from parity_tests.harness.candidates.recorder import Call, Recorder
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.candidates.torch_log import TorchLog
from parity_tests.harness.checks import Check
from parity_tests.harness.findings import Comparison, Finding
from parity_tests.harness.maps import ORDERS
from parity_tests.harness.numbers import conversion
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.report.printable import in_a_line
from parity_tests.harness.report.reproducer_files import ReproducerFiles
from parity_tests.harness.specs.arguments import as_code
from parity_tests.harness.specs.seeds import shown
from parity_tests.harness.specs.spec import OpSpec
from parity_tests.harness.trial.trial import Trial

FORMAT = 1
FACTS = "facts"  # the array of the file that is text
_TEMPLATES = Path(__file__).parent
codecs.lookup("unicode-escape")  # Jinja's: a candidate may leave its process without the right to read Python's files
_PROJECTIONS = {"symmetric": "symmetric", "definite": "symmetric", "lower": "np.tril", "probabilities": "with_sum_zero"}


@dataclass(frozen=True, eq=False)
class Reproducer:
    """A failure, and everything that is needed to show it again.

    `trial`: at the smallest input; `wrong`: one finding there. `position`: of the candidate, among those of `case`, the
    file that it is defined in, if there is one; `origin`: where spec and candidate came from, if from no such file.
    """

    spec: OpSpec
    candidate: AnyCandidate
    position: int
    check: Check
    trial: Trial
    wrong: Finding
    case: Path | None
    origin: Mapping[str, str] | None = None

    def files(self) -> ReproducerFiles:
        """Both files, which need the candidate no longer."""
        with pinned(), TorchLog():
            call = _the_call(self.trial, self.check, self.wrong)
            arrays, facts = self._arrays(call), self._facts(call)
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
        for name in sorted(arrays):
            digest.update(name.encode() + arrays[name].tobytes())
        words = (self.spec.name, self.candidate.name, self.check.name, self.trial.precision.name)
        stem = "-".join([*(_in_a_path(word) for word in words), digest.hexdigest()[:8]])
        memory = io.BytesIO()
        _write_arrays(memory, {FACTS: np.array(json.dumps(facts)), **arrays})
        script = None if call is None else self._script(stem, call)
        return ReproducerFiles(stem, memory.getvalue(), script, self.case, self._asks)

    def _facts(self, call: Call | None) -> dict[str, Any]:
        sample = self.trial.sample
        return {
            "format": FORMAT,
            "op": self.spec.name,
            "candidate": self.candidate.name,
            "position": self.position,
            "case": None if self.case is None else str(self.case.resolve()),
            "origin": None if self.origin is None else dict(self.origin),
            "check": self.check.name,
            "dtype": self.trial.precision.name,
            "device": self.trial.device,
            "label": self.wrong.label,
            "circumstance": self.wrong.circumstance,
            "call": None if call is None else call.name,
            "sample": sample.name,
            "why": sample.why,
            "sizes": dict(sample.sizes),
            "seed": shown(sample.seed),
            "given": sample.fixed is not None,
            "absent": sorted(sample.absent),
            "versions": {
                "python": platform.python_version(),
                "torch": torch.__version__,
                "jax": jax.__version__,
                "numpy": np.__version__,
            },
        }

    def _arrays(self, call: Call | None) -> dict[str, np.ndarray]:
        """`drawn.ROLE` and `constant.I` are what a replay draws; the rest is the call that the script makes."""
        trial = self.trial
        directed = {slot.label: slot.like for name in ORDERS for slot in trial.oracle.map(name).arguments}
        arrays = {f"constant.{i}": x for i, x in trial.sample.constants.items() if x is not None}
        for role, x in trial.sample.arrays.items():
            label = role.rsplit(" ", 1)[0]
            like = directed.get(label) if label not in trial.oracle.inputs else None
            exact = x if like is None or like in self.spec.detached else trial.oracle.directed(like, x)
            arrays[f"drawn.{role}"] = trial.precision.rounded(exact)
        if call is not None:
            slots = trial.oracle.map(call.name)
            for slot, argument in zip(slots.arguments, call.arguments, strict=True):
                if argument is not None:
                    arrays[key_of(slot.label)] = argument.values
                    if argument.memory is not None:
                        arrays[f"memory.{key_of(slot.label)}"] = argument.memory
            truths = trial.truth(call.name, [None if a is None else a.values for a in call.arguments])
            for truth, result in zip(truths, call.results, strict=True):
                arrays[f"oracle.{truth.label}"], arrays[f"bound.{truth.label}"] = truth.value, truth.bound
                if result is not None:
                    arrays[f"candidate.{truth.label}"] = conversion.to_numpy(result)
        return arrays

    def _call_arguments(self, variables: Mapping[str, str]) -> str:
        """The arguments of the primal and of the candidate, as they are written in a call."""
        trees = variables if self.spec.arguments is None else self.spec.arguments
        return ", ".join(as_code(tree, variables) for tree in trees)

    @property
    def _asks(self) -> bool:
        """True if the script can import one side, or neither, and asks for it."""
        found = self.case is not None or self._facts_of_reference()["reference"] is not None
        return not found and None in (importable(self.candidate.source), importable(self.spec.primal))

    def _script(self, stem: str, call: Call) -> str:
        sample, oracle, returns = self.trial.sample, self.trial.oracle, self.trial.oracle.returns
        names = self.spec.names
        params = self.spec.params_at(sample.sizes)
        variables = [name if _usable(name) else f"input{i}" for i, name in enumerate(names)]
        facts: dict[str, Any] = {
            "failure": self,
            "stem": stem,
            "call": call,
            "dtype": self.trial.precision.name,
            "part": self.trial.precision.part,
            "has_complex": oracle.is_complex,
            "kept": None if returns.is_plain else [i for i, flag in enumerate(returns.differentiable) if flag],
            "complex_dtype": self.trial.precision.complex_name,
            "device": self.trial.device,
            "sizes": ", ".join(f"{axis}={size}" for axis, size in sample.sizes.items()),
            "case": None if self.case is None else str(self.case.resolve()),
            "module": isinstance(self.candidate.source, torch.nn.Module),
            "candidate_from": importable(self.candidate.source),
            "primal_from": importable(self.spec.primal),
            "params": params if _plain(params.values()) else None,
            "inputs": [(variables[i], names[i]) for i in range(len(names)) if i not in sample.constants],
            "constants": [(variables[i], i) for i in sample.constants],
            "integers": [i for i, x in sample.constants.items() if x is not None and x.dtype.kind not in "fc"],
            "absent": sample.absent,
            "variables": variables,
            "call_arguments": self._call_arguments(dict(zip(names, variables, strict=True))),
        }
        facts |= self._facts_of_reference() | self._facts_of(call)
        return _templates().get_template("reproducer.py.jinja").render(facts)

    def _facts_of_reference(self) -> dict[str, Any]:
        """Return the template's facts about a kernel and its reference, if these are in files: file and name."""
        reference = self._named("reference")
        if reference is None or self._named("kernel") is None:
            return {"reference": None, "reference_module": False, "judge": "JAX", "judged_by_it": "PyTorch"}
        called = getattr(self.spec.primal, "reference", None)
        return {
            "kernel": self._named("kernel"),
            "reference": reference,
            "reference_module": isinstance(called, torch.nn.Module),
            "judge": "the reference",
            "judged_by_it": "The kernel",
        }

    def _named(self, role: str) -> tuple[str, str] | None:
        """File and name of what the origin says has this role; None for somebody else's code, which nobody may run."""
        origin = self.origin or {}
        if role not in origin or "untrusted" in origin:
            return None
        file, _, name = origin[role].rpartition(":")
        return file, name

    def _facts_of(self, call: Call) -> dict[str, Any]:
        """Return the template's facts about the map that is called."""
        oracle = self.trial.oracle
        slots = oracle.map(call.name)
        judged = [
            (
                i,
                slot.label,
                _PROJECTIONS.get(oracle.domains[slot.like].name) if slot.like in oracle.domains else None,
            )
            for i, slot in enumerate(slots.results)
            if call.name != "vjp" or call.arguments[i].requires_grad  # type: ignore[union-attr]
            if slot.like not in self.spec.detached or oracle.is_whole(call.name, slot.like)
        ]
        return {
            "arguments": list(zip(slots.arguments, call.arguments, strict=True)),
            "judged": judged,
            "results": slots.results,
            "surrogate": self.spec.surrogate is not None and call.name != "forward",
            "projections": {projection for _, _, projection in judged},
            "modes": ORDERS[call.name],
            "torch_map": _nested(oracle, call.name, call.create_graph),
            "jax_map": _nested(oracle, call.name, None),
            "strided": any(a is not None and a.memory is not None for a in call.arguments),
        }


def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "repr": repr,
        "quoted": _quoted,
        "in_a_line": in_a_line,
        "documented": _documented,
        "key": key_of,
    }
    return environment


def key_of(label: str) -> str:
    """The name of an argument's array in the file: its label, unless that is the name of the facts."""
    return f"argument.{label}" if label == FACTS else label


def _write_arrays(file: io.BytesIO, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays as `numpy.savez_compressed` does, whose names are keywords, so that none can be "file" there."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy.write_array(member, np.asarray(array), allow_pickle=False)


def _the_call(trial: Trial, check: Check, wrong: Finding) -> Call | None:
    """The one call of the candidate that shows what is wrong; None where one call does not show it.

    The check runs again, on a candidate that remembers its last call: it is the one if its result is what was judged.
    """
    if not isinstance(trial.candidate, Candidate):
        return None  # the script calls torch
    recorder = Recorder(trial.candidate)
    try:
        for finding in check.run(replace(trial, candidate=recorder)):
            if not finding.holds and finding.label == wrong.label and finding.circumstance == wrong.circumstance:
                call = recorder.last
                return call if call is not None and _shows(trial, call, finding) else None
    except KeyboardInterrupt:
        raise
    except BaseException:  # it does something else every time: no one call shows that
        return None
    return None


def _shows(trial: Trial, call: Call, wrong: Finding) -> bool:
    truths = trial.truth(call.name, [None if a is None else a.values for a in call.arguments])
    if len(call.results) != len(truths):
        return False
    for truth, result in zip(truths, call.results, strict=True):
        if truth.label == wrong.label:
            again = list(trial.compare_result(call.name, truth, result))
            return all(_same(finding, wrong) for finding in again)
    return False


def _same(one: Finding, other: Finding) -> bool:
    if not isinstance(one, Comparison) or not isinstance(other, Comparison):
        return type(one) is type(other) and one.violation == other.violation  # type: ignore[union-attr]
    return np.array_equal(one.candidate, other.candidate, True) and np.array_equal(one.oracle, other.oracle, True)


def _nested(oracle: Any, name: str, create_graph: bool | None) -> str:
    """The map as an expression: vjp(vjp(operator, 3, create_graph=True), 5)."""
    text, order = "operator", ORDERS[name]
    for i, mode in enumerate(order):
        inner = next(other for other, o in ORDERS.items() if o == order[: i + 1])
        recorded = ", create_graph=True" if mode == "vjp" and i + 1 < len(order) and create_graph else ""
        text = f"{mode}({text}, {oracle.map(inner).base}{recorded})"
    return text


def importable(call: Callable) -> tuple[str, str] | None:
    """The module and the name in it by which a script can import a callable; None if there are none."""
    owner = getattr(call, "__self__", None)
    name = getattr(call, "__qualname__", None)
    if isinstance(owner, type) and name is not None:  # a Function's apply
        module, name = owner.__module__, f"{owner.__qualname__}.{name.rsplit('.', 1)[-1]}"
    else:
        module = getattr(call, "__module__", None)
    if not module or not name or module in ("__main__", "__mp_main__"):  # the second in a process that judges
        return None
    package = module.partition(".")[0]
    if not any(finder.find_spec(package, None) for finder in sys.meta_path):  # it was run as a file, by its path
        return None
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return None
    return (module, name) if found == call else None


def _in_a_path(word: str) -> str:
    """A part of a file's name that every file system accepts, and that is not too long."""
    return re.sub(r"\W+", "_", word, flags=re.ASCII)[:40]


def _quoted(text: str) -> str:
    """A text as a literal of Python."""
    return json.dumps(text, ensure_ascii=False)


def _documented(text: str) -> str:
    """A text as a line of a docstring, with what would end the docstring escaped."""
    return in_a_line(text).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')


def _usable(name: str) -> bool:
    taken = ("data", "jax", "jnp", "np", "torch", "candidate", "primal", "params", "operator", "case", "spec", "sys")
    return name.isidentifier() and not keyword.iskeyword(name) and name not in taken


def _plain(values: Iterable[object] | Sequence[object]) -> bool:
    return all(
        isinstance(x, bool | int | float | str | None) or (isinstance(x, tuple | list) and _plain(x)) for x in values
    )
