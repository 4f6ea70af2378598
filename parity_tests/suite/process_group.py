"""Several processes that work together, as tests need them: none outlives the test, whatever happens to the others."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path


def run_together(
    module: str, arguments: Sequence[Sequence[str]], folder: Path, environment: Mapping[str, str], seconds: float
) -> None:
    """Run a module in a process for each list of arguments, at once; what they print is in FOLDER/0.log, 1.log, ...

    Raises:
        AssertionError: one of them fails, or all do not end in time; the message is what it printed.
    """
    added = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONFAULTHANDLER": "1"}
    deadline = time.monotonic() + seconds
    with contextlib.ExitStack() as stack:
        processes = []
        for i, words in enumerate(arguments):
            log = stack.enter_context((folder / f"{i}.log").open("w"))
            command = [sys.executable, "-m", module, *words]
            process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **added, **environment}
            )
            processes.append(process)
            stack.callback(process.wait)
            stack.callback(process.kill)
        while any(process.poll() is None for process in processes):
            failed = any(process.poll() for process in processes)
            if failed or time.monotonic() > deadline:  # the others may wait for one that failed for ever
                break
            time.sleep(0.05)
        codes = [process.poll() for process in processes]
    for i, code in enumerate(codes):
        if code is None and any(codes):
            continue  # it was ended because of another
        said = (folder / f"{i}.log").read_text()
        if code is None:
            raise AssertionError(f"process {i} did not end in {seconds:g} s:\n{said}")
        if code != 0:
            raise AssertionError(f"process {i} ended with exit code {code}:\n{said}")
