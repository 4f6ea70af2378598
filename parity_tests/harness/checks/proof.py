"""proof: the candidate's program is the oracle's formula, entry by entry and without rounding, at one shape.

Both programs are run in hundreds of digits and at random points of finite fields, see `harness.proof`. A difference is
told, and accuses only: other checks judge by numbers. So does this one first, since a trace of a candidate is not the
candidate: memory that NumPy or another thread has written to is in none. Nor is anything proved of a trace that
computes other numbers than the candidate, by a single bit.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from parity_tests.harness.candidates.array_candidate import ArrayCandidate
from parity_tests.harness.candidates.array_programs import Recording
from parity_tests.harness.candidates.jax_candidate import JaxCandidate
from parity_tests.harness.candidates.jax_programs import Programs
from parity_tests.harness.candidates.torch_candidate import Refused
from parity_tests.harness.candidates.torch_refusals import BackwardOnly
from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.conversion import CannotConvert
from parity_tests.harness.exceptions.errors import first_line
from parity_tests.harness.findings import Comparison, Finding, NotApplicable, Proof
from parity_tests.harness.numbers import conversion
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.primitives.field.constants import Constant
from parity_tests.harness.primitives.field.numbers import Unmodelled
from parity_tests.harness.proof.proof import POINTS, Sameness, sameness
from parity_tests.harness.specs.graph_in_jax import in_jax, traced
from parity_tests.harness.trial.integers import integer_outputs
from parity_tests.harness.trial.trial import Trial

_FIRST_ORDER = ("forward", "vjp", "jvp")  # without which nothing is proved
_EXAMPLES = 2
_NEAR = 2.0**-6  # relative: how far other numbers are at which a trace must be the candidate
_MAPS = (*_FIRST_ORDER, "vjp_of_vjp", "jvp_of_vjp")


def _run(trial: Trial) -> Iterator[Finding]:
    _check_applies(trial)
    wrong, refused = _wrong(trial)
    compared = [] if wrong else [*_compared(trial, refused)]
    yield from wrong
    first_order = [each for each in compared if each.name in _FIRST_ORDER]
    unknown = next((each for each in first_order if isinstance(each.found, str) and not each.refused), None)
    if unknown is not None and not any(each.differs for each in compared):
        raise NotApplicable(f"{unknown.name} {unknown.found}")
    yield from _told(trial, compared)


def _wrong(trial: Trial) -> tuple[list[Finding], set[str]]:
    """The candidate's own results that its program could not make right; and the maps that it refuses."""
    wrong, refused = list[Finding](), set[str]()
    for name, example in itertools.product(_MAPS, range(_EXAMPLES)):
        args = trial.arguments(name, example)
        try:
            results = trial.evaluate(name, args)
        except Refused as refusal:
            if name == "vjp" and isinstance(refusal, BackwardOnly):
                raise  # the check runs again, by `.backward()`
            refused.add(name)
            continue
        for f in trial.compare(name, args, results, f"example {example}"):
            if not f.holds:
                wrong.append(replace(f, call=(name, args)) if isinstance(f, Comparison) else f)
    wrong += [f for f in integer_outputs(trial) if not f.holds]
    return wrong, refused


def _check_applies(trial: Trial) -> None:
    """Raise NotApplicable where a proof would not be one of all that the row names."""
    if trial.candidate.framework not in ("torch", "jax", "NumPy"):
        raise NotApplicable(f"a candidate in {trial.candidate.framework} has no program that is read")
    if trial.precision is not FLOAT64:
        raise NotApplicable("programs are compared in float64: --dtype float64, or dtypes=['float64']")
    partial = [name for name, domain in trial.oracle.domains.items() if domain.project_errors is not None]
    if partial:
        raise NotApplicable(f"derivatives by {partial[0]} are compared in some directions only, and programs in all")


@dataclass(frozen=True)
class _Compared:
    """A map's two programs: their comparison, or why there is none; `refused`: the candidate does not have the map."""

    name: str
    found: Sameness | str
    refused: bool = False

    @property
    def differs(self) -> bool:
        return isinstance(self.found, Sameness) and not self.found.proved


def _compared(trial: Trial, refused: Collection[str]) -> Iterator[_Compared]:
    """Each map, up to the first one that differs: those above it differ for the same reason."""
    for name in _MAPS:
        each = _Compared(name, _sameness(trial, name), refused=name in refused and name not in ("forward", "vjp"))
        yield each
        if each.differs:
            return


def _sameness(trial: Trial, name: str) -> Sameness | str:
    """The difference between a map's programs, at both examples; or why there is none."""
    constants: dict[float, Constant] = {}
    try:
        for example in range(_EXAMPLES):
            args = trial.arguments(name, example)
            program = _of_candidate(trial, name, args)
            found = sameness(_of_oracle(trial, name, args), program, args, trial.sample.seed)
            constants |= found.read_as
            if not found.proved:
                _check_directions(trial, name, found)
                _check_numbers(trial, name, args, program)
                break
    except Refused as error:
        return f"is refused: {first_line(error)}"
    except (Unmodelled, CannotConvert) as error:
        return f"cannot be told: {first_line(error)}"
    return replace(found, read_as=constants)


def _check_directions(trial: Trial, name: str, found: Sameness) -> None:
    """Raise Unmodelled if a gradient differs that has a meaning in some directions only, as of one triangle."""
    for slot, differs in zip(trial.oracle.map(name).results, found.differs, strict=True):
        arbitrary = np.random.default_rng(0).standard_normal(differs.shape)
        if differs.any() and not np.array_equal(trial.oracle.directed(slot.like, arbitrary), arbitrary):
            raise Unmodelled(f"{slot.label} is compared in some directions only, and programs in all")


def _check_numbers(trial: Trial, name: str, args: Sequence[np.ndarray], program: ClosedJaxpr) -> None:
    """Raise Unmodelled if a program's results are beyond the bounds, in which the candidate's own are."""
    results = [torch.from_numpy(np.array(y)) for y in jaxpr_as_fun(program)(*args)]
    if not all(finding.holds for finding in trial.compare(name, args, results)):
        raise Unmodelled("its operators in JAX compute other numbers than it does")


def _told(trial: Trial, compared: Sequence[_Compared]) -> Iterator[Proof]:
    proved = [each for each in compared if isinstance(each.found, Sameness) and each.found.proved]
    if proved:
        constants = {x: c for each in proved if isinstance(each.found, Sameness) for x, c in each.found.read_as.items()}
        read = "".join(f"; {x!r} is taken for {constant}" for x, constant in sorted(constants.items()))
        text = (
            f"the oracle's formula {_where(trial)}: the programs agree at random points of {POINTS} finite "
            f"fields{read}{_integers(trial)}; rounding is judged by the other checks"
        )
        yield Proof(", ".join(each.name for each in proved), f"proved to be {text}", True)
    for each in compared:
        if each.differs and isinstance(each.found, Sameness):
            yield Proof(each.name, _difference(trial, each.name, each.found), False)
        elif isinstance(each.found, str):
            yield Proof(each.name, each.found, None)


def _integers(trial: Trial) -> str:
    """Say what is compared by numbers alone."""
    names = trial.oracle.integers
    return f"; {' and '.join(names)} {'is' if len(names) == 1 else 'are'} compared at one sample" if names else ""


def _where(trial: Trial) -> str:
    """Say at which sizes, branches, integers and inputs."""
    sizes = ", ".join(f"{axis} = {size}" for axis, size in trial.sample.sizes.items())
    where = f"at {sizes or 'the given shapes'}, on the branches of {_EXAMPLES} samples"
    where += " and at their integers" if any(not d.differentiable for d in trial.oracle.spec.drawn_from) else ""
    return where + (", with every optional input" if trial.oracle.spec.optional else "")


def _difference(trial: Trial, name: str, found: Sameness) -> str:
    entries = [
        f"{int(differs.sum())} of {differs.size} entries of {slot.label}"
        for slot, differs in zip(trial.oracle.map(name).results, found.differs, strict=True)
        if differs.any()
    ]
    return (
        f"differs {_where(trial)} from the oracle's formula in {' and '.join(entries)}: in 300 digits, which float64 "
        "may not show; the other checks judge it by numbers"
    )


def _of_oracle(trial: Trial, name: str, args: Sequence[np.ndarray]) -> ClosedJaxpr:
    """JAX's own derivative of the primal; a gradient that it leaves out is one of zeros."""
    closed, zero = trial.oracle.traced(name, args, by_autodiff=trial.oracle.spec.surrogate is None)
    shapes, slots = trial.oracle.shapes(trial.sample.shapes), trial.oracle.map(name).results

    def every_result(*arrays: jax.Array) -> list[jax.Array]:
        rest = iter(jaxpr_as_fun(closed)(*arrays))
        return [jnp.zeros(shapes[slot.like]) if z else next(rest) for slot, z in zip(slots, zero, strict=True)]

    return jax.make_jaxpr(every_result)(*args)


def _of_candidate(trial: Trial, name: str, args: Sequence[np.ndarray]) -> ClosedJaxpr:
    """The candidate's program, if it computes the candidate's own numbers, bit for bit, here and near here."""
    if isinstance(trial.candidate, JaxCandidate):
        return _of_jax(trial, trial.candidate, name, args)
    if isinstance(trial.candidate, ArrayCandidate):
        return _of_numpy(trial, trial.candidate, name, args)
    return _of_torch(trial, name, args)


class _Recording(Programs):
    """Keeps the program that was run last; none of a function that JAX cannot trace, or that has effects."""

    def __init__(self) -> None:
        super().__init__()
        self.last: ClosedJaxpr | None = None

    def run(self, f: Callable, *args: jax.Array) -> Any:
        self.last = None
        return super().run(f, *args)

    def run_closed(self, closed: ClosedJaxpr, args: Sequence[jax.Array]) -> list[Any]:
        self.last = closed
        return super().run_closed(closed, args)


def _of_jax(trial: Trial, candidate: JaxCandidate, name: str, args: Sequence[np.ndarray]) -> ClosedJaxpr:
    programs = _Recording()
    recorded = replace(trial, candidate=replace(candidate, programs=programs))
    recorded.evaluate(name, args)
    first = programs.last
    if first is None:
        raise CannotConvert("JAX cannot trace it without its values, or it has effects")
    for at in (args, _near(args, str(first))):
        own = [conversion.to_numpy(x) for x in recorded.evaluate(name, at) if x is not None]
        read = map(np.asarray, programs.run_closed(first, [jnp.asarray(x) for x in at]))
        if not all(np.array_equal(x, y, equal_nan=True) for x, y in zip(own, read, strict=True)):
            raise Unmodelled("JAX's trace of it computes other numbers, as of a function that is no function")
    return first


def _of_numpy(trial: Trial, candidate: ArrayCandidate, name: str, args: Sequence[np.ndarray]) -> ClosedJaxpr:
    """The operations of a formula. JAX's kernels are not NumPy's, so they compute the same but for rounding."""
    if candidate.returns is not None:
        raise CannotConvert("its outputs have a structure of their own")
    shapes, slots = trial.oracle.shapes(trial.sample.shapes), trial.oracle.map(name).results

    def program(at: Sequence[np.ndarray]) -> ClosedJaxpr:
        def every_result(*tracers: jax.Array) -> list[jax.Array]:
            recording = Recording(tracers)
            recorded = replace(trial, candidate=candidate.recorded(recording)).evaluate(name, at)
            for x, y in zip(recorded, trial.evaluate(name, at), strict=True):
                if x is not y if x is None or y is None else not torch.equal(x, y):
                    raise Unmodelled("the operations that are read compute other numbers, as of an array with views")
            return [
                jnp.zeros(shapes[slot.like]) if y is None else y
                for slot, y in zip(slots, recording.results, strict=True)
            ]

        return jax.make_jaxpr(every_result)(*at)

    with _reading("NumPy"):
        first = program(args)
        near = _near(args, str(first))
        if str(program(near)) != str(first):
            raise CannotConvert("what it computes follows from its numbers")
    _check_numbers(trial, name, args, first)
    _check_numbers(trial, name, near, first)
    return first


def _of_torch(trial: Trial, name: str, args: Sequence[np.ndarray]) -> ClosedJaxpr:
    shapes, slots = trial.oracle.shapes(trial.sample.shapes), trial.oracle.map(name).results

    def every_result(*tensors: torch.Tensor) -> list[torch.Tensor]:
        results = trial.evaluate_at(name, tensors)
        return [
            torch.zeros(shapes[slot.like], dtype=torch.float64) if y is None else y
            for slot, y in zip(slots, results, strict=True)
        ]

    with _reading("PyTorch"):
        program = traced(every_result, trial.tensors(args))
        for at in (args, _near(args, program.code)):
            pairs = zip(every_result(*trial.tensors(at)), program(*trial.tensors(at)), strict=True)
            if not all(torch.allclose(x, y, rtol=0, atol=0, equal_nan=True) for x, y in pairs):
                raise Unmodelled("PyTorch's trace of it computes other numbers, as of memory that is replaced")
        return in_jax(program, trial.tensors(args))


@contextmanager
def _reading(framework: str) -> Iterator[None]:
    """Let an error of a trace say that there is none: where the candidate itself raises, other checks say so."""
    try:
        yield
    except (Refused, CannotConvert, Unmodelled):
        raise
    except Exception as error:
        raise CannotConvert(f"{framework} cannot trace it: {type(error).__name__}: {first_line(error)}") from error


def _near(args: Sequence[np.ndarray], code: str) -> list[np.ndarray]:
    """Somewhat smaller numbers, which follow from a program: it cannot know them."""
    rng = np.random.default_rng(list(hashlib.sha256(code.encode()).digest()))
    return [x * (1 - _NEAR * rng.random(x.shape)) if x.dtype.kind == "f" else x for x in args]


CHECK = Check(
    "proof",
    "a formula that is not the oracle's, by however little: a term of 1e-40, a factor of 1 - 2^-60",
    ("vjp",),
    _run,
    generic=True,
    one_dtype=True,
    on_request=True,
    real_only="fields have no complex numbers",
)
