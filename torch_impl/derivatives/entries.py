"""One entry of a derivatives.yaml as a record, and the entries of PyTorch's own file, found by name."""

from __future__ import annotations

import difflib
import functools
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
    """What a derivatives.yaml says of one operator, for one dispatch key.

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
        """What formulas call the outputs: their names in the schema, or result, or result0, result1, ..."""
        returns = self.signature.returns
        default = ["result"] if len(returns) == 1 else [f"result{i}" for i in range(len(returns))]
        return tuple(default[i] if r.name is None or self.in_place else r.name for i, r in enumerate(returns))

    @property
    def in_place(self) -> bool:
        """Whether the operator writes to its first argument, as `zero_` does."""
        return self.signature.kind() is SchemaKind.inplace


def entries(
    path: Path | None = None, native_functions: Path | None = None, undeclared: bool = False
) -> tuple[Entry, ...]:
    """The entries of PyTorch's derivatives.yaml, or of the file `path`, in the order of the file.

    `native_functions` is the file that declares the operators of `path`; left out, they are PyTorch's. With
    `undeclared` an operator of another name is taken as its entry has it. PyTorch's own entries are read once, which
    takes seconds; those that codegen adds for `*_copy` operators come last.

    Raises:
        DerivativesFileError: a file cannot be read, or an entry of it is wrong.
    """
    from torch_impl.derivatives.reading import PACKAGED_FUNCTIONS, read

    if path is None:
        return _packaged()
    return read(path, native_functions or PACKAGED_FUNCTIONS, undeclared)


@functools.cache
def _packaged() -> tuple[Entry, ...]:
    from torch_impl.derivatives.reading import PACKAGED_DERIVATIVES, PACKAGED_FUNCTIONS, read

    return read(PACKAGED_DERIVATIVES, PACKAGED_FUNCTIONS)


def lookup(
    name: str,
    key: str = "Default",
    path: Path | None = None,
    native_functions: Path | None = None,
    undeclared: bool = False,
) -> Entry:
    """The entry of an operator, with its overload where it has one: "tanh", "sum.dim_IntList"; see `entries`.

    Raises:
        LookupError: there is no such entry; names those nearest to it.
        DerivativesFileError: see `entries`.
    """
    found = {entry.name: entry for entry in entries(path, native_functions, undeclared) if entry.key == key}
    if name in found:
        return found[name]
    overloads = [other for other in found if other.partition(".")[0] == name.partition(".")[0]]
    near = overloads or difflib.get_close_matches(name, found, n=3, cutoff=0.5) or list(found)[:3]
    hint = f"; there is {', '.join(near)}" if near else ""
    where = "" if path is None else f" in {path}"
    raise LookupError(f"no entry for {name!r} of the key {key}{where}{hint}")
