"""How torch.ops.gradparity.attn acts on DTensors, on any number of processes: what moves, and what is a sum still due.

Nothing is registered by an import or by loading the operators: call `register()`, once, wherever DTensors are used. It
needs `torch.distributed`. Without it PyTorch refuses the operators' DTensors: "does not have a sharding strategy".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import torch

from torch_impl.native.build import load

if TYPE_CHECKING:
    from torch.distributed.tensor.placement_types import Placement

    # Along one axis of a mesh: of the results, and of the arguments; None for an argument that is no tensor.
    Rule: TypeAlias = tuple[list[Placement | None], list[Placement | None]]


def register() -> None:
    """Tell DTensor how `attn` and `attn_backward` may be sharded; the operators are loaded, compiled if need be.

    `attn_implicit` needs no rule: DTensor sees its products and its tanh.

    Raises:
        RuntimeError: this PyTorch was built without `torch.distributed`.
        ToolchainMissing, DeclarationError, BuildError: those of `torch_impl.native.build.load`.
    """
    if not torch.distributed.is_available():
        raise RuntimeError("this PyTorch has no torch.distributed, so there are no DTensors; install another build")
    from torch.distributed.tensor.experimental import register_sharding  # slow to import

    load()
    register_sharding(torch.ops.gradparity.attn.default)(attn_rules)
    register_sharding(torch.ops.gradparity.attn_backward.default)(attn_backward_rules)


def attn_rules(q: object, k: object, v: object) -> list[Rule]:
    """The placements along one axis of a mesh of (output, attn), and of (q, k, v)."""
    from torch.distributed.tensor import Partial, Replicate, Shard

    everywhere, rows, columns = Replicate(), Shard(0), Shard(1)
    return [
        ([everywhere, everywhere], [everywhere, everywhere, everywhere]),
        ([rows, rows], [rows, everywhere, everywhere]),  #           queries
        ([columns, everywhere], [everywhere, everywhere, columns]),  # features of the values
        ([Partial(), columns], [everywhere, rows, rows]),  #         keys: output is their sum, (3)
    ]


def attn_backward_rules(
    output_bar: object, attn_bar: object, q: object, k: object, v: object, attn: object, mask: object
) -> list[Rule]:
    """The placements of (q_bar, k_bar, v_bar), and of the arguments; a cotangent that is absent has none."""
    from torch.distributed.tensor import Partial, Replicate, Shard

    everywhere, rows, columns, due = Replicate(), Shard(0), Shard(1), Partial()

    def rule(results: list[Placement], output_bar_at: Placement, attn_bar_at: Placement, *rest: Placement) -> Rule:
        bars = [None if bar is None else at for bar, at in ((output_bar, output_bar_at), (attn_bar, attn_bar_at))]
        return [*results], [*bars, *rest, None]

    rules = [
        rule([everywhere] * 3, everywhere, everywhere, everywhere, everywhere, everywhere, everywhere),
        # Queries: k_bar, (11), and v_bar, (12), are sums over them.
        rule([rows, due, due], rows, rows, rows, everywhere, everywhere, rows),
        # Keys: q_bar, (10), is a sum over them.
        rule([due, rows, rows], everywhere, columns, everywhere, rows, rows, columns),
    ]
    if attn_bar is None:
        # Features of the values: output_bar vᵀ in (8) is a sum over them, to which attn_bar would have to add but once.
        rules.append(rule([due, due, columns], columns, everywhere, everywhere, everywhere, columns, everywhere))
    return rules
