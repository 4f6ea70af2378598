"""One entry of a derivatives.yaml as a record."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torchgen.model import FunctionSchema, SchemaKind

Rule = Literal["written", "auto_linear", "auto_element_wise"]


@dataclass(frozen=True)
class Formula:
    """A formula: the names on its left, and the C++ expression on its right.

    Of a VJP the names are inputs, of a JVP outputs. Where the file says `auto_linear` or `auto_element_wise`, `rule`
    tells so, and `text` is the expression that PyTorch's codegen puts in its place.
    """

    names: tuple[str, ...]
    text: str
    line: int
    rule: Rule = "written"


@dataclass(frozen=True)
class Entry:
    """An entry of derivatives.yaml: the formulas of one operator, for one dispatch key.

    `key` is "Default", or the autograd key that the entry is for. `saved_inputs` and `saved_outputs` are the
    expressions that the node keeps for its backward, such as `self` or `self.sym_sizes()`. `view_of` is the schema of
    the view operator whose formulas these are, where codegen made the entry for a `*_copy` operator. `condition` is the
    C++ expression that says whether the output is differentiable at all, where the entry leaves it to the arguments.
    """

    schema: str
    signature: FunctionSchema
    path: Path
    line: int
    key: str
    vjps: tuple[Formula, ...]
    jvps: tuple[Formula, ...]
    saved_inputs: tuple[str, ...]
    saved_outputs: tuple[str, ...]
    non_differentiable: tuple[str, ...]
    not_implemented: tuple[str, ...]
    differentiable_outputs: tuple[bool, ...]
    condition: str | None = None
    view_of: str | None = None

    @property
    def name(self) -> str:
        """The operator with its overload: "sum.dim_IntList"."""
        return str(self.signature.name)

    @property
    def argument_names(self) -> tuple[str, ...]:
        """The arguments in the schema's order."""
        return tuple(argument.name for argument in self.signature.arguments.flat_all)

    @property
    def result_names(self) -> tuple[str, ...]:
        """The names of the outputs in formulas: those of the schema, or result, or result0, result1, ..."""
        returns = self.signature.returns
        default = ["result"] if len(returns) == 1 else [f"result{i}" for i in range(len(returns))]
        return tuple(default[i] if r.name is None or self.in_place else r.name for i, r in enumerate(returns))

    @property
    def in_place(self) -> bool:
        """Whether the operator writes to its first argument, as `zero_` does."""
        return self.signature.kind() is SchemaKind.inplace
