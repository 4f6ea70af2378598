"""The outputs of an operator: arrays by name or position, some of which may be integers."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parity_tests.harness.candidates.torch_refusals import BadOutput

Path = tuple[str | int, ...]  # of dictionaries and named tuples the keys, of other tuples and lists the positions


@dataclass(frozen=True)
class Outputs:
    """An operator's outputs, in order.

    Attributes:
        paths: the path of each output in the returned structure.
        differentiable: for each output, True if it has real or complex numbers. Integers and booleans have no
            cotangents and no tangents.
    """

    paths: tuple[Path, ...]
    differentiable: tuple[bool, ...]

    @property
    def is_plain(self) -> bool:
        """True if the operator returns an array or a tuple of arrays, all of them differentiable."""
        return all(self.differentiable) and not _has_names(self.paths) and all(len(path) <= 1 for path in self.paths)

    def names(self, default: Sequence[str], taken: Collection[str]) -> tuple[str, ...]:
        """Return the keys that lead to each output, or default names where there are none; `taken`: names of inputs."""
        if not all(any(isinstance(key, str) for key in path) for path in self.paths):
            return tuple(default)
        names = [".".join(map(str, path)) for path in self.paths]
        return tuple(f"output.{name}" if name in taken else name for name in names)

    def arranged(self, returned: object) -> list[Any]:
        """Return a candidate's outputs in this order: by name where both have names, else by position.

        Raises:
            BadOutput: the candidate returns other outputs.
        """
        found = dict(leaves(returned))
        if len(found) != len(self.paths):
            raise BadOutput(f"returned {len(found)} outputs, expected {len(self.paths)}")
        if _has_names(found) and _has_names(self.paths):
            if {*found} != {*self.paths}:
                raise BadOutput(f"returned the outputs {_listed(found)}, expected {_listed(self.paths)}")
            return [found[path] for path in self.paths]
        return [*found.values()]

    def real(self, arranged: Sequence[Any]) -> tuple[Any, ...]:
        """Return the outputs that are differentiable."""
        return tuple(y for y, flag in zip(arranged, self.differentiable, strict=True) if flag)

    def integers(self, arranged: Sequence[Any]) -> tuple[Any, ...]:
        """Return the outputs that are not differentiable."""
        return tuple(y for y, flag in zip(arranged, self.differentiable, strict=True) if not flag)


def leaves(returned: object, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the leaves of dictionaries (with sorted keys, as in JAX), named tuples, dataclasses, tuples and lists.

    Any other object is a leaf itself, at the path ().
    """
    parts = _parts(returned)
    if parts is None:
        yield path, returned
    else:
        for key, value in parts:
            yield from leaves(value, (*path, key))


def _parts(x: object) -> list[tuple[str | int, Any]] | None:
    if isinstance(x, Mapping):
        return [(str(key), x[key]) for key in sorted(x, key=str)]
    if isinstance(x, tuple | list):
        return [*zip(getattr(x, "_fields", range(len(x))), x, strict=True)]
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        return [(field.name, getattr(x, field.name)) for field in dataclasses.fields(x)]
    return None


def _has_names(paths: Collection[Path]) -> bool:
    return any(isinstance(key, str) for path in paths for key in path)


def _listed(paths: Collection[Path]) -> str:
    return ", ".join(".".join(map(str, path)) for path in paths)
