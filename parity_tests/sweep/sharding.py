"""A part of the operators, for one machine of several or for one day of ten: the same part on every machine."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

TENTHS = 10


@dataclass(frozen=True)
class Shard:
    """The part `index`, from 1, of `count` parts."""

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """The shard that is written as "2/5".

        Raises:
            ValueError: it is not written so, or there is no such part.
        """
        match = re.fullmatch(r"(\d+)/(\d+)", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise ValueError(f"--shard {text}: write 1/4, 2/4, 3/4 and 4/4 for the parts of four")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        return f"{self.index}/{self.count}"

    def of(self, operators: Iterable[str]) -> list[str]:
        """The operators of this part."""
        return [operator for operator in operators if _number("shard", operator) % self.count == self.index - 1]


def tenth(number: int, operators: Iterable[str]) -> list[str]:
    """The operators of one of ten parts; a number of 10 or more counts on from the first, as the number of a run may.

    The parts are independent of those of `Shard`, of which each has a tenth of these.
    """
    return [operator for operator in operators if _number("tenth", operator) % TENTHS == number % TENTHS]


def _number(salt: str, operator: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{salt} {operator}".encode()).digest()[:8], "big")
