"""The programs of a map, the oracle's and the candidate's, in JAX's primitives.

A trace of a candidate is not the candidate: it counts only if it computes the candidate's own numbers, bit for bit, at
the arguments and near them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from torch.fx import GraphModule

from parity_tests.conversion.cannot_convert import CannotConvert
from parity_tests.harness.candidates.array_candidate import ArrayCandidate
from parity_tests.harness.candidates.array_programs import TAKES_NUMBERS, Recording, Traced
from parity_tests.harness.candidates.jax_candidate import JaxCandidate
from parity_tests.harness.candidates.jax_programs import Programs
from parity_tests.harness.candidates.torch_candidate import Refused
from parity_tests.harness.candidates.triton_launches import functions_of_launches, launches_as_operators
from parity_tests.harness.exceptions.errors import first_line
from parity_tests.harness.numbers import conversion
from parity_tests.harness.primitives.field.numbers import Unmodelled
from parity_tests.harness.specs.graph_in_jax import in_jax, traced
from parity_tests.harness.trial.numbers_read import no_numbers_read, none_called
from parity_tests.harness.trial.trial import Trial

_ASKED = [  # a tracer for its numbers
    jax.errors.ConcretizationTypeError.__init__,
    jax.errors.NonConcreteBooleanIndexError.__init__,
    jax.errors.TracerArrayConversionError.__init__,
    jax.errors.TracerBoolConversionError.__init__,
    jax.errors.TracerIntegerConversionError.__init__,
]
_NEAR = 2.0**-6  # relative: how far other numbers are at which a trace must be the candidate


def of_oracle(trial: Trial, name: str, args: Sequence[np.ndarray]) -> ClosedJaxpr:
    """JAX's own derivative of the oracle's primal; a gradient that it leaves out is one of zeros."""
    closed, zero = trial.oracle.traced(name, args, by_autodiff=trial.oracle.spec.surrogate is None)
    shapes, slots = trial.oracle.shapes(trial.sample.shapes), trial.oracle.map(name).results

    def every_result(*arrays: jax.Array) -> list[jax.Array]:
        rest = iter(jaxpr_as_fun(closed)(*arrays))
        return [jnp.zeros(shapes[slot.like]) if z else next(rest) for slot, z in zip(slots, zero, strict=True)]

    return jax.make_jaxpr(every_result)(*args)


def of_candidate(trial: Trial, name: str, args: Sequence[np.ndarray]) -> ClosedJaxpr:
    """The candidate's program, which computes the candidate's own numbers, bit for bit, here and near here.

    Raises:
        CannotConvert: there is none in JAX's primitives.
        Unmodelled: it computes other numbers than the candidate.
        Refused: the candidate does not have the map.
    """
    if isinstance(trial.candidate, JaxCandidate):
        return _of_jax(trial, trial.candidate, name, args)
    if isinstance(trial.candidate, ArrayCandidate):
        return _of_numpy(trial, trial.candidate, name, args)
    return _of_torch(trial, name, args)


class _Recording(Programs):
    """Keeps the program that was run last; none of a function that JAX cannot trace, or that has effects."""

    def __init__(self) -> None:
        super().__init__(traces=0)  # a function that is no function shows itself only when it is traced again
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
    with none_called(_ASKED, "it asks JAX's tracers for their numbers"):
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
            with none_called([Traced.number], TAKES_NUMBERS):
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
    check_numbers(trial, name, args, first)
    check_numbers(trial, name, near, first)
    return first


def _of_torch(trial: Trial, name: str, args: Sequence[np.ndarray]) -> ClosedJaxpr:
    shapes, slots = trial.oracle.shapes(trial.sample.shapes), trial.oracle.map(name).results
    dtype = getattr(torch, trial.precision.name)

    def every_result(*tensors: torch.Tensor) -> list[torch.Tensor]:
        results = trial.evaluate_at(name, tensors)
        return [
            torch.zeros(shapes[slot.like], dtype=dtype) if y is None else y
            for slot, y in zip(slots, results, strict=True)
        ]

    def reads_nothing(*tensors: torch.Tensor) -> list[torch.Tensor]:
        with no_numbers_read():
            return every_result(*tensors)

    def check(program: GraphModule, at: Sequence[np.ndarray]) -> None:
        pairs = zip(every_result(*trial.tensors(at)), program(*trial.tensors(at)), strict=True)
        if not all(torch.allclose(x, y, rtol=0, atol=0, equal_nan=True) for x, y in pairs):
            raise Unmodelled("PyTorch's trace of it computes other numbers, in the last digits at least")

    def near(code: str) -> list[np.ndarray]:
        return [trial.precision.rounded(x) for x in _near(args, code)]

    with _reading("PyTorch"):
        with launches_as_operators() as launches:
            program = traced(every_result, trial.tensors(args))
            traced(reads_nothing, trial.tensors(args))
        for at in (args, near(program.code)):
            check(program, at)
        in_primitives = in_jax(program, trial.tensors(args), functions_of_launches)
        for at in (args, near(str(in_primitives))) if launches else ():
            check(program, at)
            check_numbers(trial, name, at, in_primitives)
        return in_primitives


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


def check_numbers(trial: Trial, name: str, args: Sequence[np.ndarray], program: ClosedJaxpr) -> None:
    """Raise Unmodelled if a program's results are beyond the bounds, in which the candidate's own are."""
    results = trial.tensors([np.asarray(y, float) for y in jaxpr_as_fun(program)(*args)])
    if not all(finding.holds for finding in trial.compare(name, args, results)):
        raise Unmodelled("its operators in JAX compute other numbers than it does")
