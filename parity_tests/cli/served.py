"""The processes that a request to `gradparity serve` finds: with PyTorch, JAX, references and their oracles."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from parity_tests.cli.interruption import Interruption
from parity_tests.cli.sources.against_reference import AgainstReference
from parity_tests.cli.sources.source import Source
from parity_tests.harness.isolation.imported import stamps
from parity_tests.harness.isolation.processes import Pool

_KEPT = 3  # references, each of which has a process of some hundred MiB


def _served(sources: Sequence[Source]) -> list[AgainstReference]:
    return [s for s in sources if isinstance(s, AgainstReference) and s.apart is not None and s.apart.forked]


def all_forked(sources: Sequence[Source]) -> bool:
    """Whether each is a kernel that runs in a process that is forked for it, so that the one that judges can stay."""
    return len(_served(sources)) == len(sources)


class Served(Interruption):
    """The processes that judge the requests, one after the other. It is the context of their commands.

    A signal is the server's, which ends at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self._pools: dict[Hashable, Pool] = {}  # by the reference, the one that was asked last at the end

    def pool(self, sources: Sequence[Source]) -> Pool:
        """Return the pool of a reference: whatever that does to its process, or imports there, no other one meets.

        It is a new one if a module that its process has imported is not what it was.
        """
        key = tuple((source.reference, source.start) for source in _served(sources))
        pool = self._pools.pop(key, None)
        if pool is not None and stamps(pool.imported) != pool.imported:
            pool.__exit__()
            pool = None
        self._pools[key] = pool or Pool()
        if len(self._pools) > _KEPT:
            self._pools.pop(next(iter(self._pools))).__exit__()
        return self._pools[key]

    def close(self) -> None:
        """End the processes, at any moment, and remove their files."""
        for pool in [*self._pools.values()]:
            pool.__exit__()
        self._pools = {}
