"""The programs that an oracle has traced, each by what was asked for, and a digest of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.extend import core

from parity_tests.harness.language import jaxprs
from parity_tests.harness.language.digest import digest

Array = tuple[tuple[int, ...], np.dtype]  # its shape and dtype


class Request(NamedTuple):
    """A map to be traced, at arguments of these shapes and dtypes, None where one is absent.

    By autodiff of the plain primal, or by the formula that judges.
    """

    name: str
    by_autodiff: bool
    arguments: tuple[Array | None, ...]

    @classmethod
    def of(cls, name: str, args: Sequence[np.ndarray | None], by_autodiff: bool) -> Request:
        """The request of a map at arguments such as these."""
        return cls(name, by_autodiff, tuple(None if x is None else (np.shape(x), np.dtype(x.dtype)) for x in args))

    def example(self) -> list[np.ndarray | None]:
        """Arguments of these shapes and dtypes, which take no memory."""
        return [None if a is None else np.broadcast_to(np.zeros((), a[1]), a[0]) for a in self.arguments]


class Program(NamedTuple):
    """A map's jaxpr without its absent arguments and results, and which of the results are absent."""

    closed: core.ClosedJaxpr
    zero: list[bool]

    def run(self, args: Sequence[Any]) -> list:
        """Return all results by JAX, None for those that are absent; `args` has None for the absent arguments."""
        nonzero = iter(core.jaxpr_as_fun(self.closed)(*(x for x in args if x is not None)))
        return [None if absent else next(nonzero) for absent in self.zero]

    def digest(self) -> str:
        """The same for programs that compute the same, constants included.

        Raises:
            NoDigest: it does something that its text does not tell.
        """
        return f"{digest(self.closed)} {''.join('-+'[not absent] for absent in self.zero)}"


class Programs:
    """All programs that an oracle has traced so far.

    Attributes:
        primitives: the names of all of their primitives.
    """

    def __init__(self) -> None:
        self._traced: dict[Request, Program] = {}
        self._primals = dict[Sequence[tuple[int, ...]], core.ClosedJaxpr]()
        self.primitives = set[str]()

    def get(self, request: Request, trace: Callable[[], Program]) -> Program:
        """The program of a request, which is traced once."""
        if request not in self._traced:
            program = self._traced[request] = trace()
            self.primitives |= {jaxprs.name_of(eqn) for eqn in jaxprs.equations(program.closed.jaxpr)}
        return self._traced[request]

    def primal(self, shapes: Sequence[tuple[int, ...]], trace: Callable[[], core.ClosedJaxpr]) -> core.ClosedJaxpr:
        """The plain primal at inputs of these shapes, with all outputs, which is traced once for all maps."""
        if shapes not in self._primals:
            self._primals[shapes] = trace()
        return self._primals[shapes]

    def __iter__(self) -> Iterator[Request]:
        return iter(self._traced)
