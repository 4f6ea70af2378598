"""Common parts of the evaluators' forms: a callable that knows its module, and the spec of a solution not built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from parity_tests.harness.specs.spec import OpSpec


@dataclass(frozen=True, eq=False)
class Evaluated:
    """A function of tensors.

    Attributes:
        func: the module or function that it calls, as in a `functools.partial`: what messages and checks are about.
        call: how it is called.
    """

    func: Callable
    call: Callable

    def __call__(self, *args: Any, **params: Any) -> Any:
        """Call it."""
        return self.call(*args, **params)


def nothing_to_judge(name: str) -> OpSpec:
    """A specification under a problem's name, for a solution that is not built: nothing is ever judged by it."""
    return OpSpec(name, primal=lambda x: x * x, signature="(n)->(n)")
