"""proof: the candidate's program is the oracle's formula, entry by entry and without rounding, at one shape.

Both programs are run at random points of finite fields, see `harness.proof`. A difference accuses only: two programs
may be the same by a rule that the fields do not know. It is told, and other checks judge by numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from parity_tests.harness.candidates.torch_candidate import Refused
from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import first_line
from parity_tests.harness.findings import NotApplicable, Proof
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.proof.numbers import Unmodelled
from parity_tests.harness.proof.proof import POINTS, Sameness, sameness
from parity_tests.harness.specs.exported import CannotConvert
from parity_tests.harness.specs.graph_in_jax import traced
from parity_tests.harness.trial.trial import Trial

_FIRST_ORDER = ("forward", "vjp", "jvp")  # without which nothing is proved
_MAPS = (*_FIRST_ORDER, "vjp_of_vjp", "jvp_of_vjp")


def _run(trial: Trial) -> Iterator[Proof]:
    _check_applies(trial)
    compared = [*_compared(trial)]
    first_order = [each for each in compared if each.name in _FIRST_ORDER]
    unknown = next((each for each in first_order if isinstance(each.found, str) and not each.refused), None)
    if unknown is not None and not any(each.differs for each in compared):
        raise NotApplicable(f"{unknown.name} {unknown.found}")
    yield from _told(trial, compared)


def _check_applies(trial: Trial) -> None:
    """Raise NotApplicable where a proof would not be one of all that the row names."""
    if trial.precision is not FLOAT64:
        raise NotApplicable("programs are compared in float64: --dtype float64, or dtypes=['float64']")
    if trial.oracle.integers:
        raise NotApplicable(f"{trial.oracle.integers[0]} is an output of integers or booleans, which is not compared")
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


def _compared(trial: Trial) -> Iterator[_Compared]:
    """Each map, up to the first one that differs: those above it differ for the same reason."""
    for name in _MAPS:
        args = trial.arguments(name)
        try:
            programs = _of_oracle(trial, name, args), _of_candidate(trial, name, args)
            found = sameness(*programs, args, trial.sample.seed)
        except Refused as error:
            yield _Compared(name, f"is refused: {first_line(error)}", refused=name not in ("forward", "vjp"))
            continue
        except (Unmodelled, CannotConvert) as error:
            yield _Compared(name, f"cannot be told: {first_line(error)}")
            continue
        yield _Compared(name, found)
        if not found.proved:
            return


def _told(trial: Trial, compared: Sequence[_Compared]) -> Iterator[Proof]:
    sizes = ", ".join(f"{axis} = {size}" for axis, size in trial.sample.sizes.items())
    where = f"at {sizes}" if sizes else "at the given shapes"
    proved = [each for each in compared if isinstance(each.found, Sameness) and each.found.proved]
    if proved:
        constants = {x: c for each in proved if isinstance(each.found, Sameness) for x, c in each.found.read_as.items()}
        read = "".join(f"; {x!r} is taken for {constant}" for x, constant in sorted(constants.items()))
        text = (
            f"the oracle's formula {where}, on the branches of the sample: the programs agree at {POINTS} random "
            f"points of finite fields{read}; rounding is judged by the other checks"
        )
        yield Proof(", ".join(each.name for each in proved), f"proved to be {text}", True)
    for each in compared:
        if each.differs and isinstance(each.found, Sameness):
            yield Proof(each.name, _difference(trial, each.name, each.found, where), False)
        elif isinstance(each.found, str):
            yield Proof(each.name, each.found, None)


def _difference(trial: Trial, name: str, found: Sameness, where: str) -> str:
    entries = [
        f"{int(differs.sum())} of {differs.size} entries of {slot.label}"
        for slot, differs in zip(trial.oracle.map(name).results, found.differs, strict=True)
        if differs.any()
    ]
    return (
        f"differs {where} from the oracle's formula in {' and '.join(entries)}, at random points of finite fields: it "
        "is another formula, or the same by a rule that the fields do not know; the other checks judge it by numbers"
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
    shapes, slots = trial.oracle.shapes(trial.sample.shapes), trial.oracle.map(name).results

    def every_result(*tensors: torch.Tensor) -> list[torch.Tensor]:
        results = trial.evaluate_at(name, tensors)
        return [
            torch.zeros(shapes[slot.like], dtype=torch.float64) if y is None else y
            for slot, y in zip(slots, results, strict=True)
        ]

    try:
        return traced(every_result, trial.tensors(args))
    except (Refused, CannotConvert):
        raise
    except Exception as error:
        raise CannotConvert(f"PyTorch cannot trace it: {type(error).__name__}: {first_line(error)}") from error


CHECK = Check(
    "proof",
    "a formula that is not the oracle's, by however little: a term of 1e-40, a factor of 1 - 2^-60",
    ("vjp",),
    _run,
    generic=True,
    one_dtype=True,
    on_request=True,
    real_only="fields have no complex numbers",
    torch_only="the candidate's program is traced by PyTorch",
)
