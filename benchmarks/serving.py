"""Many kernels through one `gradparity serve`: the verdicts, the time of each, and what the server keeps.

Every tenth kernel crashes, hangs, fills memory or is wrong; the others are right.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from rich.console import Console

from benchmarks.campaign import bar, say_bars
from benchmarks.run import facts
from parity_tests.harness.solutions.guest.launch import descendants

REFERENCE = """\
import torch

def attention(q, k, v):
    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v
"""
KERNEL = """\
import os, time
import torch

class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        s = q.shape[-1] ** -0.5
        p = torch.softmax(q @ k.mT * s, -1)
        ctx.save_for_backward(q, k, v, p)
        return p @ v

    @staticmethod
    def backward(ctx, y_bar):
        q, k, v, p = ctx.saved_tensors
        s, block = q.shape[-1] ** -0.5, BLOCK
        BEFORE
        p_bar = y_bar @ v.mT
        z = p * (p_bar - (p * p_bar).sum(-1, keepdim=True)) * s
        return z @ k, z.mT @ q, p.mT @ y_bar

def f(q, k, v):
    return Attention.apply(q, k, v)
"""
FAULTS = {
    "crashes": "import ctypes; ctypes.string_at(0)",
    "hangs": "time.sleep(1000)",
    "fills memory": "globals().setdefault('held', []).append(torch.ones(2**22))",
    "is wrong": "y_bar = y_bar * 1.01",
}
_ENDING = 0.1  # seconds in which a kernel's process has ended after the answer
_RIGHT = ("is right", "fills memory")  # which costs the next one nothing
_OPTIONS = ("--inputs", "q: (n,d), k: (m,d), v: (m,e)", "--only", "forward,vjp", "--quick", "--device", "cpu")
_FORMATS = ("--dtype", "float32", "--dtype", "bfloat16", "--trial-timeout", "2")


class _Served:
    """A server, and the processor's time and memory of all of its processes."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            (sys.executable, "-m", "gradparity", "serve"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=os.environ | {"XDG_CACHE_HOME": str(folder / "cache")},
        )

    def exit_code(self, kernel: str, reference: str) -> int:
        """Judge a kernel."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"check": [kernel, "--reference", reference, *_OPTIONS, *_FORMATS]}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())["exit_code"]

    def seconds(self) -> float:
        """The time of the processor, of the processes that are there and those that they have waited for."""
        ticks = sum(sum(map(int, _stat(pid)[11:15])) for pid in self._all)
        return ticks / os.sysconf("SC_CLK_TCK")

    def kept(self) -> tuple[float, int]:
        """MiB of memory, and open files."""
        pages = sum(int(_stat(pid)[21]) for pid in self._all)
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20, sum(map(_open_files, self._all))

    def close(self) -> None:
        """End it."""
        self._process.communicate()

    @property
    def _all(self) -> list[int]:
        return [self._process.pid, *descendants(self._process.pid)]


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return ["0"] * 50


def _open_files(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def measure_serving(console: Console, count: int, out: Path) -> int:
    """Judge so many kernels, and write a table; returns 0 if all verdicts are right, else 1."""
    seconds: dict[str, list[float]] = defaultdict(list)
    verdicts: dict[str, list[int]] = defaultdict(list)
    kept: list[tuple[int, float, int]] = []
    faults = [*FAULTS]
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (place / "reference.py").write_text(REFERENCE)
        served = _Served(place)
        progress = stack.enter_context(bar(console))
        task = progress.add_task("kernels", total=count)
        for i in range(count):
            kind = faults[i // 10 % len(faults)] if i % 10 == 9 else "is right"
            text = KERNEL.replace("BLOCK", str(i)).replace("BEFORE", FAULTS.get(kind, "pass"))
            (place / f"kernel_{i}.py").write_text(text)
            before, start = served.seconds(), time.perf_counter()
            code = served.exit_code(f"kernel_{i}.py:f", "reference.py:attention")
            verdicts[kind].append(code)
            taken = time.perf_counter() - start
            time.sleep(_ENDING)
            if i:  # the first waits for the imports and the oracle
                seconds[kind].append(taken)
                seconds[f"{kind}, CPU"].append(served.seconds() - before)
            if i in (count // 10, count - 1):
                kept.append((i + 1, *served.kept()))
            progress.advance(task)
        served.close()
    out.write_text(_as_markdown(seconds, verdicts, kept), encoding="utf-8")
    right = all(set(codes) == {0 if kind in _RIGHT else 1} for kind, codes in verdicts.items())
    found = {kind: dict(Counter(codes)) for kind, codes in verdicts.items()}
    return int(say_bars(console, [("all verdicts are right", f"exit codes {found}", right)]))


def _as_markdown(
    seconds: Mapping[str, list[float]], verdicts: Mapping[str, list[int]], kept: list[tuple[int, float, int]]
) -> str:
    total, about = sum(map(len, verdicts.values())), facts()
    lines = [
        f"# {total:,} kernels through one `gradparity serve`",
        "",
        f"{about['machine']['cpu']}, {about['machine']['cores']} cores, {about['date'][:10]}; "
        f"{', '.join(f'{name} {version}' for name, version in about['versions'].items())}.",
        "",
        "An attention in a file of its own, against PyTorch code: `--quick --only forward,vjp`, float32 and bfloat16,",
        "`--trial-timeout 2`. The CPU time is that of all processes but the kernel's own.",
        "",
        "| the kernel | how many | median seconds | of CPU |",
        "|---|---|---|---|",
    ]
    for kind, codes in verdicts.items():
        lines.append(f"| {kind} | {len(codes)} | {median(seconds[kind]):.2f} | {median(seconds[f'{kind}, CPU']):.2f} |")
    lines += ["", "| after | memory of all processes | open files |", "|---|---|---|"]
    lines += [f"| {after:,} kernels | {mib:,.0f} MiB | {files} |" for after, mib, files in kept]
    return "\n".join([*lines, ""])
