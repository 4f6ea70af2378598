"""The parameters of an equation, which a rule takes by their names."""

from __future__ import annotations

import functools
import inspect
from typing import Any


@functools.cache
def by_name(rule: Any, place: int) -> Any:
    """A rule that is called with an equation among its operands, and takes the equation's parameters as keywords.

    Args:
        rule: its keyword-only arguments are the names of the parameters that it takes; with `**params` it takes all.
            Where JAX gives the equation no parameter of a name, the argument's default stands.
        place: which of its positional arguments the equation is.

    Returns:
        `rule` itself, if it takes no parameters or is no function.
    """
    if not callable(rule):
        return rule
    kinds = {name: argument.kind for name, argument in inspect.signature(rule).parameters.items()}
    names = [name for name, kind in kinds.items() if kind is inspect.Parameter.KEYWORD_ONLY]
    takes_all = inspect.Parameter.VAR_KEYWORD in kinds.values()
    if not names and not takes_all:
        return rule

    @functools.wraps(rule)
    def with_parameters(*args: Any) -> Any:
        params = args[place].params
        return rule(*args, **(params if takes_all else {name: params[name] for name in names if name in params}))

    return with_parameters
