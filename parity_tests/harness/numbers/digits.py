"""Numbers as text, for messages."""

from __future__ import annotations

import math


def apart(one: complex | None, other: complex | None, digits: int = 6, sign: str = "+") -> tuple[str, str]:
    """Return two numbers as text with as many digits as it takes to distinguish them.

    None, by which JSON represents a lost NaN, is written as NaN.
    """
    one, other = (math.nan if x is None else x for x in (one, other))
    for count in range(digits, 18):
        texts = f"{one:{sign}.{count}g}", f"{other:{sign}.{count}g}"
        if texts[0] != texts[1]:
            # Keep trailing zeros, so that both numbers show the same number of digits.
            return texts if count == digits else (f"{one:{sign}#.{count}g}", f"{other:{sign}#.{count}g}")
    return f"{one:{sign}.{digits}g}", f"{other:{sign}.{digits}g}"
