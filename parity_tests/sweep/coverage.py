"""Which operators of ATen `jax_ref.aten` has, by family, and which of the core it does not have: docs/aten.md."""

from __future__ import annotations

from collections import Counter

import torch

from jax_ref import aten
from parity_tests.sweep.operators import operator_of
from parity_tests.sweep.own_calls import own_names

_DRAWN = "draws random numbers"
_SIZES = "returns a size, which is Python's in JAX"
MISSING = {  # of the core, with the reason
    "_local_scalar_dense": "returns a number of Python's",
    "empty": "has no values",
    "empty_strided": "has no values",
    "native_dropout": _DRAWN,
    "rand": _DRAWN,
    "randn": _DRAWN,
    "randperm": _DRAWN,
    "resize_": "writes to its input",
    "sym_is_contiguous": "is about memory",
    "sym_numel": _SIZES,
    "sym_size": _SIZES,
    "sym_storage_offset": _SIZES,
    "sym_stride": _SIZES,
}


def packets() -> set[str]:
    """Return the operators of `jax_ref.aten`, without overloads and without "aten::"."""
    return {name.removeprefix("aten::").partition(".")[0] for name in aten.OPERATORS}


def core() -> set[str]:
    """Return the operators of the core ATen IR, which PyTorch marks with a tag."""
    found = set()
    for full in torch._C._dispatch_get_all_op_names():  # torch.ops lists what was asked for only
        if full.startswith("aten::") and torch.Tag.core in operator_of(full).tags:
            found.add(full.removeprefix("aten::").partition(".")[0])
    return found


def as_markdown() -> str:
    """Return the page."""
    by_family: dict[str, list[str]] = {}
    for name in aten.OPERATORS:
        by_family.setdefault(aten.OPERATORS.family(name), []).append(name.removeprefix("aten::"))
    counts = Counter({family: len({n.partition(".")[0] for n in names}) for family, names in by_family.items()})
    rows = [
        f"| `{family}` | {counts[family]} | {', '.join(sorted({n.partition('.')[0] for n in names}))} |"
        for family, names in sorted(by_family.items())
    ]
    missing = [f"| `{name}` | {reason} |" for name, reason in MISSING.items()]
    return "\n".join(
        [
            "# ATen's operators in JAX",
            "",
            f"`jax_ref.aten` has {len(packets())} operators of ATen as plain JAX functions, among them",
            f"{len(core() & packets())} of the {len(core())} of the core ATen IR. Each is certified: its values",
            "against PyTorch's, JAX's JVP of it against differences, and the VJP against the JVP, by PyTorch's own",
            "samples (OpInfo), and by calls in `parity_tests/sweep/own_calls.py` for",
            f"{len(own_names())} that these do not reach.",
            "",
            "| family | operators | |",
            "|---|---|---|",
            *rows,
            "",
            "## What the core has besides",
            "",
            "| operator | why it is not here |",
            "|---|---|",
            *missing,
            "",
        ]
    )
