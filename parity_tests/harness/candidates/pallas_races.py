"""Pallas kernels in JAX's TPU interpret mode, whose race detector is on: on a CPU, without an accelerator.

The mode simulates the memory, the asynchronous copies and the cores of a TPU, and notes each pair of accesses, one of
which is a write, that nothing orders. Steps of a grid along an axis that `dimension_semantics` calls "parallel" run on
two cores here; along other axes they come one after the other, as on a TPU.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_CORES = 2
_RACE = re.compile(r"RACE DETECTED\n +(\w+) of (\(.*?\)).*\n.*\n +(\w+) of", re.MULTILINE)


@dataclass
class Races:
    """What the detector has noted.

    Attributes:
        ran: whether a Pallas kernel ran at all.
        found: for each race, which accesses to which memory it is of; a race of one kind in one memory once.
    """

    ran: bool = False
    found: list[str] = field(default_factory=list)


@contextlib.contextmanager
def detected_races() -> Iterator[Races]:
    """Run the Pallas kernels that are traced in this block in interpret mode; what is yielded is filled at its end.

    The interpreter has one state for the whole process, which is reset before and after.
    """
    # Imported here, since few need them. What was found, the private module alone knows.
    from jax._src.pallas.mosaic.interpret import interpret_pallas_call as interpreter
    from jax.experimental.pallas import tpu as pltpu

    races, printed = Races(), io.StringIO()
    pltpu.reset_tpu_interpret_mode_state()
    try:
        params = pltpu.InterpretParams(detect_races=True, num_cores_or_threads=_CORES)
        with pltpu.force_tpu_interpret_mode(params), contextlib.redirect_stdout(printed):
            yield races
    finally:
        state = interpreter.races
        pltpu.reset_tpu_interpret_mode_state()
    races.ran = state is not None
    if state is not None and state.races_found:
        described = (f"{one} and {other} of memory {place}" for one, place, other in _RACE.findall(printed.getvalue()))
        races.found = list(dict.fromkeys(described)) or ["two accesses"]
