"""The sweep on the workers of a Dask cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import Executor

from parity_tests.sweep.guard import end_children


class NoDask(ImportError):
    """Raised where Dask distributed is not installed; the message says how to install it."""


@contextlib.contextmanager
def executor_of(address: str) -> Iterator[Executor]:
    """An executor whose tasks run on the workers of the scheduler at an address.

    A task of a worker that ends is given to another one. The workers must not be daemonic processes, which may start no
    others: `dask worker --no-nanny`, or the setting `distributed.worker.daemon: False` where they are started.

    Raises:
        NoDask: it is not installed.
        ValueError: no scheduler answers there.
    """
    try:
        from distributed import Client  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise NoDask("--dask needs Dask distributed: pip install 'gradparity[dask]'") from error
    try:
        client = Client(address)
    except OSError as error:
        raise ValueError(f"--dask {address}: no scheduler answers") from error
    with client:
        try:
            yield client.get_executor(pure=False)
        finally:
            client.run(end_children)
