"""Pallas kernels in JAX's interpret modes, whose race detectors are on: on a CPU, without an accelerator.

Each mode simulates memory, asynchronous copies and what runs at once, and notes each pair of accesses, one of which is
a write, that nothing orders. The mode for TPUs: steps of a grid along an axis that `dimension_semantics` calls
"parallel" run on two cores here; along other axes they come one after the other, as on a TPU. The mode for GPUs, for
kernels that are written for Mosaic GPU: the threads (warpgroups) of a block, the blocks of a cluster and the copies
between memories run at once; the other blocks of a grid come one after the other, so that a race between these is not
seen.
"""

from __future__ import annotations

import contextlib
import io
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from jax.extend import core

from parity_tests.harness.candidates.reasons import Reason, Refused
from parity_tests.harness.language.jaxprs import equations

_CORES = 2
_RACE = re.compile(r"RACE DETECTED\n +(\w+) of (\(.*?\)).*\n.*\n +(\w+) of", re.MULTILINE)
_RACE_ON_GPU = re.compile(r"RACE DETECTED\n +(\w+) of \w+\(memory_space_id=(\d+),.*?buffer_id=(\d+).*\n.*\n +(\w+) of")
_FOR_GPUS = "jax._src.pallas.mosaic_gpu."


@dataclass
class Races:
    """The record of the race detector: whether a kernel ran, and the races that were found.

    Attributes:
        ran: whether a Pallas kernel ran at all.
        found: for each race, which accesses to which memory it is of; a race of one kind in one memory once.
    """

    ran: bool = False
    found: list[str] = field(default_factory=list)


def is_for_gpus(jaxpr: core.Jaxpr) -> bool:
    """Return whether a Pallas kernel that is written for Mosaic GPU takes part in a program."""
    values = (value for eqn in equations(jaxpr) for value in eqn.params.values())
    return any(type(part).__module__.startswith(_FOR_GPUS) for value in values for part in _parts(value))


def _parts(value: object) -> tuple:
    return value if isinstance(value, tuple) else (value,)


def detected_races(for_gpus: bool = False) -> contextlib.AbstractContextManager[Races]:
    """Run the Pallas kernels that are traced in this block in interpret mode; what is yielded is filled at its end.

    The interpreter has one state for the whole process, which is reset before and after. `for_gpus`: that of GPUs.
    """
    return _detected_on_gpu() if for_gpus else _detected_on_tpu()


@contextlib.contextmanager
def _detected_on_tpu() -> Iterator[Races]:
    # Imported here, since few need them. What was found, the private module alone knows.
    from jax._src.pallas.mosaic.interpret import interpret_pallas_call as interpreter
    from jax.experimental.pallas import tpu as pltpu

    races, printed = Races(), io.StringIO()
    pltpu.reset_tpu_interpret_mode_state()
    try:
        params = _noting(pltpu.InterpretParams, num_cores_or_threads=_CORES)
        with pltpu.force_tpu_interpret_mode(params), _told(printed):
            yield races
    finally:
        state = interpreter.races
        pltpu.reset_tpu_interpret_mode_state()
    races.ran = state is not None
    if state is not None and state.races_found:
        told = (f"{one} and {other} of memory {place}" for one, place, other in _RACE.findall(printed.getvalue()))
        races.found = list(dict.fromkeys(told)) or ["two accesses"]


@contextlib.contextmanager
def _detected_on_gpu() -> Iterator[Races]:
    from jax._src.pallas.mosaic_gpu.interpret import gpu_callbacks, params, shared_memory

    if not hasattr(params, "force_gpu_interpret_mode"):
        text = "this JAX, as 0.10.0, has no force_gpu_interpret_mode, by which kernels for Mosaic GPU run on a CPU"
        raise Refused(text, Reason.NOT_INTERPRETED)
    races, printed = Races(), io.StringIO()
    states: list[Any] = []  # each kernel has a state of its own
    # JAX 0.10 has the class under the first name, JAX 0.11 under the second one.
    kind = next(name for name in ("RaceDetectionState", "GPURaceDetectionState") if hasattr(gpu_callbacks, name))
    make = getattr(gpu_callbacks, kind)

    def made(*args: Any, **options: Any) -> Any:
        states.append(make(*args, **options))
        return states[-1]

    gpu_callbacks.reset_gpu_interpret_mode_state()
    try:
        mode = params.force_gpu_interpret_mode(_noting(params.InterpretGPUParams))
        with mode, mock.patch.object(gpu_callbacks, kind, made), _told(printed):
            yield races
    finally:
        gpu_callbacks.reset_gpu_interpret_mode_state()
    races.ran = bool(states)
    home: Any = gpu_callbacks if hasattr(gpu_callbacks, "IDX_BY_GPU_MEMORY_SPACE") else shared_memory  # JAX 0.10, 0.11
    places = {str(number): space.name for space, number in home.IDX_BY_GPU_MEMORY_SPACE.items()}
    told = [
        f"{one} and {other} of {places[space]} (buffer {buffer})"
        for one, space, buffer, other in _RACE_ON_GPU.findall(printed.getvalue())
    ]
    races.found = list(dict.fromkeys(told)) or ["two accesses"] * any(state.races_found for state in states)


def _noting(params: type[Any], **options: Any) -> Any:
    """The parameters of an interpret mode that notes races and goes on; JAX 0.12 would raise an error."""
    goes_on = {"on_race": "warn"} if "on_race" in params.__dataclass_fields__ else {}
    return params(detect_races=True, **goes_on, **options)


@contextlib.contextmanager
def _told(text: io.StringIO) -> Iterator[None]:
    """Take what the interpreter tells: JAX 0.10 prints it, JAX 0.12 logs it."""
    handler, root = logging.StreamHandler(text), logging.getLogger()
    root.addHandler(handler)
    try:
        with contextlib.redirect_stdout(text):
            yield
    finally:
        root.removeHandler(handler)
