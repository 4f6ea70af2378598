"""The pack for the day a GPU is at hand goes on where it was, keeps what raises, and can say that a kernel is wrong."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.util
import inspect
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

import torch_impl
from benchmarks.__main__ import app
from benchmarks.gpu import command, correctness, jax_kernels, judging, kernels, results, torch_kernels, worker
from benchmarks.gpu.device import Device, StandIn
from benchmarks.gpu.items import PARTS, GpuCase, Item, items, on_pretend
from benchmarks.gpu.outcome import LEFT_OUT, MEASURED, RAISED, RIGHT, WRONG, LeftOut, Outcome
from benchmarks.run import Worker, WorkerError
from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.suite.marks import fast
from torch_impl.native import build

CPU = Device("cpu")
RATES = {"gemm float32": {"a": 1e9, "b": 2e9}, "copy": {"x": 1e9}}
DRY_RUN_FACTS = {"device": "d", "versions": {"torch": "1"}, "dry run": True, "date": "2026-01-01", "commit": "c"}


class Here:
    """Processes whose work is done in this one."""

    def __init__(self, device: str, tiny: bool) -> None:
        self.answer = worker.answering(Device(device), tiny)
        self.ends = 0

    def __getitem__(self, module: str) -> Here:
        return self

    def ask(self, *, limit: float, **order: Any) -> Any:
        return json.loads(json.dumps(self.answer(order)))

    def end(self) -> None:
        self.ends += 1

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()


def run(todo: list[Item], path: Path, minutes: float = 60, device: str = "cpu", start: Any = Here) -> int:
    return command.measure_all(Console(width=500), todo, device, True, path, minutes, start)


def kept(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())["items"]


def named(*names: str, seconds: float = 1.0) -> list[Item]:
    return [Item("correctness", name, "planted", {"name": name}, seconds) for name in names]


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str], Outcome]], list[str]]:
    """Items of the kind "planted" do this; the names of those that have begun."""

    def plant(do: Callable[[str], Outcome]) -> list[str]:
        begun: list[str] = []

        def planted(device: Device, tiny: bool, name: str) -> Outcome:
            begun.append(name)
            return do(name)

        monkeypatch.setitem(worker.KINDS, "planted", planted)
        return begun

    return plant


def test_a_restart_skips_what_is_done(planted, tmp_path) -> None:
    def stopped_at_b(name: str) -> Outcome:
        if begun == ["a", "b"]:
            raise KeyboardInterrupt
        return Outcome(RIGHT)

    begun, path = planted(stopped_at_b), tmp_path / "gpu.json"
    assert run(named("a", "b", "c"), path) == results.NOT_DONE
    assert list(kept(path)) == ["correctness: a"]
    assert run(named("a", "b", "c"), path) == results.DONE
    assert begun == ["a", "b", "b", "c"]
    assert run(named("a", "b", "c"), path) == results.DONE
    assert begun == ["a", "b", "b", "c"]
    assert "## Right: 3" in path.with_suffix(".md").read_text()


def test_the_minutes_end_a_call_and_the_next_one_goes_on(planted, tmp_path) -> None:
    begun, path = planted(lambda name: Outcome(RIGHT)), tmp_path / "gpu.json"
    todo = named("a", "b", seconds=command.GRACE + 1)
    assert run(todo, path, minutes=0) == results.NOT_DONE  # the first one is done in any case
    assert begun == ["a"]
    assert run(todo, path, minutes=0) == results.DONE
    assert begun == ["a", "b"]


def test_what_raises_is_kept_with_its_reason_and_the_rest_goes_on(planted, tmp_path) -> None:
    def do(name: str) -> Outcome:
        if name == "no memory":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 GiB")
        if name == "none here":
            raise LeftOut("there is none")
        if name == "ruined":
            return Outcome(WRONG, "MISMATCH raised CUDA error: an illegal memory access was encountered")
        return Outcome(RIGHT)

    planted(do)
    path, started = tmp_path / "gpu.json", list[Here]()

    def start(device: str, tiny: bool) -> Here:
        started.append(Here(device, tiny))
        return started[-1]

    assert run(named("no memory", "none here", "right", "ruined"), path, start=start) == results.BAD_FOUND
    ended = {name.partition(": ")[2]: (x["ended"], x["reason"]) for name, x in kept(path).items()}
    assert ended == {
        "no memory": (RAISED, "OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB"),
        "none here": (LEFT_OUT, "there is none"),
        "right": (RIGHT, ""),
        "ruined": (WRONG, "MISMATCH raised CUDA error: an illegal memory access was encountered"),
    }
    assert started[0].ends == 3  # after what raised or has ruined its process, and at the end


def test_a_process_that_dies_costs_its_item(planted, tmp_path) -> None:
    def do(name: str) -> Outcome:
        if name == "a":
            raise WorkerError("it ended with exit code -11")
        return Outcome(RIGHT)

    class Dying(Here):
        def ask(self, *, limit: float, **order: Any) -> Any:
            return (
                do(order["options"]["name"]).as_data() if order["do"] == "item" else super().ask(limit=limit, **order)
            )

    path = tmp_path / "gpu.json"
    assert run(named("a", "b"), path, start=Dying) == results.BAD_FOUND
    assert [(x["ended"], x["reason"]) for x in kept(path).values()] == [
        (RAISED, "it ended with exit code -11"),
        (RIGHT, ""),
    ]


def test_a_process_that_does_not_start_is_told(tmp_path) -> None:
    class Dead(Here):
        def ask(self, *, limit: float, **order: Any) -> Any:
            raise WorkerError("no such module")

    assert run([], tmp_path / "gpu.json", start=Dead) == results.NOT_DONE
    assert not list(tmp_path.iterdir())


def test_without_the_device_nothing_is_done(capsys, tmp_path) -> None:
    assert run(items(True), tmp_path / "gpu.json", device="meta") == results.NOT_DONE
    assert "nothing is done: PyTorch" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_a_worker_that_takes_too_long_is_an_error() -> None:
    starting = Worker(command.JUDGE, 1, "cpu")
    try:
        with pytest.raises(WorkerError, match="took longer than 0 s"):
            starting.ask(do="facts", limit=0.01)
    finally:
        starting.end()


def test_what_is_due(tmp_path, monkeypatch) -> None:
    path, (a, b, c) = tmp_path / "gpu.json", named("a", "b", "c")
    names = [item.name for item in (a, b, c)]
    found = results.Results(path, DRY_RUN_FACTS)
    found.add(a, Outcome(RIGHT), 1.0)
    found.add(b, Outcome(WRONG, "reason"), 1.0)
    again = results.Results(path, {**DRY_RUN_FACTS, "date": "2026-01-02"})
    monkeypatch.setattr(results, "is_of_this_tree", lambda commit: commit == "c")
    assert again.due(names) == [c.name]
    monkeypatch.setattr(results, "is_of_this_tree", lambda commit: False)
    assert again.due(names) == [c.name, b.name]  # the code has changed: the wrong one is tried again
    for other in ({"device": "e"}, {"versions": {"torch": "2"}}, {"dry run": False}):
        assert results.Results(path, DRY_RUN_FACTS | other).due(names) == names
    assert found.code([a.name], 0) == results.DONE
    assert found.code([a.name, c.name], 1) == results.NOT_DONE
    assert found.code([a.name, b.name], 0) == results.BAD_FOUND
    again.add(c, Outcome(MEASURED, data={"bound_ms": 1.0, "versions": {"v": {"ms": 2.0, "fraction_of_bound": 0.5}}}), 1)
    page = path.with_suffix(".md").read_text()
    assert "## Wrong: 1" in page
    assert "- c: bound 1.0; v 2.0 (50%); run 1" in page
    assert "A DRY RUN" in page
    again.add(a, Outcome(RIGHT), 1.0)
    again.add(b, Outcome(RIGHT), 1.0)
    assert [run["date"] for run in json.loads(path.read_text())["runs"]] == [
        "2026-01-02"
    ]  # of the first nothing is left
    assert {x["run"] for x in kept(path).values()} == {0}
    assert "run 1" not in path.with_suffix(".md").read_text()


# Wrong ones, by name


def wrong_backward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    output, attn = torch_impl.attn_composite(q, k, v)
    return output + (attn - attn.detach()) @ v, attn  # the slope of tanh counts twice


@fast("candidate")
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"kind": "candidate", "options": {"of": "attn_function", "dtypes": ["float32"]}}, id="candidate"),
        pytest.param({"kind": "placed", "options": {"of": "attn_function", "how": "stream"}}, id="stream"),
        pytest.param({"kind": "placed", "options": {"of": "attn_function", "how": "graph"}}, id="graph"),
        pytest.param({"kind": "placed", "options": {"of": "attn_function", "how": "another device"}}, id="another"),
    ],
)
def test_a_wrong_kernel_is_told_by_its_name(options, monkeypatch, capsys, tmp_path) -> None:
    item, path = Item("correctness", "attn_function", **options), tmp_path / "gpu.json"
    monkeypatch.setattr(Device, "another", lambda self: "cpu")  # which has one device; the dry run has others
    assert run([item], tmp_path / "right.json") == results.DONE
    monkeypatch.setattr(torch_impl, "attn_function", wrong_backward)
    assert run([item], path) == results.BAD_FOUND
    (found,) = kept(path).values()
    assert found["ended"] == WRONG
    assert "attn_function, vjp, float32: MISMATCH" in found["reason"]
    assert "correctness: attn_function: wrong attn_function, vjp, float32: MISMATCH" in capsys.readouterr().out


def test_a_product_in_tf32_while_judged_is_wrong(monkeypatch) -> None:
    assert correctness.tf32(CPU, True).ended == RIGHT
    monkeypatch.setattr(correctness, "error_of_a_product", lambda device: 20.0)
    assert "20 units of its bound" in correctness.tf32(CPU, True).reason


def test_a_product_in_tf32_is_seen() -> None:
    def in_tf32(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x, y = ((a.view(torch.int32) & ~0x1FFF).view(torch.float32) for a in (x, y))  # 10 bits
        return x @ y

    assert correctness.error_of_a_product(CPU) <= 1 < 8 <= correctness.error_of_a_product(CPU, in_tf32)


def test_more_memory_than_the_bar_is_wrong(monkeypatch) -> None:
    assert correctness.memory(CPU, True, "attn_function").ended == RIGHT
    monkeypatch.setattr(torch_impl, "attn_function", torch_impl.attn_composite)
    assert "and the bar is 2.1" in correctness.memory(CPU, True, "attn_function").reason
    monkeypatch.setattr(CPU, "peak", lambda call: 0)
    assert "the meter sees 0.00 matrices" in correctness.memory(CPU, True, "attn_function").reason


def test_what_is_not_to_be_had_is_left_out(monkeypatch) -> None:
    with pytest.raises(LeftOut, match=r"JAX runs on .* here, and not on c"):
        correctness.callable_of("attn_triton_in_jax", CPU if jax_kernels.HAS_GPU else Device("cuda"))
    monkeypatch.setattr(correctness.catalog, "candidate", lambda of: NotBuilt(of, "no compiler"))
    with pytest.raises(LeftOut, match="no compiler"):
        correctness.callable_of("attn_native", CPU)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "triton" or None)
    monkeypatch.setattr(correctness.jax, "default_backend", lambda: "gpu")
    with pytest.raises(LeftOut, match="jax-triton is not installed"):
        correctness.callable_of("attn_triton_in_jax", Device("cuda"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(LeftOut, match="Triton is not installed"):
        correctness.callable_of("attn_triton", CPU)
    with pytest.raises(LeftOut, match="Triton is not installed"):
        correctness.tests(CPU, True, "torch_impl/with_triton.py", "not soak", None)


def test_a_device_without_another_or_without_a_meter_is_left_out() -> None:
    with pytest.raises(LeftOut, match="there is no meter for the memory of mps"):
        correctness.memory(Device("mps"), True, "attn_function")
    with pytest.raises(LeftOut, match="there is one device of the kind cpu"):
        correctness.placed(CPU, True, "attn_function", "another device")


def test_kernels_run_on_one_kind_of_device() -> None:
    with pytest.raises(LeftOut, match=r"Triton's kernels run on .* and not on mps|Triton is not installed"):
        correctness.callable_of("attn_triton", Device("mps"))
    with pytest.raises(LeftOut, match=r"JAX runs on .* here, and not on mps"):
        correctness.callable_of("attn_triton_in_jax", Device("mps"))


@pytest.mark.slow
def test_a_candidate_is_judged_at_the_sizes_of_a_gpu() -> None:
    assert correctness.candidate(CPU, False, "attn_function", ["bfloat16"]).ended == RIGHT


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.slow
def test_flex_attention_has_a_softmax_of_tanh() -> None:
    q, k, v = (torch.randn(5, 16, generator=torch.Generator().manual_seed(i)) for i in range(3))
    (found,) = torch_kernels._flex(q, k, v)
    torch.testing.assert_close(found, torch.softmax(torch.tanh(q @ k.mT), -1) @ v)


def test_a_version_that_computes_elsewhere_is_left_out(monkeypatch) -> None:
    prepare, case = torch_kernels.preparing(CPU), dataclasses.asdict(GpuCase(4, 4, 4))
    assert [*prepare(case, ["eager"]).calls] == ["eager"]
    elsewhere = torch.device("meta")
    monkeypatch.setattr(torch_kernels, "version", lambda *_: lambda q, k, v: (q.to(elsewhere),))
    found = prepare(case, ["eager"])
    assert not found.calls
    assert found.left_out == {"eager": "RuntimeError: it computes on meta, and not on cpu"}


def test_the_jax_versions_are_left_out_where_jax_is_not(monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["", "cpu" if jax_kernels.HAS_GPU else "cuda"])
    found = jax_kernels.prepare(dataclasses.asdict(GpuCase(4, 4, 4)), ["triton_in_jax"])
    assert not found.calls
    assert found.left_out["triton_in_jax"].startswith("JAX runs on ")


@pytest.mark.slow
def test_a_failing_test_is_wrong(tmp_path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text("def test_right(): pass\n\ndef test_wrong(): assert False\n")
    found = correctness.tests(CPU, True, str(file), "not soak", None)
    assert (found.ended, found.reason) == (WRONG, "pytest ended with 1: test_wrong")
    assert correctness.tests(CPU, True, str(file), "not soak", "right").ended == RIGHT


def test_a_missed_mistake_and_a_false_alarm_are_wrong(monkeypatch) -> None:
    for answer, reason in ((False, "missed: one entry of k_bar"), (True, "false alarm: crosscheck, crosscheck on the")):
        monkeypatch.setattr(judging, "by_crosscheck", lambda fault, inputs, device, answer=answer: answer)
        found = judging.cost(CPU, True, 3) if answer else judging.mistakes(CPU, True, 3)
        assert found.ended == WRONG
        assert found.reason.startswith(reason)


# The roofline and the device


def test_the_bound_is_what_its_definition_says() -> None:
    case = GpuCase(1000, 1000, 10)
    product, small, matrix = 2 * 10**7 / 2e9, 2 * 2000 * 10 * 4 / 1e9, 4 * 10**6 / 1e9
    assert case.bound(RATES) == pytest.approx(max(2 * product, small + matrix))
    assert dataclasses.replace(case, with_attn=False).bound(RATES) == pytest.approx(max(2 * product, small))
    both = dataclasses.replace(case, what="both")
    reads, again = max(6 * product, 3 * small + 3 * matrix), max(7 * product, 3 * small + 2 * matrix)
    assert both.bound(RATES) == pytest.approx(min(reads, again))
    output = dataclasses.replace(case, what="output", with_attn=False)
    assert output.bound(RATES) == pytest.approx(max(7 * product, 3 * small))
    slow_memory = RATES | {"copy": {"x": 1e6}}
    assert case.bound(slow_memory) == pytest.approx(1e3 * (small + matrix))


def test_what_the_stand_in_has_torch_cuda_has() -> None:
    calls: dict[str, tuple[Any, ...]] = {
        "stream": (None,),
        "_sleep": (1,),
        "make_graphed_callables": (abs, ()),
    }
    names = [name for name, _ in inspect.getmembers(StandIn, inspect.isfunction) if name != "__init__"]
    assert {"Event", "Stream", "current_stream", "max_memory_allocated", *calls} <= {*names}
    for name in (*names, "synchronize"):
        options = {"allow_unused_input": True} if name == "make_graphed_callables" else {}
        there = getattr(torch.cuda, name)
        with contextlib.suppress(ValueError):  # of built-in functions no signature is known
            inspect.signature(there).bind(*calls.get(name, ()), **options)


def test_seconds_are_those_of_a_call() -> None:
    start = time.perf_counter()
    found = CPU.seconds(functools.partial(time.sleep, 0.01), 3)
    assert 0.01 <= found <= (time.perf_counter() - start) / 3


def test_a_stream_and_a_graph_give_what_the_function_gives() -> None:
    x = torch.randn(3, 4)
    for placed in (CPU.on_a_stream(torch.tanh), CPU.in_a_graph(torch.tanh), CPU.in_a_graph(lambda x: (x.tanh(),))):
        for _ in range(2):
            found = placed(x)
            assert torch.equal(found[0] if isinstance(found, tuple) else found, x.tanh())


def test_every_part_has_items_and_each_its_own_name() -> None:
    for tiny in (True, False):
        names = [item.name for item in items(tiny)]
        assert len({*names}) == len(names)
        for part in PARTS:
            assert 0 < len(command.chosen(part, tiny)) < len(names)
    kinds = {item.kind for item in items(False)}
    assert kinds == {item.kind for item in items(True)} == {*worker.KINDS, "case"}


def test_an_unknown_part_is_refused() -> None:
    assert CliRunner().invoke(app, ["gpu", "--part", "speed"]).exit_code == 2


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ((results.DONE, results.DONE), results.DONE),
        ((results.BAD_FOUND, results.DONE), results.BAD_FOUND),
        ((results.BAD_FOUND, results.NOT_DONE), results.BAD_FOUND),
        ((results.DONE, results.BAD_FOUND), results.BAD_FOUND),
        ((results.NOT_DONE,), results.NOT_DONE),  # interrupted, or no time is left
    ],
)
def test_a_dry_run_does_each_item_on_one_device(codes, code, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(build, "toolchain_missing", lambda: None)
    did, todo = DryRun(codes, monkeypatch), items(True)
    assert command.dry_run(Console(quiet=True), todo, tmp_path / "gpu.json", 8) == code
    assert [device for device, _ in did.calls] == ["pretend", "cpu"][: len(codes)]
    if len(codes) == 2:
        (_, there), (_, here) = did.calls
        assert sorted(item.name for item in (*there, *here)) == sorted(item.name for item in todo)
        assert {item.kind for item in there} == {"candidate", "placed", "tf32", "case", "cost", "mistakes"}
        assert {item.kind for item in here} == {"candidate", "placed", "memory", "tests", "case"}


def test_without_a_compiler_a_dry_run_is_on_the_cpu(monkeypatch, capsys, tmp_path) -> None:
    monkeypatch.setattr(build, "toolchain_missing", lambda: "no C++ compiler")
    did, todo = DryRun((results.DONE,), monkeypatch), items(True)
    assert command.dry_run(Console(width=200), todo, tmp_path / "gpu.json", 8) == results.DONE
    assert did.calls == [("cpu", todo)]
    assert 'the device "pretend" cannot be compiled: no C++ compiler' in capsys.readouterr().out


class DryRun:
    """In the place of `measure_all`: its calls, which end with these codes."""

    def __init__(self, codes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
        self.codes, self.calls = iter(codes), list[tuple[str, list[Item]]]()
        monkeypatch.setattr(command, "measure_all", self)

    def __call__(self, console: Console, todo: list[Item], device: str, tiny: bool, path: Path, minutes: float) -> int:
        assert tiny
        assert 7.9 < minutes <= 8
        self.calls.append((device, todo))
        return next(self.codes)


@pytest.mark.slow
@pytest.mark.skipif(build.toolchain_missing() is not None, reason=f"compiles: {build.toolchain_missing()}")
@pytest.mark.parametrize("part", PARTS)
def test_the_dry_run(part: str, tmp_path: Path) -> None:
    path = tmp_path / "gpu.json"
    ran = CliRunner().invoke(app, ["gpu", "--dry-run", "--part", part, "--minutes", "60", "--out", str(path)])
    assert ran.exit_code == results.DONE, ran.output
    found, runs, todo = kept(path), json.loads(path.read_text())["runs"], command.chosen(part, True)
    assert {name: runs[x["run"]]["device"] for name, x in found.items()} == {
        item.name: "pretend" if on_pretend(item) else "cpu" for item in todo
    }
    reasons = {x["reason"] for x in found.values() if x["ended"] == LEFT_OUT}
    assert reasons <= {"no CUDA device here", "Triton is not installed", "there is one device of the kind cpu"}
    if part == "correctness":
        there = {x["data"].get("device") for name, x in found.items() if name.startswith("correctness: attn_function")}
        assert there == {"pretend", "pretend:1", None}  # the last one is of memory
    for item in todo if part == "kernels" else ():
        case, data = GpuCase(**item.options), found[item.name]["data"]
        versions = {name for names in kernels.VERSIONS[case.with_attn].values() for name in names}
        assert versions == {*data["versions"], *data["left_out"]}
        refused = {name for name in versions if kernels.refusal(name, case, True) is not None}
        assert {*data["left_out"]} <= refused | {
            "triton",
            "triton_in_jax",
            "cudnn",
            "jax_cudnn",
            "flex",
        }  # of FlexAttention a backward
