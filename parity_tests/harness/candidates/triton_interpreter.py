"""The faults of Triton kernels that a run in Triton's interpreter, on a CPU, cannot show."""

from __future__ import annotations

import os
import sys

_ON = ("1", "true", "on", "yes", "y")  # of which Triton takes any, in either case
UNSEEN = (
    "Triton kernels ran in its interpreter (TRITON_INTERPRET), by NumPy and one program after the other: what this "
    "cannot show is a race between programs, the rounding of TF32, and how products of bfloat16 are rounded on a GPU"
)


def unseen_by_interpreter() -> str | None:
    """A line for the report if Triton was imported to interpret its kernels; else None."""
    interprets = os.environ.get("TRITON_INTERPRET", "").lower() in _ON
    return UNSEEN if interprets and "triton" in sys.modules else None
