"""gradparity serve: what takes seconds is there already, and a kernel is judged for each line that comes in."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import socket
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from parity_tests.cli.exit_codes import COULD_NOT_RUN
from parity_tests.cli.interruption import Interruption
from parity_tests.cli.served import Served
from parity_tests.cli.terminal import complain, tell
from parity_tests.harness.data_files import Malformed, field, parsed_json

_REQUEST = '{"check": ["kernel.py:f", "--reference", "norm.py:g", "--inputs", "x: (n)"]}'


def serve(
    context: typer.Context,
    place: Annotated[
        Path | None,
        typer.Option("--socket", help="Listen at this Unix socket, and not at standard input; a file that is made."),
    ] = None,
) -> None:
    """Judge a kernel for each line of JSON that comes in, with PyTorch, JAX and the reference's oracle kept ready.

    {"id": 1, "check": ["kernel.py:f", "--reference", "norm.py:g", "--inputs", "x: (n,d)"]} has the arguments of
    `gradparity check`. The answer is a line, too: {"id": 1, "exit_code": 0, "report": {...}, "text": "All agree: ..."}.
    Each kernel runs in a process of its own, to first order. Exit codes: 0 the input has ended, 2 it cannot listen.
    """
    server = Server(context.find_root().command)
    interruption = context.obj if isinstance(context.obj, Interruption) else Interruption()
    interruption.last_words = server.close
    try:
        with contextlib.closing(server):
            if place is None:
                with _own_streams() as (requests, answers):
                    for answer in server.answers(requests):
                        answers.write(answer)
                        answers.flush()
            else:
                _listen(place, server, interruption)
    except OSError as error:
        remedy = "; remove it, if no server listens there" if error.errno == errno.EADDRINUSE else ""
        complain(f"--socket {place}: {error.strerror or error}{remedy}" if place is not None else str(error))
        raise typer.Exit(COULD_NOT_RUN) from error


class Server:
    """Answers requests by a command with subcommands, `gradparity`; the processes that judge stay until `close`."""

    def __init__(self, command: Any) -> None:
        self._command, self._served = command, Served()
        self._lock = threading.Lock()  # what is printed is that of one request
        self._stack = contextlib.ExitStack()
        self._report = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="gradparity-")), "report.json")

    def answers(self, requests: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the answer to each line, in order."""
        for line in requests:
            if line.strip():
                yield json.dumps(self.answered(line)).encode() + b"\n"

    def answered(self, line: bytes) -> dict[str, Any]:
        """Return the answer to a request; one that is none is answered by exit code 2 and a text, as other errors."""
        number = None
        try:
            request = parsed_json(line, "the line", "a request")
            number = request.get("id") if isinstance(request, dict) else None
            number = number if isinstance(number, int | str) else None
            arguments = field(request, "check", list[str])
            if any(argument.partition("=")[0] == "--json" for argument in arguments):
                raise Malformed("--json: the answer has the report; leave the option out")
        except Malformed as error:
            why = f"{error}; a request is a line of JSON: {_REQUEST}"
            return {"id": number, "exit_code": COULD_NOT_RUN, "report": None, "text": f"gradparity: {why}\n"}
        return {"id": number, **self.checked(arguments)}

    def checked(self, arguments: Sequence[str]) -> dict[str, Any]:
        """Run `gradparity check` with these arguments; returns exit code, report and text."""
        text = io.StringIO()
        with self._lock:
            self._report.unlink(missing_ok=True)
            with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
                code = self._served.run(self._command, ["check", "--json", str(self._report), *arguments])
            report = json.loads(self._report.read_text(encoding="utf-8")) if self._report.exists() else None
        return {"exit_code": code, "report": report, "text": text.getvalue()}

    def close(self) -> None:
        """End the processes that judge, and all that they have left, at any moment."""
        self._served.close()
        self._stack.close()


@contextlib.contextmanager
def _own_streams() -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Standard input and output for requests and answers alone.

    Whatever else is printed, by a reference too, goes to stderr, and what a reference starts has nothing to read.
    """
    with open(os.dup(0), "rb") as requests, open(os.dup(1), "wb") as answers:
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        try:
            yield requests, answers
        finally:
            os.dup2(requests.fileno(), 0)
            os.dup2(answers.fileno(), 1)


def _listen(place: Path, server: Server, interruption: Interruption) -> None:
    """Answer whoever connects to a socket, one after the other."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))

        def last_words() -> None:
            place.unlink(missing_ok=True)
            server.close()

        interruption.last_words = last_words
        try:
            os.chmod(place, 0o600)  # whoever can write to it runs code
            listening.listen()
            tell(f"listening at {place}; Ctrl-C ends it")
            while True:
                connection, _ = listening.accept()
                with connection, connection.makefile("rb") as requests, contextlib.suppress(OSError):
                    for answer in server.answers(requests):
                        connection.sendall(answer)
        finally:
            place.unlink(missing_ok=True)
