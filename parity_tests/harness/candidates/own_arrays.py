"""Which of its arguments a candidate writes to, for frameworks that hand it arrays of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Writes:
    """The arguments that a candidate has written to, over all its calls since this was made.

    Attributes:
        inputs: the positions among all inputs, constants included.
        directions: the positions among the cotangents or tangents that are there.
    """

    inputs: set[int] = field(default_factory=set)
    directions: set[int] = field(default_factory=set)

    def watch(
        self, inputs: Sequence[Any], directions: Sequence[Any], read: Callable[[Any], bytes] = np.ndarray.tobytes
    ) -> Callable[[], None]:
        """Remember the arrays, None for one that is absent; return a function that notes which have changed since.

        `read` returns a copy of an array's numbers.
        """
        places = [(self.inputs, i, x) for i, x in enumerate(inputs) if x is not None]
        places += [(self.directions, i, x) for i, x in enumerate(d for d in directions if d is not None)]
        before = [read(x) for _, _, x in places]

        def compare() -> None:
            for (written, i, x), old in zip(places, before, strict=True):
                if read(x) != old:
                    written.add(i)

        return compare
