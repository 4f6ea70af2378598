"""`python -m parity_tests` is `gradparity`: a program that tells in every case why it ends."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import NoReturn

from parity_tests.cli.exit_codes import COULD_NOT_RUN
from parity_tests.cli.interruption import Interruption


def main() -> None:
    """Run a command, and end this process with its exit code."""
    interruption = Interruption()
    interruption.install()  # before anything is imported that takes its time
    with _no_silent_end():
        code = _run(interruption)
    interruption.finish()
    if interruption.came:
        os._exit(code)  # whoever interrupts does not want to wait until PyTorch and JAX have been taken down
    sys.exit(code)


@contextlib.contextmanager
def _no_silent_end() -> Iterator[None]:
    """Within the block `os._exit(0)` in this process says that there was no verdict, and is exit code 2.

    Cases are loaded here by some commands. A process that one forks ends as it likes.
    """
    end, process = os._exit, os.getpid()

    def told(status: int) -> NoReturn:
        if status == 0 and os.getpid() == process:
            _say("the code that was loaded ended this process (os._exit(0)) before there was a verdict")
            status = COULD_NOT_RUN
        end(status)

    os._exit = told
    try:
        yield
    finally:
        os._exit = end


def _run(interruption: Interruption) -> int:
    if not _is_open(1):
        _say("standard output is closed, so nothing could be printed; redirect it to a file or to /dev/null")
        return COULD_NOT_RUN
    if not _is_open(2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    from parity_tests.cli.app import app
    from parity_tests.cli.terminal import OutputLost, complain, flushed

    told = False
    try:
        app(obj=interruption)
        code = 0
    except SystemExit as end:
        # Typer ends so in every case; after a broken pipe with code 1, which says that a candidate disagrees.
        failed = isinstance(end.__context__, OSError)
        code = COULD_NOT_RUN if failed or not isinstance(end.code, int) else end.code
    except OutputLost as error:
        complain(str(error))
        code, told = COULD_NOT_RUN, True
    except KeyboardInterrupt:
        interruption.end()
        raise
    except BaseException as error:
        code = COULD_NOT_RUN
        from parity_tests.harness.exceptions.defects import cause_in_environment, one_line_description

        known = isinstance(error, OSError) or cause_in_environment(error) is not None
        complain(f"{'' if known else 'this is a defect of gradparity: '}{one_line_description(error)}")
    if not flushed():
        if not told:
            complain("standard output cannot be written")
        code = COULD_NOT_RUN
    return code


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _say(text: str) -> None:
    if _is_open(2):
        os.write(2, f"gradparity: {text}\n".encode())


if __name__ == "__main__":
    main()
