"""`gradparity serve` judges one kernel after the other by one oracle; none of them can cost another one its verdict."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from parity_tests.cli.app import app
from parity_tests.cli.commands.serve import Server
from parity_tests.harness.solutions.guest.launch import descendants

REFERENCE = "import torch\n\ndef norm(x, w):\n    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1.0) * w\n"
KERNEL = """\
import os, time
import torch

class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1.0) * w

    @staticmethod
    def backward(ctx, y_bar):
        BEFORE
        x, w = ctx.saved_tensors
        r = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1.0)
        p = y_bar * w
        return r * p - FACTOR * x * r**3 * (p * x).mean(-1, keepdim=True), (y_bar * x * r).sum(0)

def f(x, w):
    return Norm.apply(x, w)
"""
SHORT = ["--quick", "--only", "forward,vjp", "--dtype", "float32", "--device", "cpu", "--trial-timeout", "2"]


def _kernel(folder: Path, name: str, before: str = "", factor: str = "1.0") -> str:
    (folder / f"{name}.py").write_text(KERNEL.replace("BEFORE", before or "pass").replace("FACTOR", factor))
    return f"{folder}/{name}.py:f"


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:  # it has ended
        return ""


class Client:
    """Somebody who asks `gradparity serve` in a process."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            (sys.executable, "-m", "gradparity", "serve"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=os.environ | {"COLUMNS": "300", "XDG_CACHE_HOME": str(folder / "cache")} | environment,
        )

    def close(self) -> None:
        """Send no more."""
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def ask(self, **request: Any) -> dict[str, Any]:
        """Return the answer to a request."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def judge(self, kernel: str, *options: str, by: str = "reference.py:norm") -> dict[str, Any]:
        """Judge a kernel by a reference of the folder."""
        reference = ["--reference", f"{self.folder}/{by}", "--inputs", "x: (n,d), w: (d)"]
        return self.ask(id=kernel, check=[kernel, *reference, *(options or SHORT)])

    @property
    def judges(self) -> list[int]:
        """The processes that have an oracle, by their numbers."""
        return [pid for pid in descendants(self.process.pid) if "spawn_main" in _command(pid)]

    def descriptors(self) -> list[int]:
        """The numbers of open files of the judges, once no kernel's process is left, but for the one that forks."""
        until = time.monotonic() + 5.0
        while len(guests := [pid for pid in descendants(self.process.pid) if "start.py" in _command(pid)]) != 1:
            assert time.monotonic() < until, guests
            time.sleep(0.05)
        return [len(os.listdir(f"/proc/{pid}/fd")) for pid in self.judges]


LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it reads /proc")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "reference.py").write_text(REFERENCE)
    client = Client(folder)
    yield client
    client.close()
    assert client.process.wait(30.0) == 0


@LINUX
@pytest.mark.slow
def test_one_oracle_judges_many_kernels(client: Client) -> None:
    answer = client.judge(_kernel(client.folder, "right"))
    assert (answer["exit_code"], answer["report"]["passed"]) == (0, True), answer["text"]
    before = client.judges
    wrong = client.judge(_kernel(client.folder, "wrong", factor="2.0"))
    assert (wrong["id"], wrong["exit_code"]) == (f"{client.folder}/wrong.py:f", 1)
    assert wrong["report"]["summary"][0]["wrong"][0]["label"] == "x_bar"
    assert "x_bar" in wrong["text"]
    ways = {
        "crashes": ("import ctypes; ctypes.string_at(0)", "crashed (SIGSEGV)"),
        "ends": ("os._exit(0)", "exit code 0"),
        "hangs": ("time.sleep(1000)", "gives no answer for 2 s"),
        "raises": ("raise ValueError('no backward')", "no backward"),
    }
    for name, (code, words) in ways.items():
        answer = client.judge(_kernel(client.folder, name, before=code))
        assert answer["exit_code"] == 1, answer["text"]
        assert words in answer["text"], name
    arguments = [f"{client.folder}/right.py:f", "--reference", f"{client.folder}/reference.py:nrom"]
    mistyped = client.ask(check=[*arguments, "--inputs", "x: (n,d), w: (d)"])
    assert mistyped["exit_code"] == 2
    assert "has no nrom (did you mean 'norm'?)" in mistyped["text"]
    again = client.judge(f"{client.folder}/right.py:f")
    assert again["exit_code"] == 0, again["text"]
    assert {*before} <= {*client.judges}


@LINUX
@pytest.mark.slow
def test_nothing_is_shared_and_nothing_is_left(client: Client) -> None:
    """A kernel that changes PyTorch for itself does not change it for the next; each process ends with its verdict."""
    spoilt = "torch.rsqrt = None"
    assert client.judge(_kernel(client.folder, "spoils", before=spoilt))["exit_code"] == 1
    descriptors, right = client.descriptors(), _kernel(client.folder, "right")
    for _ in range(3):
        assert client.judge(right)["exit_code"] == 0
    assert client.descriptors() <= descriptors  # its pipes may be closed a moment after a process has ended


@LINUX
@pytest.mark.slow
def test_a_kernel_has_another_chance(client: Client) -> None:
    """Its file may be the same, and what it reads another."""
    flag = client.folder / "flag"
    flag.touch()
    kernel = _kernel(client.folder, "depends", before=f"os.path.exists({str(flag)!r}) and os._exit(1)")
    assert client.judge(kernel)["exit_code"] == 1
    flag.unlink()
    answer = client.judge(kernel)
    assert answer["exit_code"] == 0, answer["text"]


@LINUX
@pytest.mark.slow
def test_a_reference_that_changes_has_another_oracle(client: Client) -> None:
    right = _kernel(client.folder, "right")
    assert client.judge(right)["exit_code"] == 0
    before = client.judges
    (client.folder / "reference.py").write_text(REFERENCE.replace("* w", "* 2 * w"))
    try:
        assert client.judge(right)["exit_code"] == 1
        assert client.judges != before
    finally:
        (client.folder / "reference.py").write_text(REFERENCE)
    assert client.judge(right)["exit_code"] == 0


@LINUX
@pytest.mark.slow
def test_references_have_their_own_modules_and_their_own_pytorch(client: Client) -> None:
    """Modules of one name; one that changes PyTorch, and whose child reads what it can; one that is in a package."""
    tripled = "import torch\n_of_torch = torch.rsqrt\ntorch.rsqrt = lambda x: 3 * _of_torch(x)\n"
    texts = {
        "a/scale.py": "SCALE = 1\n",
        "a/ref.py": "from scale import SCALE\n" + REFERENCE.replace("* w", "* w * SCALE"),
        "b/scale.py": "import subprocess\nsubprocess.run(['cat'], check=True)\nSCALE = 3\n",
        "b/ref.py": "from scale import SCALE\n" + REFERENCE.replace("* w", "* w * SCALE"),
        "c/__init__.py": "",
        "c/scale.py": "SCALE = 1\n",
        "c/ref.py": tripled + "from c.scale import SCALE\n" + REFERENCE.replace("* w", "* w * SCALE"),
    }
    for name, text in texts.items():
        (client.folder / name).parent.mkdir(exist_ok=True)
        (client.folder / name).write_text(text)
    right = _kernel(client.folder, "right")
    expected = {"a/ref.py:norm": 0, "b/ref.py:norm": 1, "c/ref.py:norm": 1, "reference.py:norm": 0}
    assert {by: client.judge(right, by=by)["exit_code"] for by in expected} == expected
    (client.folder / "c" / "scale.py").write_text("SCALE = 1 / 3\n")
    assert client.judge(right, by="c/ref.py:norm")["exit_code"] == 0
    assert len(client.judges) == 3, "as many references are kept"


@LINUX
@pytest.mark.slow
def test_first_order_is_said_and_code_may_be_shared(client: Client) -> None:
    """Without --only a line names what is left out; a helper of the reference's file is no shortcut."""
    kernel = _kernel(client.folder, "shares")
    file = client.folder / "shares.py"
    forward = "return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1.0) * w"
    file.write_text("from reference import norm\n" + file.read_text().replace(forward, "return norm(x, w)"))
    answer = client.judge(kernel, *SHORT[:1], *SHORT[3:-2])
    assert answer["exit_code"] == 0, answer["text"]
    assert "second order, forward mode, vmap and others: a server judges to first order" in answer["text"]
    assert any(row["check"] == "shortcuts" for row in answer["report"]["rows"])


@LINUX
@pytest.mark.slow
def test_nothing_is_left_of_a_server_that_is_ended(tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text(REFERENCE)
    here = tmp_path / "here"
    code = f"import subprocess; subprocess.Popen(['sleep', '1000']); open({str(here)!r}, 'w'); time.sleep(1000)"
    kernel = _kernel(tmp_path, "sleeps", before=code)
    (tmp_path / "temporary").mkdir()
    client = Client(tmp_path, TMPDIR=str(tmp_path / "temporary"))
    assert client.process.stdin is not None
    arguments = [kernel, "--reference", f"{tmp_path}/reference.py:norm", "--inputs", "x: (n,d), w: (d)", *SHORT[:-2]]
    client.process.stdin.write(json.dumps({"check": arguments}) + "\n")
    client.process.stdin.flush()
    until = time.monotonic() + 300.0
    while not here.exists():
        assert time.monotonic() < until
        time.sleep(0.2)
    started = descendants(client.process.pid)
    assert any("sleep" in _command(pid) for pid in started)
    client.process.terminate()
    assert client.process.wait(30.0) == 130
    client.close()
    until = time.monotonic() + 10.0  # what tracks the processes' resources ends by itself
    while left := [_command(pid) for pid in started if _command(pid)]:
        assert time.monotonic() < until, left
        time.sleep(0.05)
    assert [*(tmp_path / "temporary").glob("gradparity-*")] == []


@pytest.mark.slow
def test_what_cannot_be_judged_apart_is_judged_as_by_check(client: Client) -> None:
    """Second order, and a kernel in the file of its reference."""
    answer = client.judge(_kernel(client.folder, "right"), "--quick", "--only", "vjp_of_vjp", "--dtype", "float64")
    assert answer["exit_code"] == 0, answer["text"]
    (client.folder / "both.py").write_text(KERNEL.replace("BEFORE", "pass").replace("FACTOR", "1.0") + REFERENCE)
    both = f"{client.folder}/both.py"
    arguments = [f"{both}:f", "--reference", f"{both}:norm", "--inputs", "x: (n,d), w: (d)", *SHORT[:-2]]
    answer = client.ask(check=arguments)
    assert answer["exit_code"] == 0, answer["text"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"judge", "the line: not a request: no JSON at line 1: Expecting value"),
        (b"[]", "it must be an object"),
        (b"\xff\xfe", "no text in UTF-8 at byte 0"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"id": 3, "check": "kernel.py:f"}', "check must be a list"),
        (b'{"id": 3, "check": ["kernel.py:f", "--json=x"]}', "the answer has the report; leave the option out"),
        (b'{"id": 3, "check": ["no.py:f", "--reference", "r.py:g", "--inputs", "x: (n)"]}', "no.py: no such file"),
        (b'{"id": 3, "check": ["no.py", "--bogus"]}', "No such option: --bogus"),
    ],
)
def test_a_request_that_is_none_is_told(line: bytes, words: str) -> None:
    server = Server(typer.main.get_command(app))
    (text,) = server.answers([b"\n", line + b"\n"])
    server.close()
    answer = json.loads(text)
    assert (answer["exit_code"], answer["report"]) == (2, None)
    assert words in answer["text"]
    assert answer["id"] == (3 if b'"id"' in line else None)


def test_a_defect_costs_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    command = typer.main.get_command(app)
    server = Server(command)

    def defective(*_: object, **__: object) -> None:
        raise LookupError("what nobody thought of")

    with monkeypatch.context() as patched:
        patched.setattr(command, "main", defective)
        (first,) = server.answers([b'{"id": 1, "check": ["none.py"]}'])
    (second,) = server.answers([b'{"id": 2, "check": ["none.py"]}'])
    server.close()
    answer = json.loads(first)
    assert (answer["id"], answer["exit_code"], answer["report"]) == (1, 2, None)
    assert "this is a defect of gradparity: LookupError: what nobody thought of" in answer["text"]
    assert "none.py: no such file" in json.loads(second)["text"]


@LINUX
@pytest.mark.slow
def test_a_socket_answers_one_after_the_other_and_goes_with_the_server(tmp_path: Path) -> None:
    place = tmp_path / "socket"
    command = (sys.executable, "-m", "gradparity", "serve", "--socket", str(place))
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == f"listening at {place}; Ctrl-C ends it\n"
        assert place.stat().st_mode & 0o077 == 0
        with socket.socket(socket.AF_UNIX) as impatient:
            impatient.connect(str(place))
            impatient.sendall(b"\xff none\n")
        for number in range(2):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(place))
                with connection.makefile("rw") as lines:
                    lines.write(json.dumps({"id": number, "check": ["none.py"]}) + "\n")
                    lines.flush()
                    answer = json.loads(lines.readline())
            assert (answer["id"], answer["exit_code"]) == (number, 2)
        process.send_signal(signal.SIGINT)
        assert process.wait(30.0) == 130
    assert not place.exists()


def test_a_socket_that_cannot_be_made_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        app(["serve", "--socket", str(tmp_path / "none" / "socket")])
    assert end.value.code == 2
    assert "none/socket: No such file or directory" in " ".join(capsys.readouterr().err.split())
