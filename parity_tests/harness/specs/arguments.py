"""Operators whose arguments are not single arrays but dictionaries, lists or tuples of arrays.

The rest of the harness numbers the inputs and knows them by name. A tree of these names says where each one goes:
`("x", {"weight": "w", "bias": "b"})` calls f(x, {"weight": w, "bias": b}).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

# A leaf, or a dictionary, list, tuple or named tuple of trees
Tree = Any


def leaves(tree: Tree, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield each leaf with the keys, fields and positions that lead to it, in the order in which they are written."""
    if isinstance(tree, Mapping):
        parts = tree.items()
    elif isinstance(tree, tuple | list):
        parts = zip(getattr(tree, "_fields", range(len(tree))), tree, strict=True)
    else:
        yield path, tree
        return
    for key, part in parts:
        yield from leaves(part, (*path, str(key)))


def mapped(function: Callable, tree: Tree) -> Tree:
    """Return the same tree with `function` applied to each leaf."""
    if isinstance(tree, Mapping):
        return {key: mapped(function, part) for key, part in tree.items()}
    if isinstance(tree, tuple | list):
        parts = [mapped(function, part) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return function(tree)


def is_flat(inputs: Sequence[Tree]) -> bool:
    """Return whether every input is a leaf, and none is a dictionary, list or tuple."""
    return not any(isinstance(x, Mapping | tuple | list) for x in inputs)


def check_names(arguments: Tree, names: Sequence[str]) -> None:
    """Check that a tree has the name of each input once, and nothing else.

    Raises:
        TypeError: `arguments` is not a tuple or list, or one of its leaves is not a string.
        ValueError: a name is missing, unknown, or occurs twice.
    """
    if not isinstance(arguments, tuple | list):
        raise TypeError(
            "arguments must be a tuple, with one item for each argument of the primal, such as "
            f"('x', {{'weight': 'w'}}); got {arguments!r}"
        )
    found = [leaf for _, leaf in leaves(arguments)]
    strange = [leaf for leaf in found if not isinstance(leaf, str)]
    if strange:
        raise TypeError(
            f"arguments has {strange[0]!r} where the name of an input is expected, "
            "in dictionaries, lists, tuples and named tuples"
        )
    for name in [*found, *names]:
        if name not in names:
            raise ValueError(f"arguments names {name!r}; the inputs are {', '.join(names)}")
        if found.count(name) != 1:
            raise ValueError(f"arguments must name each input once, and has {name!r} {found.count(name)} times")


def as_code(tree: Tree, variables: Mapping[str, str]) -> str:
    """Return a Python expression for a tree, with these variables in the place of the inputs.

    Code with a named tuple in it must import `namedtuple`.
    """
    if isinstance(tree, Mapping):
        return "{" + ", ".join(f"{key!r}: {as_code(part, variables)}" for key, part in tree.items()) + "}"
    if isinstance(tree, tuple | list):
        parts = [as_code(part, variables) for part in tree]
        fields = getattr(tree, "_fields", None)
        if fields is not None:
            return f"namedtuple({type(tree).__name__!r}, {list(fields)!r})({', '.join(parts)})"
        if isinstance(tree, list):
            return f"[{', '.join(parts)}]"
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    return variables[tree]
