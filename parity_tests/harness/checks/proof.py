"""proof: the candidate's program is the oracle's formula, entry by entry and without rounding, at one shape.

Both programs are run in hundreds of digits and at random points of finite fields, see `harness.proof`. A difference is
told, and inputs are looked for that show it by numbers, which alone are a MISMATCH. The candidate's own numbers are
judged first, too, since a trace of a candidate is not the candidate: memory that NumPy or another thread has written to
is in none. Nor is anything proved of a trace that computes other numbers than the candidate, by a single bit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from jax.extend.core import ClosedJaxpr

from parity_tests.conversion.cannot_convert import CannotConvert
from parity_tests.harness.candidates.torch_candidate import Refused
from parity_tests.harness.candidates.torch_refusals import BackwardOnly
from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import first_line
from parity_tests.harness.findings import Comparison, Finding, NotApplicable, Proof
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.primitives.field.constants import Constant
from parity_tests.harness.primitives.field.numbers import Unmodelled
from parity_tests.harness.proof.branches import check_branches
from parity_tests.harness.proof.proof import POINTS, Sameness, sameness
from parity_tests.harness.specs.domains import EmptyDomain
from parity_tests.harness.specs.samples import at_sizes
from parity_tests.harness.trial.integers import integer_outputs
from parity_tests.harness.trial.programs import check_numbers, of_candidate, of_oracle
from parity_tests.harness.trial.shown import shown
from parity_tests.harness.trial.trial import Trial

_FIRST_ORDER = ("forward", "vjp", "jvp")  # without which nothing is proved
_EXAMPLES = 2
_STEPS = (-1, 1, 2, -2, 3, 4, 5)  # from a size to another one
_MOST_AXES = 4  # of which sums and products are looked at
_MAPS = (*_FIRST_ORDER, "vjp_of_vjp", "jvp_of_vjp")


def _run(trial: Trial) -> Iterator[Finding]:
    _check_applies(trial)
    wrong, refused = _wrong(trial)
    untraced = replace(trial, candidate=trial.candidate.untraced)
    if not wrong and untraced.candidate is not trial.candidate:
        wrong, _ = _wrong(untraced)
    compared = [] if wrong else [*_compared(trial, refused)]
    yield from wrong
    first_order = [each for each in compared if each.name in _FIRST_ORDER]
    unknown = next((each for each in first_order if isinstance(each.found, str) and not each.refused), None)
    if unknown is not None and not any(each.differs for each in compared):
        raise NotApplicable(f"{unknown.name} {unknown.found}")
    for i, each in enumerate(compared):
        found = [*shown(trial, each.name, each.args, each.programs)] if each.differs else []
        compared[i] = replace(each, shown=bool(found))
        yield from found
    elsewhere = [] if any(each.differs for each in compared) else [*_at_other_sizes(trial, compared)]
    yield from _told(trial, compared, _also(compared, elsewhere))
    for other, there in elsewhere:
        yield from _told(other, [each for each in there if not each.proved])


def _at_other_sizes(trial: Trial, compared: Sequence[_Compared]) -> Iterator[tuple[Trial, Sequence[_Compared]]]:
    """Compare what is proved at other sizes, too."""
    spec, sample = trial.oracle.spec, trial.sample
    names = [each.name for each in compared if each.proved]
    if spec.parsed is None or trial.elsewhere is None or not sample.sizes or not names:
        return
    for sizes in _other_sizes(sample.sizes):
        with suppress(EmptyDomain):
            other = trial.elsewhere(at_sizes(spec, sample, sizes))
            wrong, refused = _wrong(other)
            off = f"has other numbers than the oracle {_where(other)}; the other checks judge them"
            maps = [f.call[0] for f in wrong if isinstance(f, Comparison) and f.call is not None]
            there = [_Compared(n, off, off=True) for n in dict.fromkeys(maps or names)] if wrong else None
            yield other, [each for each in there or _compared(other, refused) if each.name in names]
            return


def _other_sizes(sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Yield other sizes of the axes, with other sums, products and so on; all larger; or that of one axis alone."""
    few = _STEPS if len(sizes) <= _MOST_AXES else _STEPS[:3]  # or there would be millions of choices
    nearest = sorted(itertools.product(few, repeat=len(sizes)), key=lambda steps: sum(map(abs, steps)))
    for combined in (lambda of: (*_combined(of), *_less_often(of)), _combined):
        told = [*combined(sizes)]
        for steps in nearest:
            other = {axis: n + step for (axis, n), step in zip(sizes.items(), steps, strict=True)}
            as_many = len({*other.values()}) == len({*sizes.values()})
            if min(other.values()) > 1 and as_many and all(map(_differ, told, combined(other))):
                yield other
                break
    yield {axis: n + 1 for axis, n in sizes.items()}
    yield {axis: 2 * n for axis, n in sizes.items()}
    for axis, n in sizes.items():
        yield from ({**sizes, axis: other} for other in (n - 1, n + 1, 2 * n) if other > 1)


def _combined(sizes: Mapping[str, int]) -> Iterator[tuple[float, float]]:
    """Sums and products of some axes, differences and ratios of two: a program may have one written out."""
    for count in range(1, min(len(sizes), _MOST_AXES) + 1):
        for some in itertools.combinations(sizes.values(), count):
            yield sum(some), math.prod(some)
    for one, other in itertools.permutations(sizes.values(), 2):
        yield one - other, one / other


def _less_often(sizes: Mapping[str, int]) -> Iterator[tuple[float, float]]:
    """Halves, and the smaller, the larger and twice one of two: more than few axes have room for."""
    yield from ((n // 2, (n + 1) // 2) for n in sizes.values())
    for one, other in itertools.permutations(sizes.values(), 2):
        yield min(one, other), max(one, other)
        yield 2 * one + other, 2 * one - other


def _differ(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] != other[0] and one[1] != other[1]


def _also(compared: Sequence[_Compared], elsewhere: Sequence[tuple[Trial, Sequence[_Compared]]]) -> str:
    """Say at which other sizes all that is proved is proved as well."""
    for other, there in elsewhere:
        here = {each.name: each.operations for each in compared if each.proved}
        if all(each.proved for each in there) and len(there) == len(here):
            same = all(each.operations == here[each.name] for each in there)
            return f" and {_sizes(other)} ({'the same' if same else 'other'} operations)"
    return ""


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
    if trial.candidate.framework != "torch" and trial.precision is not FLOAT64:
        raise NotApplicable("of such a candidate float64's program is read: --dtype float64, or dtypes=['float64']")
    partial = [name for name, domain in trial.oracle.domains.items() if domain.project_errors is not None]
    if partial:
        raise NotApplicable(f"derivatives by {partial[0]} are compared in some directions only, and programs in all")


@dataclass(frozen=True)
class _Compared:
    """A map's two programs: their comparison, or why there is none.

    Attributes:
        name: the map's.
        found: the comparison, or the reason.
        programs: the oracle's and the candidate's that were compared last, at `args`.
        refused: True if the candidate does not have the map.
        off: True if the candidate's own numbers are beyond their bounds.
        shown: True if they are at inputs that were looked for.
    """

    name: str
    found: Sameness | str
    programs: tuple[ClosedJaxpr, ...] = ()
    args: Sequence[np.ndarray] = ()
    refused: bool = False
    off: bool = False
    shown: bool = False

    @property
    def differs(self) -> bool:
        return isinstance(self.found, Sameness) and not self.found.proved

    @property
    def proved(self) -> bool:
        return isinstance(self.found, Sameness) and self.found.proved

    @property
    def operations(self) -> list[str]:
        """The candidate's, in their order."""
        return [step.primitive.name for program in self.programs[1:] for step in program.jaxpr.eqns]


def _compared(trial: Trial, refused: Collection[str]) -> Iterator[_Compared]:
    """Each map, up to the first one that differs: those above it differ for the same reason."""
    for name in _MAPS:
        each = replace(_sameness(trial, name), refused=name in refused and name not in ("forward", "vjp"))
        yield each
        if each.differs:
            return


def _sameness(trial: Trial, name: str) -> _Compared:
    """The difference between a map's programs, at both examples; or why there is none."""
    constants: dict[float, Constant] = {}
    try:
        for example in range(_EXAMPLES):
            args, generic = (each.arguments(name, example) for each in (trial, trial.widened()))
            programs = of_oracle(trial, name, generic), of_candidate(trial, name, args)
            check_branches(programs[1], generic, trial.precision)
            found = sameness(*programs, generic, trial.sample.seed)
            constants |= found.read_as
            if not found.proved:
                _check_directions(trial, name, found)
                check_numbers(trial, name, args, programs[1])
                break
    except Refused as error:
        return _Compared(name, f"is refused: {first_line(error)}")
    except (Unmodelled, CannotConvert) as error:
        return _Compared(name, f"cannot be told: {first_line(error)}")
    return _Compared(name, replace(found, read_as=constants), programs, args)


def _check_directions(trial: Trial, name: str, found: Sameness) -> None:
    """Raise Unmodelled if a gradient differs that has a meaning in some directions only, as of one triangle."""
    for slot, differs in zip(trial.oracle.map(name).results, found.differs, strict=True):
        arbitrary = np.random.default_rng(0).standard_normal(differs.shape)
        if differs.any() and not np.array_equal(trial.oracle.directed(slot.like, arbitrary), arbitrary):
            raise Unmodelled(f"{slot.label} is compared in some directions only, and programs in all")


def _told(trial: Trial, compared: Sequence[_Compared], also: str = "") -> Iterator[Proof]:
    """Say of each map how it compares. `also`: further sizes at which all that is proved is proved."""
    proved = [each for each in compared if isinstance(each.found, Sameness) and each.found.proved]
    if proved:
        constants = {x: c for each in proved if isinstance(each.found, Sameness) for x, c in each.found.read_as.items()}
        read = "".join(f"; {x!r} is taken for {constant}" for x, constant in sorted(constants.items()))
        text = (
            f"the oracle's formula {_where(trial, also)}: the programs agree at random points of {POINTS} finite "
            f"fields{read}{_integers(trial)}; rounding is judged by the other checks"
            f"{', and so are other sizes' if trial.sample.sizes else ''}"
        )
        yield Proof(", ".join(each.name for each in proved), f"proved to be {text}", True)
    for each in compared:
        if each.differs and isinstance(each.found, Sameness):
            yield Proof(each.name, _difference(trial, each, each.found), False)
        elif isinstance(each.found, str):
            yield Proof(each.name, each.found, False if each.off else None)


def _integers(trial: Trial) -> str:
    """Say what is compared by numbers alone."""
    names = trial.oracle.integers
    return f"; {' and '.join(names)} {'is' if len(names) == 1 else 'are'} compared at one sample" if names else ""


def _sizes(trial: Trial) -> str:
    return ", ".join(f"{axis} = {size}" for axis, size in trial.sample.sizes.items()) or "the given shapes"


def _where(trial: Trial, also: str = "") -> str:
    """Say at which sizes, branches, integers and inputs."""
    where = f"at {_sizes(trial)}{also}, on the branches of {_EXAMPLES} samples"
    where += " and at their integers" if any(not d.differentiable for d in trial.oracle.spec.drawn_from) else ""
    return where + (", with every optional input" if trial.oracle.spec.optional else "")


def _difference(trial: Trial, compared: _Compared, found: Sameness) -> str:
    slots = trial.oracle.map(compared.name).results
    entries = [
        f"{int(differs.sum())} of {differs.size} entries of {slot.label}" + (f", {ratio} times it" if ratio else "")
        for slot, differs, ratio in zip(slots, found.differs, found.ratios, strict=True)
        if differs.any()
    ]
    by_numbers = f"in 300 digits, which {trial.precision.name} may not show; the other checks judge it by numbers"
    of = "and its numbers show it at other inputs" if compared.shown else by_numbers
    return f"differs {_where(trial)} from the oracle's formula in {' and '.join(entries)}: {of}"


CHECK = Check(
    "proof",
    "a formula that is not the oracle's, by however little: a term of 1e-40, a factor of 1 - 2^-60",
    ("vjp",),
    _run,
    generic=True,
    on_request=True,
    real_only="fields have no complex numbers",
)
