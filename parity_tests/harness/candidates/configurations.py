"""One kernel in many configurations, as an autotuner tries them: a candidate for each."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import torch

from parity_tests.harness.candidates.base import AnyCandidate
from parity_tests.harness.candidates.configuration_names import by_name
from parity_tests.harness.exceptions.errors import first_line


def configured(
    kernel: Callable[..., Any], configurations: Iterable[Mapping[str, object]]
) -> dict[str, Callable[..., Any]]:
    """Return a candidate for each configuration of a kernel, by name, for `crosscheck`, which certifies once for all.

        report = crosscheck(configured(kernel, [{"block": 16}, {"block": 32}]), spec)

    Args:
        kernel: a function on tensors that takes the configuration as keyword arguments.
        configurations: the keyword arguments, each of which must be named alike in `kernel`.

    Returns:
        The kernel with each configuration; the name is the configuration's, such as "block=16, num_warps=4".

    Raises:
        TypeError: `kernel` takes no keyword arguments, or not those of a configuration, or a configuration is none.
        ValueError: there are no configurations, or two are the same.
    """
    _check_kernel(kernel)
    found = by_name(configurations)
    for number, each in enumerate(found.values()):
        _check_keywords(kernel, each, number)
    return {name: partial(kernel, **each) for name, each in found.items()}


def _check_kernel(kernel: object) -> None:
    owner = getattr(kernel, "__self__", None)
    if isinstance(owner, type) and issubclass(owner, torch.autograd.Function):
        raise TypeError(
            f"kernel: {owner.__name__}.apply takes no keyword arguments; write a function that hands them on, such as "
            f"def kernel(x, *, block): return {owner.__name__}.apply(x, block)"
        )
    if isinstance(kernel, torch.nn.Module | AnyCandidate) or not callable(kernel):
        raise TypeError(
            f"kernel: must be a function on tensors with keyword arguments, got {type(kernel).__name__}; write a "
            "function that calls it"
        )


def _check_keywords(kernel: Callable[..., Any], configuration: Mapping[str, object], number: int) -> None:
    try:
        signature = inspect.signature(kernel)
    except (TypeError, ValueError):  # of a builtin, which says so itself when it is called
        return
    try:
        signature.bind_partial(**configuration)
    except TypeError as error:
        name = getattr(kernel, "__name__", type(kernel).__name__)
        raise TypeError(f"configurations[{number}]: {name}{signature} {first_line(error)}") from error
