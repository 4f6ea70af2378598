"""PyTorch's own run of a function or module in float64: a module is called as its user calls it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import torch
from torch import Tensor, nn

from parity_tests.certificate.within_bounds import cotangents_of
from parity_tests.conversion import trees
from parity_tests.conversion.exported import in_float64
from parity_tests.conversion.to_jax import Converted


@dataclass(frozen=True)
class OwnRun:
    """The numbers of a run.

    Attributes:
        outputs: the tensors of the result.
        buffers: the last values of the buffers, by name.
        written: the names of the buffers whose values are others than before.
        gradients: of a random combination of the real outputs.
    """

    outputs: Sequence[Tensor]
    buffers: Mapping[str, Tensor]
    written: Sequence[str]
    gradients: Sequence[Tensor]


def own_run(f: Converted, leaves: Sequence[Any], structure: trees.Structure, moved: Sequence[int], seed: int) -> OwnRun:
    """Run a function; a module has its own tensors again afterwards.

    A module is exported by `functional_call`, which it may notice: by the types of its own parameters, by buffers that
    are views of others, and by the statistics of instance norm, which are lost. Here it is called.

    Args:
        f: the function.
        leaves: of its arguments; those that are arrays are tensors.
        structure: of its arguments.
        moved: what the gradients are by: positions among the parameters and buffers, and behind them the tensors.
        seed: of the combination.
    """
    wide = dict(zip(f.weights.tensors, _in_float64(f.weights.tensors.values()), strict=True))
    by = [*wide.values(), *(x.clone() for x in leaves if isinstance(x, Tensor))]
    for i in moved:
        by[i].requires_grad_()
    given = iter([x.clone() if x.requires_grad else x for x in by[len(wide) :]])  # an argument may be written to
    args, kwargs = structure.rebuilt([next(given) if isinstance(x, Tensor) else x for x in leaves])
    before = {name: wide[name].detach().clone() for name in f.weights.buffers}
    with f.as_at_first(), in_float64():
        if isinstance(f.function, nn.Module):
            _give(f.function, {id(x): wide[name] for name, x in f.weights.tensors.items()})
        result = f.function(*args, **kwargs)
        after = dict(f.function.named_buffers()) if isinstance(f.function, nn.Module) else {}
    outputs = [x for x in jax.tree.leaves(trees.for_jax(result)) if isinstance(x, Tensor)]
    after = {name: after.get(name, wide[name]).detach() for name in before}
    written = [name for name, x in before.items() if not torch.equal(x.nan_to_num(), after[name].nan_to_num())]
    own = [by[i] for i in moved]
    pairs = zip(cotangents_of(outputs, seed), outputs, strict=True)
    total: Any = sum((torch.as_tensor(c) * y).sum() for c, y in pairs if y.requires_grad and y.is_floating_point())
    if not isinstance(total, Tensor) or not own:
        return OwnRun(outputs, after, written, [torch.zeros_like(x) for x in own])
    return OwnRun(outputs, after, written, torch.autograd.grad(total, own, materialize_grads=True))


def _in_float64(tensors: Iterable[Tensor]) -> list[Tensor]:
    """New tensors with the same numbers, the real ones in float64; those that share their memory do so again."""
    memory, found = dict[Any, Tensor](), list[Tensor]()
    for x in tensors:
        dtype = torch.complex128 if x.is_complex() else torch.float64 if x.is_floating_point() else x.dtype
        key = x.untyped_storage().data_ptr() or object(), x.dtype
        if key not in memory:
            memory[key] = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage()).to(dtype, copy=True)
        y = memory[key].as_strided(x.shape, x.stride(), x.storage_offset())
        found.append(nn.Parameter(y, requires_grad=False) if isinstance(x, nn.Parameter) else y)
    return found


def _give(module: nn.Module, tensors: Mapping[int, Tensor]) -> None:
    """Give a module other parameters and buffers, by the identity of its own."""
    for part in module.modules():
        tables: Any = (part._parameters, part._buffers)
        for table in tables:
            for name, x in table.items():
                if x is not None:
                    table[name] = tensors[id(x)]
