"""The kill matrix: mutants of the oracle's own derivatives as candidates, and the check that kills each."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import jax
import jax.numpy as jnp

from parity_tests.harness.candidates.jax_candidate import JaxCandidate
from parity_tests.harness.candidates.jax_programs import Programs
from parity_tests.harness.candidates.torch_candidate import Refused
from parity_tests.harness.checks import Check
from parity_tests.harness.findings import NotApplicable
from parity_tests.harness.judging.certified import why_not_judged
from parity_tests.harness.maps import BASES
from parity_tests.harness.mutation.mutate import Mutation, mutated, mutations
from parity_tests.harness.numbers import conversion
from parity_tests.harness.numbers.formats import PRECISIONS, Precision
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.oracle import Oracle, OracleError
from parity_tests.harness.primitives.missing import NoRule, NotFloat64
from parity_tests.harness.specs.samples import Sample, samples
from parity_tests.harness.specs.spec import OpSpec
from parity_tests.harness.trial.trial import Trial

_OTHER_SEED = 1000  # away, so that a mutant is not called equivalent by the very inputs that did not kill it
_SCALES = (1.0, 2.0**10, 2.0**-10)


class Fate(StrEnum):
    """The fate of a mutant under the checks."""

    KILLED = "killed"
    SURVIVED = "survived"
    EQUIVALENT = "equivalent"
    BROKEN = "broken"  # it raises what no check expects, so that nothing is said of it


@dataclass(frozen=True)
class Outcome:
    """A mutant's fate; if it was killed, the first check that did, and on which sample; if it is broken, the reason."""

    mutation: Mutation
    fate: Fate
    check: str = ""
    sample: str = ""
    reason: str = ""


class KillMatrix:
    """The mutants of a spec's VJP and JVP, to be judged one by one.

    Raises:
        OracleError: the spec's primal cannot judge.
        rounding.NoRule: nor can its values be bounded.
        ValueError: it is not for float64.
    """

    def __init__(self, spec: OpSpec, checks: Sequence[Check], seed: int = 0) -> None:
        if "float64" not in spec.formats:
            raise ValueError(f"{spec.name}: mutants are judged in float64, its dtypes are {', '.join(spec.formats)}")
        self.spec = spec
        self.checks = [check for check in checks if not check.inapplicable_to("jax") and not check.only_short]
        self._sound: dict[tuple, bool] = {}
        self._programs = Programs()  # shared by all mutants, which differ in one operation
        with pinned():
            cases = list(samples(spec, seed))
            self.oracle = Oracle(spec, cases[0])
            self.cases = [case for case in cases if why_not_judged(self.oracle, case) is None]
            self.mutations = [mutation for name in ("vjp", "jvp") for mutation in self._mutations(name)]

    def _mutations(self, name: str) -> Iterator[Mutation]:
        oracle = self.oracle.at(self.cases[0])
        shapes = oracle.shapes(self.cases[0].shapes)
        args = [jax.ShapeDtypeStruct(shapes[slot.like], jnp.float64) for slot in oracle.map(name).arguments]
        yield from mutations(oracle.map(name), _dense(oracle, name), *args)

    def outcomes(self) -> Iterator[Outcome]:
        """Every mutant's fate, as soon as it is known.

        Raises:
            rounding.NoRule, rounding.NotFloat64, OracleError: the oracle cannot judge.
        """
        for mutation in self.mutations:
            try:
                with pinned():
                    outcome = self._outcome(mutation)
            except (NoRule, NotFloat64, OracleError):  # of the oracle
                raise
            except Exception as error:
                outcome = Outcome(mutation, Fate.BROKEN, reason=f"{type(error).__name__}: {error}".splitlines()[0])
            yield outcome

    def _outcome(self, mutation: Mutation) -> Outcome:
        if not self._differs(mutation):
            return Outcome(mutation, Fate.EQUIVALENT)
        for check in self.checks:
            for sample in check.chosen(self.cases):
                if not self._holds(check, mutation, sample) and self._is_sound(check, mutation, sample):
                    return Outcome(mutation, Fate.KILLED, check.name, sample.name)
        return Outcome(mutation, Fate.SURVIVED)

    def _holds(self, check: Check, mutation: Mutation, sample: Sample, planted: bool = True) -> bool:
        """True if a mutant passes a check on a sample, or JAX cannot run the check for it."""
        trial = self._trial(mutation, sample, planted)
        try:
            return all(finding.holds for finding in check.run(trial))
        except (Refused, NotApplicable):
            return True

    def _is_sound(self, check: Check, mutation: Mutation, sample: Sample) -> bool:
        """True if the derivative passes without the mutation: a check that fails it otherwise has caught nothing."""
        key = (check.name, mutation.map, mutation.dtype, sample.name)
        if key not in self._sound:
            self._sound[key] = self._holds(check, mutation, sample, planted=False)
        return self._sound[key]

    def _differs(self, mutation: Mutation) -> bool:
        """True if a mutant is another function, in first or second order, at inputs where it is not judged."""
        for case in self.cases:
            sample = replace(case, seed=case.seed + _OTHER_SEED)
            trial = self._trial(mutation, sample)
            for name in (mutation.map, *(other for other in BASES if BASES[other] == mutation.map)):
                if name != mutation.map and sample.first_order_only:
                    continue
                for scale in _SCALES if sample.generic and name == mutation.map else (1.0,):
                    args, count = trial.arguments(name), len(trial.primals)
                    args = [*args[:count], *(scale * x for x in args[count:])]
                    try:
                        findings = list(trial.compare(name, args, trial.evaluate(name, args)))
                    except Refused:
                        continue
                    if not all(finding.holds for finding in findings):
                        return True
        return False

    def _trial(self, mutation: Mutation, sample: Sample, planted: bool = True) -> Trial:
        oracle, precision = self.oracle.at(sample), PRECISIONS[mutation.dtype]
        call = _with_derivative(_in(oracle, precision), mutation, planted)
        return Trial(JaxCandidate(call, "mutant", programs=self._programs), oracle, sample, precision, "cpu")


def _in(oracle: Oracle, precision: Precision) -> Oracle:
    """The oracle's functions as a candidate's: with the constants in the format."""
    own = copy.copy(oracle)
    constants = conversion.constants(oracle.constants, precision, "cpu")
    own.constants = {i: None if x is None else conversion.to_jax(x) for i, x in constants.items()}
    return own


def _dense(oracle: Oracle, name: str) -> Callable:
    """The formula that judges, with an array for each result."""
    formula, slots = oracle.formula(name), oracle.map(name).results

    def dense(*args: jax.Array) -> list[jax.Array]:
        shapes = oracle.shapes(tuple(x.shape for x in args[: len(oracle.inputs)]))
        results = zip(formula(*args), slots, strict=True)
        return [jnp.zeros(shapes[slot.like], args[0].dtype) if y is None else y for y, slot in results]

    return dense


def _with_derivative(oracle: Oracle, mutation: Mutation, planted: bool) -> Callable:
    """The oracle's primal, with its own VJP or JVP for a rule, in which the mutation may be planted."""
    derivative = mutated(_dense(oracle, mutation.map), mutation if planted else None)
    if mutation.map == "jvp":
        primal = jax.custom_jvp(oracle.primal)
        primal.defjvp(lambda x, x_dot: (primal(*x), tuple(derivative(*x, *x_dot))))
        return primal
    primal = jax.custom_vjp(oracle.primal)
    primal.defvjp(lambda *x: (oracle.primal(*x), x), lambda x, y_bar: tuple(derivative(*x, *y_bar)))
    return primal
