"""The processes that `gradparity serve` and `--watch` keep: with PyTorch, JAX, references and their oracles."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Hashable, Sequence
from typing import Any

from parity_tests.cli.exit_codes import COULD_NOT_RUN
from parity_tests.cli.interruption import Interruption
from parity_tests.cli.sources.against_reference import AgainstReference
from parity_tests.cli.sources.source import Source
from parity_tests.cli.terminal import complain
from parity_tests.cli.used_files import used_by
from parity_tests.harness.isolation.imported import Stamps, stamps
from parity_tests.harness.isolation.orphans import Adopted
from parity_tests.harness.isolation.processes import Pool

_KEPT = 3  # references, each of which has a process of some hundred MiB


def _served(sources: Sequence[Source]) -> list[AgainstReference]:
    return [s for s in sources if isinstance(s, AgainstReference) and s.apart is not None and s.apart.forked]


def all_forked(sources: Sequence[Source]) -> bool:
    """Whether each is a kernel that runs in a process that is forked for it, so that the one that judges can stay."""
    return len(_served(sources)) == len(sources)


class Served(Interruption):
    """The processes that judge the requests, one after the other. It is the context of their commands.

    A signal is that of whoever asks, who ends at once.
    """

    def __init__(self) -> None:
        super().__init__()
        # By the reference, the one that was asked last at the end; each with the files that the reference uses.
        self._pools: dict[Hashable, tuple[Pool, Stamps]] = {}
        self._stack = contextlib.ExitStack()
        self._adopted = self._stack.enter_context(Adopted().adopting())

    def pool(self, sources: Sequence[Source]) -> Pool:
        """Return the pool of a reference: whatever that does to its process, or imports there, no other one meets.

        It is a new one if a module that its process has imported is not what it was, or a file that the reference names
        or could import.
        """
        served = _served(sources)
        key = tuple((source.reference, source.start) for source in served)
        used = stamps(used_by([file for source in served for file in source.reference.files(source.start)]))
        pool, before = self._pools.pop(key, (None, used))
        if pool is not None and (used != before or stamps(pool.imported) != pool.imported):
            pool.__exit__()
            pool = None
        self._pools[key] = pool or Pool(), used
        if len(self._pools) > _KEPT:
            oldest, _ = self._pools.pop(next(iter(self._pools)))
            oldest.__exit__()
        return self._pools[key][0]

    def run(self, command: Any, arguments: Sequence[str]) -> Any:
        """Run a command with subcommands, `gradparity`, by these processes; returns its exit code."""
        self.began = time.perf_counter()
        try:
            command.main([*arguments], prog_name="gradparity", obj=self)
        except SystemExit as end:
            return end.code
        except Exception as error:  # which would cost whatever is asked later its answer
            from parity_tests.harness.exceptions.defects import one_line_description

            complain(f"this is a defect of gradparity: {one_line_description(error)}")
            return COULD_NOT_RUN
        return 0

    def close(self) -> None:
        """End the processes, and all that they have left, at any moment, and remove their files."""
        for pool, _ in [*self._pools.values()]:
            pool.__exit__()
        self._pools = {}
        self._adopted.end()
        self._stack.close()
