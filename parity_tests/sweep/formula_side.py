"""The derivatives of a case by the text of an entry's formulas, as it stands or changed; nothing is compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from parity_tests.sweep.cases import Arrays, Case, Side, tensors_of
from parity_tests.sweep.recorded_calls import as_torch
from torch_impl import derivatives
from torch_impl.derivatives import Entry


def side_of(entry: Entry, case: Case) -> Side:
    """Return the values, VJP and JVP of a case, the derivatives by an entry's formulas.

    The values and what formulas see of them are PyTorch's.
    """
    given = {key: as_torch(value) for key, value in case.call.arguments.items()}
    bound = derivatives.bind(entry, (), given)
    several = len(entry.result_names) > 1
    flat = [as_torch(y) for y in case.call.results]
    results: list[Any] = flat if several else [flat[0] if _is_one(case) else flat]

    def side(mode: str, arguments: Sequence[np.ndarray]) -> Arrays:
        tensors = tensors_of(arguments[len(case.inputs) :])
        if mode == "forward":
            return [case.call.results[i] for i in case.results.values()]
        if mode == "vjp":
            return _vjp(entry, case, bound, results, dict(zip(case.results.values(), tensors, strict=True)))
        return _jvp(entry, case, bound, results, dict(zip(case.inputs, tensors, strict=True)))

    return side


def _is_one(case: Case) -> bool:
    """Whether the only result is a tensor, and not a list."""
    return not any("[" in name for name in case.results)


def _vjp(entry: Entry, case: Case, bound: dict[str, Any], results: list[Any], bars: dict[int, torch.Tensor]) -> Arrays:
    count = len(case.call.results)
    flat = [bars.get(i) for i in range(count)]
    cotangents: list[Any] = flat if len(results) > 1 or _is_one(case) else [flat]
    wanted = {name.partition("[")[0] for name in case.inputs}
    found = derivatives.vjp(entry, bound, results, cotangents, wanted)
    return [_array(_item(found, name), x) for name, x in case.inputs.items()]


def _jvp(entry: Entry, case: Case, bound: dict[str, Any], results: list[Any], dots: dict[str, torch.Tensor]) -> Arrays:
    plain = {name.partition("[")[0] for name in dots}
    tangents = {
        name: dots[name] if name in dots else [dots[x] for x in dots if x.startswith(f"{name}[")] for name in plain
    }
    found = derivatives.jvp(entry, bound, results, tangents)
    return [_array(_item(found, name), case.call.results[i]) for name, i in case.results.items()]


def _item(found: Any, name: str) -> torch.Tensor | None:
    plain, bracket, index = name.partition("[")
    of = found.get(plain)
    return of if not bracket or of is None else of[int(index.removesuffix("]"))]


def _array(x: torch.Tensor | None, like: np.ndarray) -> np.ndarray:
    return np.zeros_like(like) if x is None else x.detach().resolve_conj().resolve_neg().numpy()
