"""PyTorch's operators: by their names, and those that have a derivative formula."""

from __future__ import annotations

import torch

from torch_impl.derivatives import Entry, entries, lookup


def operator_of(name: str) -> torch._ops.OpOverload:
    """Return the operator of ATen with this name, as "aten::sum.dim_IntList"; "aten::" may be left out."""
    packet, _, overload = name.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def is_operator(name: str) -> bool:
    """Return whether ATen has an operator with this name."""
    try:
        operator_of(name)
    except AttributeError:
        return False
    return True


def operators() -> list[str]:
    """Return the entries of the installed PyTorch's derivatives.yaml that have a formula, by their names.

    Those that codegen adds for `*_copy` operators have the formulas of others, and are left out.
    """
    own = [entry for entry in entries() if entry.key == "Default" and entry.view_of is None]
    return [entry.name for entry in own if _has_formula(entry)]


def named(name: str) -> list[str]:
    """Return the operator with a name, as "sum.dim_IntList"; all overloads of "sum".

    Raises:
        LookupError: there is no such operator, or no formula of it.
    """
    overloads = [each for each in operators() if name in (each, each.partition(".")[0])]
    if not overloads:
        raise LookupError(f"PyTorch has no derivative formula of {lookup(name).name}")
    return overloads


def _has_formula(entry: Entry) -> bool:
    return any(set(formula.names) - set(entry.not_implemented) for formula in (*entry.vjps, *entry.jvps))
