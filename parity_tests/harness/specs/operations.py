"""How many operations of ATen a function of PyTorch is, without the graph that `torch.export` would make of them."""

from __future__ import annotations

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class TooMany(Exception):
    """Raised in a function that is more operations than are counted."""


class Counted(TorchDispatchMode):
    """Counts the operations of a block, which ends with `TooMany` if they are more than `most`, if that is given.

    A function that is composite counts as the operations that it is made of, as in a graph. So does a loop: each of its
    steps. `torch.cond`, and what it calls, is none.
    """

    supports_higher_order_operators = True

    @classmethod
    def is_infra_mode(cls) -> bool:
        """True: Dynamo, by which `torch.cond` runs, skips its code for good where it has met any other mode."""
        return True

    def __init__(self, most: int | None = None) -> None:
        super().__init__()
        self.most, self.operations = most, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operations += func.namespace == "aten"  # and not a question of what device a tensor is on
        if self.most is not None and self.operations > self.most:
            raise TooMany(f"more than {self.most:,} operations")
        return func(*args, **(kwargs or {}))
