"""The nodes of autograd that a gradient passes through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor


def graph_of(results: Sequence[Tensor]) -> tuple[list[Any], list[Tensor]]:
    """The nodes that the gradient of some results passes through, those that ran first first, and the leaves."""
    found, remaining = set[Any](), [y.grad_fn for y in results]
    while remaining:
        node: Any = remaining.pop()
        if node is not None and node not in found:
            found.add(node)
            remaining += [each for each, _ in node.next_functions]
    leaves = [node.variable for node in found if is_leaf(node)]
    nodes = (node for node in found if not is_leaf(node))
    return sorted(nodes, key=lambda node: node._sequence_nr()), leaves


def is_leaf(node: Any) -> bool:
    """Whether a node adds up the gradient of a leaf, which is its `variable`."""
    return type(node).__name__ == "AccumulateGrad"  # a class that PyTorch does not name
