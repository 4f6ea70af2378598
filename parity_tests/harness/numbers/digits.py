"""Numbers for messages."""

from __future__ import annotations

import math


def apart(one: complex | None, other: complex | None, digits: int = 6, sign: str = "+") -> tuple[str, str]:
    """Two numbers in as many digits as it takes to tell them apart; not-a-number for one that was lost in JSON."""
    one, other = (math.nan if x is None else x for x in (one, other))
    for count in range(digits, 18):
        texts = f"{one:{sign}.{count}g}", f"{other:{sign}.{count}g}"
        if texts[0] != texts[1]:
            # With its trailing zeros the shorter one has as many digits, too.
            return texts if count == digits else (f"{one:{sign}#.{count}g}", f"{other:{sign}#.{count}g}")
    return f"{one:{sign}.{digits}g}", f"{other:{sign}.{digits}g}"
