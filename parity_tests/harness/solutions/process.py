"""The judging side of a solution's process: how it is started, asked and ended. It believes nothing that it is told."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from parity_tests.harness.exceptions.frames import frames, innermost_calls
from parity_tests.harness.exceptions.from_solution import FromSolution, NoAnswer, as_error
from parity_tests.harness.numbers.numerics import settings
from parity_tests.harness.solutions.guest import values
from parity_tests.harness.solutions.guest.launch import descendants
from parity_tests.harness.solutions.guest.wire import Channel, Ended, Limits, TooLate, WireError
from parity_tests.harness.solutions.numbers import Numbers
from parity_tests.harness.solutions.nursery import Forked, nursery
from parity_tests.harness.solutions.protection import LAUNCH, START, configuration, protection
from parity_tests.harness.solutions.results import Results, tensor_of

MOST_ENDS = (
    8  # of a solution's processes, each of which costs the start of another, after which it is not called any more
)
_START_SECONDS = 120.0  # in which PyTorch must have been imported
_ROOM = 2**28  # bytes of an answer beyond `_TIMES` what was sent
_TIMES = 64
_ALIVE = 3  # processes at a time
_KEPT = ("PATH", "LANG", "LD_LIBRARY_PATH", "CC", "CXX", "MAX_JOBS", "PYTHONHASHSEED", "TZ", "ROCM_HOME")
_KEPT_PREFIXES = ("LC_", "CUDA", "NVIDIA", "TRITON", "TORCH", "OMP_", "MKL_", "OPENBLAS_", "KMP_", "HIP", "ROCR")

_starter = ThreadPoolExecutor(
    1, thread_name_prefix="gradparity-start"
)  # Linux ends a process with the thread that started it
_alive: list[SolutionProcess] = []
_place: list[Path | None] = [None]  # of the folders of solutions; None for the usual one of temporary files


def keep_in(folder: Path) -> None:
    """Have the folders of solutions be made in this one, whose owner removes it even if this process is killed."""
    _place.append(folder)


@dataclass(frozen=True)
class Solved:
    """Where a solution is, and what it must not reach; plain data.

    Attributes:
        path: the file of the solution.
        name: in it, of a function, or of a class of modules.
        arguments: of the class, with the seed after which it is made; None for a function.
        reference: the file of the reference, which must not run; None where it is an operator.
        operator: the name of the operator of ATen that must not be called.
        hidden: files and folders that it does not see, the reference's among them.
        seconds: that it may take for a call.
        forked: whether its process is forked from one that has imported PyTorch, in milliseconds, and has no
            namespaces: for code of the user's own.
    """

    path: Path
    name: str
    arguments: tuple[Sequence[Any], int] | None = None
    reference: Path | None = None
    operator: str | None = None
    hidden: Sequence[Path] = ()
    seconds: float = 600.0
    forked: bool = False


@dataclass(frozen=True, eq=False)
class _Asked:
    """A request without an answer yet: to whom, its number, how long the answer may be, and how long it may take."""

    channel: Channel
    number: int
    generation: int
    total: int
    seconds: float
    deadline: float


@dataclass(eq=False)
class SolutionProcess:
    """A process that runs a solution, which is started when it is first asked, and again after it has ended.

    Attributes:
        solved: what it runs.
        parameters: of the module that it has made, by name; empty for a function.
        released: the processes and the numbers of calls that will not be differentiated any more.
        generation: of the process that runs: a call of an earlier one cannot be differentiated any more.
        training: whether a module is called in the mode of training.
        numbers: of the tensors that were sent.
        results: the tensors of its answers.
    """

    solved: Solved
    parameters: dict[str, Any] = field(default_factory=dict)
    released: list[tuple[int, int]] = field(default_factory=list)
    generation: int = 0
    training: bool = True
    numbers: Numbers = field(default_factory=Numbers)
    results: Results = field(default_factory=Results)
    _ends: int = 0
    _running: subprocess.Popen | Forked | None = None
    _channel: Channel | None = None
    _folder: Path | None = None
    _number: int = 0
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _reading: threading.Lock = field(default_factory=threading.Lock)
    _waiting: set[int] = field(default_factory=set)  # the numbers of requests without an answer yet
    _answers: dict[int, tuple[dict[str, Any], list[bytearray]]] = field(default_factory=dict)

    def ask(
        self, header: Mapping[str, Any], buffers: Sequence[bytes] = (), generation: int | None = None
    ) -> tuple[dict[str, Any], list[bytearray]]:
        """Return the answer to a request, which is a dictionary of whatever JSON can be.

        Its "n" is the number of the call, and "generation" that of the process; both are this side's.

        Args:
            header: plain data with the key "do".
            buffers: bytes.
            generation: of the process that the request is about; None to start one if there is none.

        Raises:
            FromSolution: the solution raises an exception, its process ends, or gives no answer that can be one.
        """
        with self._lock:
            if generation is not None and generation != self.generation:
                raise NoAnswer("its process has ended between the forward and the backward")
            self._started()
            asked = self._sent(header, buffers, self.solved.seconds)
        answer, received = self._received(asked)
        try:
            self.results.overwrite(answer.get("overwritten", []), received)
        except Exception as error:  # whatever an answer that is none may raise
            raise self.refuted(str(error)) from None
        return answer, received

    def start(self) -> None:
        """Start the process, and load the solution, unless that is done; raises what `ask` does."""
        with self._lock:
            self._started()

    def facts(self) -> dict[str, Any]:
        """Return what the process says of the shortcuts that the solution takes; it may be anything."""
        answer, _ = self.ask({"do": "facts"})
        facts = answer.get("facts")
        return facts if isinstance(facts, dict) else {}

    def close(self) -> None:
        """End the process; another one is started if it is asked again."""
        with self._lock:
            self._end()
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None

    def _started(self) -> None:
        if self in _alive:
            _alive.remove(self)
        _alive.append(self)
        if self._running is not None:
            return
        if self._ends >= MOST_ENDS:
            raise NoAnswer(f"is not called any more, since its processes have ended {MOST_ENDS} times")
        for other in _alive[:-_ALIVE]:
            other._end()
            _alive.remove(other)
        self._running, self._channel = _starter.submit(self._start).result()
        self.generation += 1
        self.released.clear()
        self.results.clear()
        solved = self.solved
        # The user's own kernel may share code with the reference.
        reachable = not (solved.forked or (self._in_namespaces and solved.reference in solved.hidden))
        file = os.path.realpath(solved.reference) if solved.reference is not None and reachable else None
        switches = [
            (name.removeprefix("torch.backends."), values.as_data(value, _no_tensor))
            for name, value in settings().items()
            if name.startswith("torch.backends.")
        ]
        begin = {"do": "begin", "file": file, "operator": solved.operator, "switches": switches}
        self._asked(begin, (), max(_START_SECONDS, solved.seconds))
        self._load()

    def _load(self) -> None:
        solved, packed, made = self.solved, values.Packed(), None
        if solved.arguments is not None:
            arguments, seed = solved.arguments
            made = {"arguments": values.as_data(tuple(arguments), packed.add), "seed": seed}
        request = {"do": "load", "path": str(solved.path), "name": solved.name, "made": made}
        try:
            sent = request | self.numbers.request(packed)
            answer, buffers = self._asked(sent, packed.buffers, max(_START_SECONDS, solved.seconds))
        except FromSolution:
            self._lost()
            raise
        try:
            self.parameters = _parameters(answer, buffers)
        except Exception as error:  # whatever an answer that is none may raise
            raise self.refuted(str(error)) from None

    @property
    def _in_namespaces(self) -> bool:
        return not self.solved.forked and protection().namespaces

    def _start(self) -> tuple[subprocess.Popen | Forked, Channel]:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="gradparity-solution-", dir=_place[-1]))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        there, asking = os.pipe()
        answers, back = os.pipe()
        try:
            with (self._folder / "said").open("wb") as said:
                running = self._launched(self._folder, there, back, said)
        except BaseException:
            os.close(asking)
            os.close(answers)
            raise
        finally:
            os.close(there)
            os.close(back)
        return running, Channel(answers, asking)

    def _launched(self, folder: Path, there: int, back: int, said: BinaryIO) -> subprocess.Popen | Forked:
        if self.solved.forked:
            return nursery().forked(there, back, said.fileno())
        further = [path for path in sys.path if "site-packages" in path or "dist-packages" in path]
        command = (sys.executable, "-I", "-B", str(START), f"{there},{back}", *further)
        configured = configuration(command, folder, self.solved.hidden, self._in_namespaces, (there, back))
        return subprocess.Popen(
            (sys.executable, "-I", "-S", str(LAUNCH), configured),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            pass_fds=(there, back),
            start_new_session=True,
            env=_environment(folder / "own"),
        )

    def _asked(
        self, header: Mapping[str, Any], buffers: Sequence[bytes], seconds: float
    ) -> tuple[dict[str, Any], list[bytearray]]:
        return self._received(self._sent(header, buffers, seconds))

    def _sent(self, header: Mapping[str, Any], buffers: Sequence[bytes], seconds: float) -> _Asked:
        """Send a request to the process that runs; the lock is held."""
        assert self._channel is not None
        self._number += 1
        released, self.released[:] = [n for generation, n in self.released if generation == self.generation], []
        main = threading.current_thread() is threading.main_thread()
        facts = {"n": self._number, "release": released, "gone": self.results.gone()}
        facts |= {"thread": 0 if main else threading.get_ident()}
        step = not main and sys.getprofile() is not None  # as the threads do that are to meet
        total = _ROOM + _TIMES * sum(map(len, buffers))
        asked = _Asked(self._channel, self._number, self.generation, total, seconds, time.monotonic() + seconds)
        self._waiting.add(self._number)
        with self._ended_by_failure(asked):
            self._channel.send({**header, **facts, "step": step}, buffers, asked.deadline)
        return asked

    def _received(self, asked: _Asked) -> tuple[dict[str, Any], list[bytearray]]:
        """Wait for an answer; meanwhile take those of other threads, too, each of which looks whether its own came."""
        profile = sys.getprofile()
        sys.setprofile(None) if profile is not None else None
        try:
            with self._ended_by_failure(asked):
                answer, received = self._read(asked)
        finally:
            sys.setprofile(profile) if profile is not None else None
        if "error" in answer:
            raise as_error(answer["error"])
        return answer | {"generation": asked.generation}, received

    def _read(self, asked: _Asked) -> tuple[dict[str, Any], list[bytearray]]:
        while True:
            with self._reading:
                if asked.number in self._answers:
                    return self._answers.pop(asked.number)
                if self._channel is not asked.channel:
                    raise Ended
                answer, received = asked.channel.receive(Limits(total=asked.total), asked.deadline)
                number = answer.get("n")
                if type(number) is not int or number not in self._waiting:
                    raise WireError("an answer to another question")
                self._waiting.remove(number)
                self._answers[number] = answer, received

    @contextlib.contextmanager
    def _ended_by_failure(self, asked: _Asked) -> Iterator[None]:
        """A block of a conversation, which is over if it fails."""
        try:
            yield
            return
        except Ended:
            how = f"its process {self._how_it_ended(asked)}"
        except TooLate:
            how = f"gives no answer for {asked.seconds:g} s"
        except WireError as error:
            how = f"answers something that is no result: {error}"
        except BaseException:  # an interruption: nobody knows how far it got
            with self._lock:
                self._end()
            raise
        with self._lock:
            if self._channel is asked.channel:
                self._lost()
        raise NoAnswer(how)

    def _how_it_ended(self, asked: _Asked) -> str:
        running = self._running
        if running is None or self._channel is not asked.channel:
            return "has ended"
        try:
            code = running.wait(5.0)
        except subprocess.TimeoutExpired:
            return "has closed its pipes"
        calls = ""
        with contextlib.suppress(OSError):
            assert self._folder is not None
            said = (self._folder / "said").read_bytes()[-(2**16) :].decode(errors="replace")
            calls = innermost_calls(frames(said.replace("Fatal Python error", "\nFatal Python error")))
        return f"{_end_of(code)}{calls}"

    def _lost(self) -> None:
        self._ends += 1
        self._end()

    def refuted(self, why: str) -> NoAnswer:
        """End the process, whose answer is no result; returns the exception that says so."""
        with self._lock:
            self._lost()
        return NoAnswer(f"answers something that is no result: {why}")

    def _end(self) -> None:
        if self._running is not None:
            left = [] if self._in_namespaces else descendants(self._running.pid)  # which end with their namespace
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            self._running.kill()
            self._running.wait()
            self._running = None
            self.generation += 1
        channel = self._channel
        if channel is not None:
            with self._reading:  # whoever reads has seen the end
                self._channel = None
                self._answers.clear()
                self._waiting.clear()
                channel.close()


def _parameters(answer: Mapping[str, Any], buffers: Sequence[bytearray]) -> dict[str, Any]:
    described = answer["parameters"]
    if not isinstance(described, list) or len(described) != len(buffers):
        raise ValueError("parameters")
    found = {}
    for one, buffer in zip(described, buffers, strict=True):
        name, dtype, shape = one
        if type(name) is not str:
            raise ValueError("a parameter's name")
        found[name] = tensor_of(dtype, shape, buffer)
    return found


def _no_tensor(x: object) -> int:
    raise TypeError("no tensor is expected")


def _end_of(code: int) -> str:
    number = code - 128 if code > 128 else -code
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"has ended (exit code {code})"
    return "was killed (SIGKILL; out of memory?)" if name == "SIGKILL" else f"crashed ({name})"


def _environment(own: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key in _KEPT or key.startswith(_KEPT_PREFIXES)}
    folders = dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME"), str(own))
    caches = {"TORCH_EXTENSIONS_DIR": "extensions", "TRITON_CACHE_DIR": "triton", "TORCHINDUCTOR_CACHE_DIR": "inductor"}
    return kept | folders | {key: str(own / name) for key, name in caches.items()}
