"""Arguments and results of any structure: tuples, dictionaries, named tuples, dataclasses, Hugging Face's outputs.

PyTorch's registry of structures (`torch.utils._pytree`) reads the arguments, since the function is PyTorch's. The
results are JAX's, which knows fewer: what it does not know is a dictionary there, or a tuple if it has no names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import torch
from torch.utils import _pytree as pytree


@dataclasses.dataclass(frozen=True)
class Structure:
    """The structure of a tree: PyTorch's, and, of leaves that are dataclasses, their classes and structures."""

    spec: pytree.TreeSpec
    parts: tuple[tuple[type, Structure] | None, ...]

    def rebuilt(self, leaves: Sequence[Any]) -> Any:
        """Return a tree of this structure with other leaves."""
        return self._rebuilt(iter(leaves))

    def _rebuilt(self, leaves: Iterator[Any]) -> Any:
        return pytree.tree_unflatten([self._part(part, leaves) for part in self.parts], self.spec)

    @staticmethod
    def _part(part: tuple[type, Structure] | None, leaves: Iterator[Any]) -> Any:
        if part is None:
            return next(leaves)
        cls, structure = part
        made = object.__new__(cls)
        for name, value in structure._rebuilt(leaves).items():
            object.__setattr__(made, name, value)
        return made


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """Return the leaves of a tree and its structure; None is a leaf."""
    leaves, parts = list[Any](), list[tuple[type, Structure] | None]()
    found, spec = pytree.tree_flatten(tree)
    for leaf in found:
        if _is_dataclass(leaf):
            own, structure = flatten(_fields(leaf))
            leaves += own
            parts.append((type(leaf), structure))
        else:
            leaves.append(leaf)
            parts.append(None)
    return leaves, Structure(spec, tuple(parts))


def paths(tree: Any) -> list[str]:
    """Return where each leaf of positional and keyword arguments lies, such as "argument 0['mask']"."""
    found = list[str]()
    flat: Any = pytree.tree_flatten_with_path(tree)[0]
    for path, leaf in flat:
        where = f"argument {path[1].idx}" if path[0].idx == 0 else f"argument {path[1].key!r}"
        name = where + "".join(map(str, path[2:]))
        found += [f"{name}.{field}" for field in _paths_of(leaf)] if _is_dataclass(leaf) else [name]
    return found


def _paths_of(leaf: Any) -> list[str]:
    return [path.removeprefix("argument ") for path in paths(((), _fields(leaf)))]


def for_jax(x: Any) -> Any:
    """Return a result with the structures that JAX knows; what else has named parts becomes a dictionary of them."""
    if isinstance(x, torch.Tensor) or x is None:
        return x
    if type(x).__module__ == torch.return_types.__name__:  # such as that of torch.linalg.qr
        return tuple(map(for_jax, x))
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*map(for_jax, x))
    if type(x) in (tuple, list):
        return type(x)(map(for_jax, x))
    if not jax.tree_util.all_leaves([x]):
        return jax.tree.map(for_jax, x, is_leaf=lambda y: y is not x)
    if isinstance(x, Mapping):
        return {str(key): for_jax(value) for key, value in x.items()}
    if _is_dataclass(x):
        return {name: for_jax(value) for name, value in _fields(x).items()}
    leaves = pytree.tree_flatten(x, is_leaf=lambda y: y is not x)[0]
    return x if len(leaves) == 1 and leaves[0] is x else tuple(map(for_jax, leaves))


def _is_dataclass(x: Any) -> bool:
    return dataclasses.is_dataclass(x) and not isinstance(x, type)


def _fields(x: Any) -> dict[str, Any]:
    return {field.name: getattr(x, field.name) for field in dataclasses.fields(x)}
