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
from parity_tests.harness.proof.numbers import Unmodelled
from parity_tests.harness.proof.proof import POINTS, Sameness, sameness
from parity_tests.harness.specs.exported import CannotConvert
from parity_tests.harness.specs.graph_in_jax import traced
from parity_tests.harness.trial.trial import Trial

_MAPS = ("forward", "vjp", "jvp", "vjp_of_vjp", "jvp_of_vjp")


def _run(trial: Trial) -> Iterator[Proof]:
    trial = trial.widened()
    partial = [name for name, domain in trial.oracle.domains.items() if domain.project_errors is not None]
    if partial:
        raise NotApplicable(f"derivatives by {partial[0]} are compared in some directions only, and programs in all")
    compared = [*_compared(trial)]
    vjp = next((each for each in compared if each.name == "vjp"), None)
    if vjp is not None and isinstance(vjp.found, str):
        raise NotApplicable(f"no backward could be compared: {vjp.name} {vjp.found}")
    yield from _told(trial, compared)


@dataclass(frozen=True)
class _Compared:
    """A map's two programs: what their results say, or why they could not be compared."""

    name: str
    found: Sameness | str

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
        except (Unmodelled, CannotConvert, Refused) as error:
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

    return traced(every_result, trial.tensors(args))


CHECK = Check(
    "proof",
    "a formula that is not the oracle's, by however little: a term of 1e-12, an entry, a constant of another digit",
    ("vjp",),
    _run,
    generic=True,
    one_dtype=True,
    on_request=True,
    real_only="fields have no complex numbers",
    torch_only="the candidate's program is traced by PyTorch",
)
