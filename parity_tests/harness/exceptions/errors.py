"""Attribution of exceptions: to the candidate or the oracle, to a place in the code, and to a circumstance."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
import torch

from parity_tests.harness.exceptions.defects import first_line as first_line
from parity_tests.harness.exceptions.defects import where_of as where_of

_HARNESS = Path(__file__).parents[1]
_CALLS_CANDIDATE = (f"{_HARNESS / 'candidates'}/", f"{_HARNESS / 'solutions'}/")
_READS_RESULTS = {(str(_HARNESS / "numbers" / "conversion.py"), name) for name in ("to_numpy", "from_jax")}
_OF_ORACLE = tuple(f"{_HARNESS / name}/" for name in ("oracle", "rounding"))
_CHECKS = (str(_HARNESS / "checks") + "/", str(_HARNESS / "trial" / "trial.py"))
_TORCH = str(Path(torch.__file__).parent)
_LIBRARIES = tuple(
    f"{folder}/"
    for folder in (
        str(_HARNESS),
        _TORCH,
        *(str(Path(module.__file__ or "").parent) for module in (jax, np)),
        str(Path(jax.__file__ or "").parent.parent / "jaxlib"),
    )
)
_STANDARD = tuple(f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib"))
_INSTALLED = tuple(f"{sysconfig.get_path(name)}/" for name in ("purelib", "platlib"))  # inside of the standard library
_CIRCUMSTANCE = "_gradparity_circumstance"


def described(error: BaseException) -> str:
    """Describe an exception by its type, the first line of its message, and the place where it was raised.

    An exception that the harness itself raises is described by the first line of its message alone.
    """
    frames = _frames(error)
    if not frames or (frames[-1].filename.startswith(f"{_HARNESS}/") and (frames[-1].line or "").startswith("raise")):
        return first_line(error)
    return f"{type(error).__name__}: {first_line(error)} ({place_of(error)})"


class under:
    """Context manager that attaches a circumstance to exceptions raised in its block; the innermost block wins."""

    def __init__(self, circumstance: str) -> None:
        self.circumstance = circumstance

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            vars(error).setdefault(_CIRCUMSTANCE, self.circumstance)


def circumstance_of(error: BaseException) -> str:
    """The circumstance that `under` attached to an exception; empty if there is none."""
    return vars(error).get(_CIRCUMSTANCE, "")


def is_candidates(error: BaseException) -> bool:
    """True if an exception comes out of the candidate, or out of PyTorch's or JAX's transforms of it.

    The innermost frame of the harness decides. The exception is the candidate's if that frame is in `candidates`, or if
    it is in a check and called PyTorch or user code: a check may run the candidate's backward itself.
    """
    frames = [f for f in _frames(error) if (f.filename, f.name) not in _READS_RESULTS]
    ours = [i for i, frame in enumerate(frames) if frame.filename.startswith(f"{_HARNESS}/")]
    if not ours:
        return False
    innermost = frames[ours[-1]].filename
    if innermost.startswith(_CALLS_CANDIDATE):
        return True
    beyond = frames[ours[-1] + 1 :]
    called = any(frame.filename.startswith(f"{_TORCH}/") or _is_own(frame.filename) for frame in beyond)
    return innermost.startswith(_CHECKS) and called


def is_oracles(error: BaseException) -> bool:
    """True if an exception comes out of the oracle, or out of the analysis of its rounding."""
    return any(frame.filename.startswith(_OF_ORACLE) for frame in _frames(error))


def map_of(error: BaseException) -> str:
    """The method of the candidate that raised an exception, such as "vjp" or "vmap_of_jvp"; empty if there is none."""
    names = [frame.name for frame in _frames(error) if frame.filename.startswith(_CALLS_CANDIDATE)]
    name = next((name for name in names if not name.startswith("_")), "")
    return {"record": "forward", "vjp_undefined": "vjp"}.get(name, name)


def place_of(error: BaseException) -> str:
    """The innermost place in the candidate's own code where an exception was raised: "at case.py:12, in backward".

    If no frame is in the candidate's own code, this is the innermost frame of the traceback.
    """
    elsewhere, frames = getattr(error, "place", ""), _frames(error)
    if isinstance(elsewhere, str) and elsewhere:  # of a solution in a process of its own
        return elsewhere
    if not frames:
        return ""
    frame = next((frame for frame in reversed(frames) if _is_own(frame.filename)), frames[-1])
    return f"at {frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}, in {frame.name}"


def _is_own(path: str) -> bool:
    """True if a file belongs neither to the harness nor to PyTorch, JAX, NumPy or Python."""
    if path.startswith("<") or path.startswith(_LIBRARIES):
        return False
    return path.startswith(_INSTALLED) or not path.startswith(_STANDARD)


def _frames(error: BaseException) -> traceback.StackSummary:
    return traceback.extract_tb(error.__traceback__)


def described_call(error: BaseException, params: Mapping[str, Any]) -> str:
    """Describe an exception of a call with these parameters, with the remedy if one of them precedes the inputs."""
    taken = next((name for name in params if f"multiple values for argument {name!r}" in str(error)), None)
    if not taken or not isinstance(error, TypeError):
        return described(error)
    return (
        f"{described(error)}; params are given by their names, and the inputs by their positions: {taken} stands "
        f"before an input; wrap both functions, as in lambda *inputs, {taken}: f({taken}, *inputs)"
    )
