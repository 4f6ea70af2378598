"""The names of a kernel's configurations, without the kernel: PyTorch takes seconds to import."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def by_name(configurations: Iterable[object]) -> dict[str, Mapping[str, object]]:
    """Return keyword arguments by the name that they have together, such as "block=16, num_warps=4".

    Raises:
        TypeError: one is no mapping of names.
        ValueError: there are none, or one is there twice.
    """
    found: dict[str, Mapping[str, object]] = {}
    for number, each in enumerate(configurations):
        where = f"configurations[{number}]"
        if not isinstance(each, Mapping) or not each:
            raise TypeError(f"{where}: must be keyword arguments by their names, {{'block': 16}}, got {each!r}")
        for key in each:
            if not isinstance(key, str) or not key.isidentifier():
                raise TypeError(f"{where}: {key!r} is no name of a keyword argument; write one as in a call")
        name = ", ".join(f"{key}={value!r}" for key, value in each.items())
        if name in found:
            raise ValueError(f"{where}: {name} is there twice; leave one of them out")
        found[name] = each
    if not found:
        raise ValueError("configurations: there are none; give at least one, such as {'block': 16}")
    return found
