"""The entries of PyTorch's derivatives.yaml, or of another file, found by name."""

from __future__ import annotations

import difflib
import functools
from pathlib import Path

from torch_impl.derivatives.entry import Entry
from torch_impl.derivatives.reading import PACKAGED_DERIVATIVES, PACKAGED_FUNCTIONS, read


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
    if path is None:
        return _packaged()
    return read(path, native_functions or PACKAGED_FUNCTIONS, undeclared)


@functools.cache
def _packaged() -> tuple[Entry, ...]:
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
