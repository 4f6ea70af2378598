"""The dtypes of a traced program of PyTorch, where they change its numbers: casts, and constants that are rounded."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import jax.numpy as jnp
import numpy as np
import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_aggregate, map_arg

from parity_tests.harness.exceptions.conversion import CannotConvert
from parity_tests.harness.numbers.conversion import to_numpy
from parity_tests.harness.numbers.short_constants import meant

# Of a tensor's shape and dtype, and not of its numbers.
_OF_A_SHAPE = {
    *(torch.ops.aten.full_like.default, torch.ops.aten.zeros_like.default, torch.ops.aten.ones_like.default),
    *(torch.ops.aten.new_full.default, torch.ops.aten.new_zeros.default, torch.ops.aten.new_ones.default),
    *(torch.ops.aten.fill.Scalar, torch.ops.aten.zero.default),
}


_SHORT_INTEGERS = (torch.bool, torch.uint8, torch.int8)  # which every dtype holds


def check_casts(module: GraphModule, dtypes: Collection[torch.dtype]) -> None:
    """Raise CannotConvert if numbers are cast to a dtype that is no input's, nor a wider one: they are not the same."""
    least = min((dtype.itemsize for dtype in dtypes), default=0)
    for node in module.graph.nodes:
        dtype: torch.dtype | None = getattr(node.meta.get("val"), "dtype", None)
        if dtype is None or not is_inexact(node.meta.get("val")) or dtype in dtypes or dtype.itemsize > least:
            continue
        given = [x.meta.get("val") for x in node.all_input_nodes]
        cast = {x.dtype for x in given if is_inexact(x)} or {x.dtype for x in given if isinstance(x, torch.Tensor)}
        if cast - {dtype, *_SHORT_INTEGERS}:
            raise CannotConvert(f"a cast to {str(dtype).removeprefix('torch.')}, which no input has, is not modelled")


def compute_short_constants(module: GraphModule) -> None:
    """Put in numbers for what follows from no input and is shorter than float64, as `full_like(x, 0.3)` is rounded.

    Constants of float64 stay formulas, whose rounding is no part of them.
    """
    known = dict[Node, Any]()
    for node in [*module.graph.nodes]:
        if node.op == "get_attr":
            known[node] = getattr(module, node.target)
        of_a_shape = node.target in _OF_A_SHAPE
        if node.op != "call_function" or not (of_a_shape or {*node.all_input_nodes} <= known.keys()):
            continue
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) or "empty" in str(node.target):
            continue  # random numbers, or none yet
        given = {x: known.get(x, _zeros(x) if of_a_shape else None) for x in node.all_input_nodes}
        known[node] = node.target(*map_arg(node.args, given.get), **map_arg(node.kwargs, given.get))
        if isinstance(x := known[node], torch.Tensor) and x.is_floating_point() and x.dtype != torch.float64:
            name = f"_constant_{node.name}"
            module.register_buffer(name, x)
            with module.graph.inserting_before(node):
                constant = module.graph.get_attr(name)
            constant.meta["val"] = known[constant] = x
            node.replace_all_uses_with(constant)
            module.graph.erase_node(node)


def _zeros(node: Node) -> torch.Tensor:
    x = node.meta["val"]
    return torch.zeros(x.shape, dtype=x.dtype)


def put_constants_meant(module: GraphModule, dtypes: Collection[torch.dtype]) -> None:
    """Put the numbers in the place of constants that are rounded, as PyTorch rounds an epsilon of rms_norm to float32.

    Raises:
        CannotConvert: it cannot be told from which number.
    """

    formats = [str(dtype).removeprefix("torch.") for dtype in {*dtypes, torch.float32}]

    def number(x: Any) -> Any:
        for dtype in formats if isinstance(x, float) and math.isfinite(x) else ():
            if torch.tensor(x, dtype=getattr(torch, dtype)).double().item() == x:
                x = float(meant(np.array(x), dtype))
        return x

    for node in module.graph.nodes:
        node.args, node.kwargs = map_aggregate(node.args, number), map_aggregate(node.kwargs, number)
        x = getattr(module, node.target) if node.op == "get_attr" else None
        if isinstance(x, torch.Tensor) and x.is_floating_point():
            dtype = str(x.dtype).removeprefix("torch.")
            setattr(module, node.target, torch.from_numpy(meant(to_numpy(x), dtype)))


def is_inexact(x: Any) -> bool:
    """Whether an array is of real or complex numbers."""
    if isinstance(x, torch.Tensor):
        return x.is_floating_point() or x.is_complex()
    return hasattr(x, "dtype") and bool(jnp.issubdtype(x.dtype, jnp.inexact))
