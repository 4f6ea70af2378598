"""All of our own calls of operators, as arrays: those that are written out, and what differentiating them calls."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from parity_tests.sweep.drawn import fixed_seed
from parity_tests.sweep.operators import is_operator, operator_of
from parity_tests.sweep.own_calls import SOURCE, own_calls
from parity_tests.sweep.recorded_calls import RecordedCall, as_numpy, as_torch, calls_made_by, differentiate
from parity_tests.sweep.written_calls import NAMED, WRITTEN, Arguments


@functools.cache
def all_own_calls(wanted: frozenset[str]) -> tuple[Sequence[RecordedCall], Sequence[RecordedCall]]:
    """All of our own calls of wanted operators; and the calls of such that differentiating those twice makes.

    Each is also made with complex numbers, unless PyTorch refuses them, and in float64 if it is written in float32.
    """
    found = [call for call in own_calls() if call.name in wanted]
    with fixed_seed():
        made = {f"aten::{name}": (make(), NAMED.get(name, {})) for name, make in WRITTEN.items()}
    found += [call for name, given in made.items() if (call := _call(name, *given)) is not None]
    for call in list(found):
        arguments = {key: as_torch(value) for key, value in call.arguments.items()}
        dtypes = {x.dtype for x in tree_leaves(arguments) if isinstance(x, torch.Tensor)}
        for dtype, change in ((torch.float32, _as_double), (torch.float64, _as_complex)):
            if dtype in dtypes:
                other = _call(call.name, (), tree_map_only(torch.Tensor, change, arguments))
                found += [] if other is None else [other]
    return found, [backward for call in found for backward in _differentiated(call, wanted)]


def written_call(name: str) -> RecordedCall | None:
    """The call of an operator that is written out, as it stands; None if there is none, or PyTorch refuses it."""
    plain = name.removeprefix("aten::")
    if plain not in WRITTEN:
        return None
    with fixed_seed():
        arguments = WRITTEN[plain]()
    return _call(name, arguments, NAMED.get(plain, {}))


def _as_double(x: torch.Tensor) -> torch.Tensor:
    return x.double() if x.dtype == torch.float32 else x


def _as_complex(x: torch.Tensor) -> torch.Tensor:
    """Numbers with these real parts, and random imaginary ones."""
    if x.dtype != torch.float64:
        return x
    return torch.complex(x, torch.randn(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(1)))


def _call(name: str, args: Arguments, kwargs: Mapping[str, Any]) -> RecordedCall | None:
    """The call of an operator with its results; None if PyTorch has none, or refuses, or NumPy has no such values."""
    if not is_operator(name):
        return None
    operator = operator_of(name)
    named = {a.name: value for a, value in zip(operator._schema.arguments, args, strict=False)} | dict(kwargs)
    with fixed_seed(), contextlib.suppress(RuntimeError, TypeError):
        arguments = {key: as_numpy(value) for key, value in named.items()}
        results = operator(**{key: as_torch(value) for key, value in arguments.items()})
        returned = tuple(results) if isinstance(results, list | tuple) else (results,)
        return RecordedCall(name, arguments, tuple(map(as_numpy, returned)), SOURCE)
    return None


def _differentiated(call: RecordedCall, wanted: frozenset[str]) -> list[RecordedCall]:
    """Return the calls of wanted operators that PyTorch makes while a call is differentiated twice."""
    arguments = {key: as_torch(value) for key, value in call.arguments.items()}
    inputs = [x for x in tree_leaves(arguments) if isinstance(x, torch.Tensor) and x.dtype.is_floating_point]
    inputs += [x for x in tree_leaves(arguments) if isinstance(x, torch.Tensor) and x.dtype.is_complex]
    for x in inputs:
        x.requires_grad_()
    # A leaf that requires a gradient must not be written to.
    copies = tree_map_only(torch.Tensor, torch.clone, arguments)
    return calls_made_by(lambda: differentiate(operator_of(call.name)(**copies), inputs, 2), wanted, SOURCE)
