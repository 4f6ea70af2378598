"""A solution that ends, hangs or lies costs one call; what it leaves is ended, and what is hidden it does not see."""

from __future__ import annotations

import json
import secrets
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from parity_tests.harness.exceptions.from_solution import REFUSALS, NoAnswer, as_error
from parity_tests.harness.isolation.orphans import Adopted
from parity_tests.harness.solutions import process as processes
from parity_tests.harness.solutions.guest.loading import description
from parity_tests.harness.solutions.guest.wire import Limits
from parity_tests.harness.solutions.process import MOST_ENDS, SolutionProcess, Solved
from parity_tests.harness.solutions.protection import Protection, protection
from parity_tests.harness.solutions.proxy import Solution
from parity_tests.harness.solutions.signs import signs_of
from parity_tests.suite.harness.solutions.stranger import STRANGER

X = torch.tensor([1.0, -2.0, 3.0])
LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it reads /proc")


@pytest.fixture(scope="module")
def solution(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Solution]:
    path: Path = tmp_path_factory.mktemp("stranger") / "stranger.py"
    path.write_text(STRANGER)
    (path.parent / "secret.py").write_text("the reference")
    process = SolutionProcess(Solved(path, "call", hidden=(path.parent / "secret.py",), seconds=20.0))
    yield Solution(process)
    process.close()


@pytest.fixture(autouse=True)
def _patient(solution: Solution) -> Iterator[None]:
    yield
    solution.process._ends = 0


def _goes_on(solution: Solution) -> bool:
    return torch.equal(solution("view", X), X[1:])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("which", "how"),
    [
        ("crashes", r"its process crashed \(SIGSEGV\) at .*, called by stranger.py:\d+ in crashes"),
        ("ends", r"its process has ended \(exit code 0\)"),
    ],
)
def test_a_process_that_ends_is_started_again(solution: Solution, which: str, how: str) -> None:
    with pytest.raises(NoAnswer, match=how):
        solution(which, X)
    assert _goes_on(solution)


@pytest.mark.slow
def test_one_that_hangs_is_ended(solution: Solution) -> None:
    quick = SolutionProcess(Solved(solution.process.solved.path, "call", seconds=2.0))
    quick.start()
    with pytest.raises(NoAnswer, match="gives no answer for 2 s"):
        Solution(quick)("hangs", X)
    quick.close()


@pytest.mark.slow
def test_after_so_many_ends_it_is_not_called_any_more(solution: Solution) -> None:
    solution.process._ends = MOST_ENDS - 1
    with pytest.raises(NoAnswer, match="has ended"):
        solution("ends", X)
    with pytest.raises(NoAnswer, match=f"not called any more, since its processes have ended {MOST_ENDS} times"):
        solution("ends", X)


def _message(header: bytes) -> str:
    return (struct.pack(">I", len(header)) + header).hex()


_GARBAGE = {
    "no message": ("ff" * 64, "a header of 4,294,967,295 bytes"),
    "half a message": (struct.pack(">I", 100).hex() + "7b", "its process has ended|closed"),
    "no JSON": (_message(b"\xff{"), "a header that is no JSON"),
    "nested": (_message(b"[" * 30_000), "a header that is no JSON"),
    "a list": (_message(b"[]"), "a header without the lengths"),
    "NaN": (_message(b'{"n": NaN, "buffers": []}'), "a header that is no JSON"),
    "negative": (_message(b'{"n": 1, "buffers": [-1]}'), "a header without the lengths"),
    "too much": (_message(b'{"n": 1, "buffers": [9000000000]}'), "1 buffers of 9,000,000,000 bytes"),
    "another": (_message(b'{"n": 123456, "buffers": []}'), "an answer to another question"),
    "a digit": (_message(b'{"n": ' + b"9" * 10_000 + b', "buffers": []}'), "a header that is no JSON"),
}


@LINUX
@pytest.mark.slow
@pytest.mark.parametrize("name", _GARBAGE)
def test_bytes_that_are_no_answer(solution: Solution, name: str) -> None:
    data, how = _GARBAGE[name]
    with pytest.raises(NoAnswer, match=how):
        solution("says", X, data)
    assert _goes_on(solution)


def _answer(outputs: object = None, tree: object = None, written: object = ()) -> dict[str, object]:
    one = {"dtype": "float32", "device": "cpu", "shape": [2], "buffer": 0, "requires_grad": False, "alias": None}
    outputs = [one | outputs] if isinstance(outputs, dict) else outputs
    return {"n": "N", "outputs": outputs, "tree": {"tensor": 0} if tree is None else tree, "written": written}


_LIES = {
    "nothing": {"n": "N"},
    "no outputs": _answer(7),
    "another shape": _answer({"shape": [3]}),
    "a huge shape": _answer({"shape": [2**39, 2**39, 0]}),
    "no shape": _answer({"shape": [-1]}),
    "a dtype": _answer({"dtype": "object"}),
    "a buffer": _answer({"buffer": 5}),
    "a device": _answer({"device": "cuda"}),
    "beyond the memory": _answer({"alias": [0, [1], 2**40, False, False]}),
    "a negative stride": _answer({"alias": [0, [-1], 0, False, False]}),
    "no storage": _answer({"alias": [9, [1], 0, False, False]}),
    "a tensor": _answer({}, {"tensor": 4}),
    "a deep tree": _answer({}, json.loads('{"list": [' * 50 + "]}" * 50)),
    "a float": _answer({}, {"float": "0x1p99999999"}),
    "a strange device": _answer({}, {"device": "nowhere"}),
    "written": _answer({}, None, [[9, 0]]),
    "written badly": _answer({}, None, [[0, 0]]),
    "overwritten": _answer({}) | {"overwritten": 7},
    "overwritten badly": _answer({}) | {"overwritten": [["1", 0, 0]]},
    "a name": {"n": "N", "error": {"type": "a b", "message": 7, "kind": [], "place": {}}},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", _LIES)
def test_an_answer_of_another_form(solution: Solution, name: str) -> None:
    with pytest.raises(Exception, match="answers something that is no result" if name != "a name" else "^$"):
        solution("answers", X, json.dumps(_LIES[name]))
    if name == "a name":
        solution.process.close()  # it would go on lying
    assert _goes_on(solution)


def test_an_exception_has_no_type_but_those_of_the_table() -> None:
    error = as_error({"type": "KeyboardInterrupt", "kind": "SystemExit", "message": "m", "line": -1, "place": "a\nb"})
    assert not isinstance(error, KeyboardInterrupt | SystemExit)
    assert (str(error), error.line, error.place) == ("m", None, "a")
    assert str(as_error(None)) == ""


@pytest.mark.parametrize("kind", REFUSALS)
def test_an_exception_that_may_refuse_an_axis_arrives_as_one(kind: type[Exception]) -> None:
    assert isinstance(as_error(description(kind("m"))), kind)


def test_a_message_has_limits() -> None:
    assert Limits().header < 2**24


@pytest.mark.slow
@LINUX
def test_a_hidden_file_is_not_seen(solution: Solution) -> None:
    if not protection().namespaces:
        pytest.skip(str(protection()))
    path = solution.process.solved.hidden[0]
    assert path.read_text() == "the reference"
    with pytest.raises(RuntimeError, match="out of a solution's reach"):
        solution("reads", X, str(path))


def _seconds() -> str:
    """So long that it is known by it: nothing else sleeps for as long."""
    return f"54321.{secrets.randbelow(10**9):09}"


def _runs(words: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if words in path.read_bytes().replace(b"\0", b" ").decode(errors="replace"):
                return True
        except OSError:
            continue
    return False


@pytest.mark.slow
@LINUX
def test_a_process_that_it_leaves_ends_with_it(solution: Solution) -> None:
    if not protection().namespaces:
        pytest.skip(str(protection()))
    seconds = _seconds()
    solution("leaves_a_process", X, seconds)
    _wait_for(f"sleep {seconds}", True)
    solution.process.close()
    _wait_for(f"sleep {seconds}", False)


def _wait_for(words: str, running: bool) -> None:
    until = time.monotonic() + 10
    while _runs(words) is not running and time.monotonic() < until:
        time.sleep(0.05)
    assert _runs(words) is running


@LINUX
@pytest.mark.slow
def test_without_namespaces(solution: Solution, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call of the reference is named, under whatever name, from a thread, too; processes that it leaves end."""
    monkeypatch.setattr(processes, "protection", lambda: Protection(False, "none are wanted"))
    (tmp_path / "problem.py").write_text("def norm(x):\n    return x * 2\n")
    (tmp_path / "solution.py").write_text(
        STRANGER + "\n\ndef copied(x):\n"
        "    import threading, types\n"
        "    from problem import norm\n"
        "    other = types.FunctionType(norm.__code__.replace(co_name='g', co_qualname='g'), norm.__globals__)\n"
        "    found = []\n"
        "    thread = threading.Thread(target=lambda: found.append(other(x)))\n"
        "    thread.start()\n"
        "    thread.join()\n"
        "    return found[0]\n\n"
        "def unprofiled(x):\n    sys.setprofile(None)\n    return x * 1\n"
    )
    problem = tmp_path / "problem.py"
    process = SolutionProcess(Solved(tmp_path / "solution.py", "call", reference=problem, hidden=(problem,)))
    called = Solution(process)
    assert torch.equal(called("view", X), X[1:])
    assert signs_of(called) == []
    called("copied", X)
    assert any(sign.startswith("calls the reference's function g") for sign in signs_of(called))
    if not hasattr(sys, "monitoring"):  # which that does not switch off
        called("unprofiled", X)
        assert "switches off the profile function that looks for calls of the reference" in signs_of(called)
    seconds = _seconds()
    called("leaves_a_process", X, seconds)
    _wait_for(f"sleep {seconds}", True)
    process.close()
    _wait_for(f"sleep {seconds}", False)


@LINUX
def test_orphans_are_adopted_and_ended() -> None:
    kept, seconds = subprocess.Popen(["sleep", _seconds()]), _seconds()
    leaves = f"import os\nif not os.fork():\n    os.setsid()\n    os.execv('/bin/sleep', ['sleep', '{seconds}'])\n"
    with Adopted().adopting() as adopted:
        subprocess.run([sys.executable, "-c", leaves], check=True)
        _wait_for(f"sleep {seconds}", True)
        adopted.end()
        _wait_for(f"sleep {seconds}", False)
        assert kept.poll() is None, "it was there before"
    kept.kill()
    kept.wait()
