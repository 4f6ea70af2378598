"""An operation of an audit again, at the inputs and cotangents that it had: by another function, or as it is now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from parity_tests.auditing.operation import Facts, Place
from parity_tests.auditing.recorded import decoded, unknown_in
from parity_tests.auditing.stored import Stored
from parity_tests.certificate.certificate import Row
from parity_tests.conversion.graph import is_known, numbers_of
from parity_tests.harness.exceptions.errors import described
from parity_tests.harness.numbers import devices
from parity_tests.harness.numbers.formats import PRECISIONS


class NotReplayed(Exception):
    """Raised where an operation cannot be run again; the message names what is wrong, and what to do about it."""


def operator_named(name: str) -> Callable[..., Any]:
    """Return an operator of PyTorch's, such as "aten::mul.Tensor".

    Raises:
        NotReplayed: it is none of those that an audit judges.
    """
    packet, _, overload = name.removeprefix("aten::").partition(".")
    found = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
    if not name.startswith("aten::") or not is_known(name.replace("_.", ".").removesuffix("_")) or found is None:
        raise NotReplayed(f"{name!r} is no operator of PyTorch's; say which function it is now: --case file.py:NAME")
    return found


def replayed(function: Callable[..., Any], facts: Facts, arrays: Mapping[str, np.ndarray]) -> Sequence[Row]:
    """Compare a function's results and gradients with the right ones, within the bounds of the audit.

    Args:
        function: takes the operation's arguments.
        facts: how it was called.
        arrays: its inputs and cotangents, and what is right with its bounds, by name.

    Raises:
        NotReplayed: an array is missing or does not fit the others, or the function cannot be called by the arguments,
            or returns something else.
    """
    _verify_whole(facts, arrays)
    moved = [each.input for each in facts.compared if each.input is not None]
    tensors = {name: _tensor(facts, name, arrays[name]) for name in facts.dtypes}
    leaves = [tensors[name].requires_grad_() for name in moved]
    outputs = _called(function, facts, {name: x.clone() if name in moved else x for name, x in tensors.items()})
    wanted = [(y, tensors[name], name) for name, k in facts.cotangents.items() for y in [_output(outputs, k, name)]]
    for y, c, name in wanted:
        _verify_alike(y, c, name)
    known = [(y, c) for y, c, _ in wanted if y.requires_grad]
    gradients: Sequence[Tensor | None] = [None] * len(leaves)
    if known and leaves:
        try:
            gradients = torch.autograd.grad([y for y, _ in known], leaves, [c for _, c in known], allow_unused=True)
        except Exception as error:
            raise NotReplayed(f"its backward raised {described(error)}") from error
    by_input = dict(zip(moved, gradients, strict=True))
    underflow = PRECISIONS[facts.precision].tiny
    return [_stored(each, outputs, by_input, arrays).row(underflow) for each in _comparable(facts)]


def _comparable(facts: Facts) -> list[Place]:
    """All but results that the operation does not return, such as what a compiled region writes to its arguments."""
    return [each for each in facts.compared if each.input is not None or each.place is not None]


def _verify_whole(facts: Facts, arrays: Mapping[str, np.ndarray]) -> None:
    if facts.precision not in PRECISIONS:
        raise NotReplayed(f"its precision is {facts.precision!r}, which is none of {', '.join(PRECISIONS)}")
    if not _comparable(facts):
        raise NotReplayed("nothing in it can be compared")
    compared = [f"{kind} {each.name}" for each in _comparable(facts) for kind in ("right", "bound of")]
    for name in (*facts.dtypes, *facts.cotangents, *compared):
        if name not in arrays:
            raise NotReplayed(f"it has no array {name!r}; write the file again: gradparity audit ... --arrays FOLDER")
    for each in _comparable(facts):
        right, bound = arrays[f"right {each.name}"], arrays[f"bound of {each.name}"]
        if each.input is not None and each.input not in facts.dtypes:
            raise NotReplayed(f"{each.name!r} is by {each.input!r}, which is none of its inputs")
        if each.input is not None and right.shape != arrays[each.input].shape:
            raise NotReplayed(
                f"'right {each.name}' has the shape {right.shape}, and {each.input!r} {arrays[each.input].shape}; they "
                "must be of one shape"
            )
        if bound.shape not in ((), right.shape):
            raise NotReplayed(
                f"'bound of {each.name}' has the shape {bound.shape}, and 'right {each.name}' {right.shape}; they must "
                "be of one shape"
            )


def _tensor(facts: Facts, name: str, array: np.ndarray) -> Tensor:
    dtype = getattr(torch, facts.dtypes[name], None)
    if not isinstance(dtype, torch.dtype):
        raise NotReplayed(f"the dtype of {name!r} is {facts.dtypes[name]!r}, which PyTorch does not have")
    reason = devices.missing(facts.device)
    if reason is not None:
        raise NotReplayed(f"it ran on {facts.device}, and {reason}")
    try:
        found = torch.from_numpy(array.copy()).to(dtype)
        whole = np.array_equal(numbers_of(found), array, equal_nan=array.dtype.kind in "fc")
    except (TypeError, RuntimeError):
        whole = False
    if not whole:
        raise NotReplayed(f"{name!r} has numbers of {array.dtype} that {facts.dtypes[name]} does not have")
    if not found.is_floating_point() and name in [each.input for each in facts.compared]:
        raise NotReplayed(f"{name!r} is of {facts.dtypes[name]}, by which there is no gradient")
    return found.to(facts.device)


def _called(function: Callable[..., Any], facts: Facts, tensors: Mapping[str, Tensor]) -> list[Any]:
    """All that the function returns."""
    given = dict[str, Any]()
    for name, value in facts.arguments.items():
        if next(unknown_in(value), None) is not None:
            continue
        try:
            given[name] = decoded(value, tensors)
        except LookupError as error:
            raise NotReplayed(f"its argument {name} has no value here: {error}") from error
    if not given:
        raise NotReplayed("its arguments are not known, since its forward was not seen")
    args = [value for name, value in given.items() if name not in facts.keywords]
    kwargs = {name: value for name, value in given.items() if name in facts.keywords}
    try:
        return tree_leaves(function(*args, **kwargs))
    except Exception as error:
        left = [f"{name} ({kind})" for name, value in facts.arguments.items() for kind in unknown_in(value)]
        without = f", without {', '.join(left)}, which the file cannot hold" if left else ""
        raise NotReplayed(f"called by ({', '.join(given)}){without}, it raised {described(error)}") from error


def _output(outputs: Sequence[Any], place: int, name: str) -> Tensor:
    if not 0 <= place < len(outputs) or not isinstance(outputs[place], Tensor):
        found = f"{len(outputs)} results" if len(outputs) != 1 else "one result"
        raise NotReplayed(f"it returns {found}, and {name} is of number {place}, counted from 0; return a tensor there")
    return outputs[place]


def _verify_alike(y: Tensor, cotangent: Tensor, name: str) -> None:
    if y.shape != cotangent.shape:
        raise NotReplayed(
            f"its result has the shape {tuple(y.shape)}, and had {tuple(cotangent.shape)} in the step, as {name}; "
            "return that shape"
        )
    if y.dtype != cotangent.dtype:
        raise NotReplayed(f"its result is of {y.dtype}, and was of {cotangent.dtype} in the step; return that dtype")


def _stored(
    of: Place, outputs: Sequence[Any], gradients: Mapping[str, Tensor | None], arrays: Mapping[str, np.ndarray]
) -> Stored:
    right, bound = arrays[f"right {of.name}"], arrays[f"bound of {of.name}"]
    if of.input is not None:
        x = gradients[of.input]
        found = np.zeros(right.shape) if x is None else numbers_of(x).astype(np.float64)
    else:
        assert of.place is not None
        found = numbers_of(_output(outputs, of.place, of.name))
    return Stored(of.name, right, bound, found, of.finite)
