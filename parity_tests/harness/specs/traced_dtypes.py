"""The dtypes of a traced program of PyTorch, where they change its numbers: casts, and constants that are rounded."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_aggregate, map_arg
from torch.utils._pytree import tree_leaves

from parity_tests.conversion.cannot_convert import CannotConvert
from parity_tests.conversion.graph import is_inexact
from parity_tests.harness.numbers.conversion import to_numpy
from parity_tests.harness.numbers.short_constants import meant

# Of a tensor's shape and dtype, and not of its numbers.
_OF_A_SHAPE = {
    *(torch.ops.aten.full_like.default, torch.ops.aten.zeros_like.default, torch.ops.aten.ones_like.default),
    *(torch.ops.aten.new_full.default, torch.ops.aten.new_zeros.default, torch.ops.aten.new_ones.default),
    *(torch.ops.aten.fill.Scalar, torch.ops.aten.zero.default),
}


_SHORT, _WIDER = (torch.bfloat16, torch.float16), (torch.float32, torch.float64)
# Whose kernels in 16 bits compute in float32 with a number of Python, or a tensor of one number.
_IN_FLOAT32 = {
    *(torch.ops.aten.add, torch.ops.aten.sub, torch.ops.aten.rsub, torch.ops.aten.mul, torch.ops.aten.div),
    torch.ops.aten.pow,
}
_SHORT_INTEGERS = (torch.bool, torch.uint8, torch.int8)  # which every dtype holds


def check_casts(module: GraphModule, dtypes: Collection[torch.dtype]) -> None:
    """Raise CannotConvert if numbers are cast to a dtype that is no input's, nor a wider one: they are not the same."""
    least = min((dtype.itemsize for dtype in dtypes), default=0)
    for node in module.graph.nodes:
        dtype: torch.dtype | None = getattr(node.meta.get("val"), "dtype", None)
        given = [x.meta.get("val") for x in node.all_input_nodes]
        if dtype in _SHORT and node.target is torch.ops.aten._to_copy.default and _are_integers(given):
            raise CannotConvert(f"a cast of integers to {_name(dtype)}, which rounds large ones, is not modelled")
        if dtype is None or not is_inexact(node.meta.get("val")) or dtype in dtypes or dtype.itemsize > least:
            continue
        cast = {x.dtype for x in given if is_inexact(x)} or {x.dtype for x in given if isinstance(x, torch.Tensor)}
        if cast - {dtype, *_SHORT_INTEGERS}:
            raise CannotConvert(f"a cast to {_name(dtype)}, which no input has, is not modelled")


def _are_integers(given: Sequence[Any]) -> bool:
    """Whether arrays are of integers of which no short dtype holds all."""
    return any(isinstance(x, torch.Tensor) and not is_inexact(x) and x.dtype not in _SHORT_INTEGERS for x in given)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


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


def check_scalars(module: GraphModule) -> None:
    """Raise CannotConvert if a kernel in 16 bits rounds a number that it is given, as `masked_fill(mask, 0.3)` does.

    It does if it computes the same, at arbitrary numbers of that size, with the number and with what it is rounded to.
    """
    for node in module.graph.nodes:
        value = node.meta.get("val")
        is_short = isinstance(value, torch.Tensor) and value.dtype in _SHORT
        if node.op != "call_function" or not is_short or _keeps_scalars(node):
            continue
        numbers = [x for x in (*node.args, *node.kwargs.values()) if _is_rounded(module, x, value.dtype)]
        size = max((abs(float(torch.as_tensor(_number(module, x)).max())) for x in numbers), default=0.0)
        if numbers and _computes_alike(module, node, size):
            raise CannotConvert(
                f"{node.target} rounds a number to {str(value.dtype).removeprefix('torch.')} that it uses"
            )


def _keeps_scalars(node: Node) -> bool:
    """Whether a kernel computes with a number in float32, and knows no factor `alpha`, which it rounds."""
    return getattr(node.target, "overloadpacket", None) in _IN_FLOAT32 and "alpha" not in node.kwargs


def _number(module: GraphModule, x: Any) -> Any:
    """A number, or the tensor of a constant; None of anything else."""
    if isinstance(x, Node):
        return getattr(module, str(x.target)) if x.op == "get_attr" else None
    return x if isinstance(x, float) else None


def _is_rounded(module: GraphModule, x: Any, dtype: torch.dtype) -> bool:
    number = _number(module, x)
    if number is None or not is_inexact(number := torch.as_tensor(number, dtype=_dtype_of(number))):
        return False
    return bool((number.to(dtype).double() != number.double()).any()) and number.numel() > 0


def _dtype_of(number: Any) -> torch.dtype:
    return number.dtype if isinstance(number, torch.Tensor) else torch.float64


def _computes_alike(module: GraphModule, node: Node, size: float) -> bool:
    generator, drawn = torch.Generator().manual_seed(0), dict[Node, Any]()

    def given(x: Node) -> Any:
        value = x.meta.get("val")
        if x.op == "get_attr" or not isinstance(value, torch.Tensor):
            return _number(module, x) if x.op == "get_attr" else value
        if x not in drawn:
            numbers = size * (0.5 + 1.5 * torch.rand(value.shape, generator=generator, dtype=torch.float64))
            drawn[x] = (
                numbers.to(value.dtype) if value.is_floating_point() else torch.zeros_like(numbers).to(value.dtype)
            )
            if value.dtype is torch.bool:
                drawn[x] = torch.ones(value.shape, dtype=torch.bool)
        return drawn[x]

    def rounded(x: Any) -> Any:
        dtype = node.meta["val"].dtype
        if isinstance(x, float):
            return float(torch.tensor(x, dtype=torch.float64).to(dtype))
        return x.to(dtype).to(x.dtype) if isinstance(x, torch.Tensor) and x.dtype in _WIDER else x

    target: Any = node.target
    args, kwargs = map_arg(node.args, given), map_arg(node.kwargs, given)
    one = target(*args, **kwargs)
    other = target(*map_aggregate(args, rounded), **map_aggregate(kwargs, rounded))
    return all(torch.equal(x, y) for x, y in zip(tree_leaves(one), tree_leaves(other), strict=True))


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
