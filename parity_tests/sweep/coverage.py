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


_HOW_TO_CALL = """```python
import jax
import jax.numpy as jnp
from jax_ref import aten
from jax_ref import functional as F

x = jnp.array([[1.0, 2.0, 4.0], [3.0, 0.0, 5.0]])
probabilities = aten.softmax(x, 1)
variances = aten.var(x, 1, correction=0)  # the arguments select the overload
gradient = jax.grad(lambda x: F.cross_entropy(x, jnp.array([2, 0]), label_smoothing=0.1))(x)
```

An operator has the name and the arguments of its schema in PyTorch's native_functions.yaml; `help(aten.softmax)` shows
them, with shapes and an example for those that are used most, and `aten.OPERATORS["aten::var.correction"]` is one
overload. Reductions of losses are numbers there; `jax_ref.functional` has the names, arguments and defaults of
torch.nn.functional, with `reduction="mean"`, for what these operators compute; `dropout` takes a `key`. Both have
stubs, so that an editor and a type checker know them.

- `aten.scaled_dot_product_attention` is the softmax attention that models have, `F.scaled_dot_product_attention` too.
  [jax_ref.dot_product_attention](jax_attention.md) has tanh in its place.
- Products have JAX's precision. On a GPU or TPU it is less than that of float32 by default;
  `jax.default_matmul_precision("highest")` has all of it, and what judges always sets it.
- A JAX function cannot raise at an index that is out of range. Those that read (`gather`, `index_select`, `embedding`,
  `take`, `index`) clamp it; those that write (`scatter`, `index_add`, `index_put`, ...) leave it out; losses of classes
  (`cross_entropy_loss`, `nll_loss`) are NaN.
- A call that is wrong otherwise is refused: by the operator, the argument, the axis and the sizes."""


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
            *_HOW_TO_CALL.splitlines(),
            "",
            "| family | number | operators |",
            "|---|---|---|",
            *rows,
            "",
            "## Core ATen operators not covered",
            "",
            "| operator | why it is not here |",
            "|---|---|",
            *missing,
            "",
        ]
    )
