"""The benchmark's arithmetic, and that its bars can be missed: a program that cannot say no measures nothing."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from benchmarks import jax_worker, run, torch_worker
from benchmarks.__main__ import SIZES, app
from benchmarks.cases import NO_ATTN, VERSIONS, WHATS, Case, What, as_data, grid
from benchmarks.figures import Peak, Results, Row, best_peer, speedup
from benchmarks.gates import judged
from benchmarks.report import as_markdown, as_rich, plot, sections
from benchmarks.roofline import Rates, bound, merged
from benchmarks.worker import peak_bytes, seconds
from parity_tests.suite.rotation import rotating

RATES: Rates = {
    "gemm float32": {"a": 1e9, "b": 2e9},
    "tanh float32": {"a": 1e9},
    "write": {f"{x} MiB": 1e9 * x for x in (1, 4, 16, 64, 256)},
    "read": {f"{x} MiB": 2e9 * x for x in (1, 4, 16, 64, 256)},
}
FACTS = run.facts()


def results_of(native: float, eager: float = 2.0, jax_jit: float = 1.4, memory: float = 1.05) -> Results:
    """Times and memory as given, times the bound, wherever there is a bar."""
    rates = RATES | {"gemm float64": RATES["gemm float32"], "tanh float64": RATES["tanh float32"]}
    results = Results(facts=FACTS, rates=rates, complete=True)
    for case in grid(SIZES, (1,), quick=False):
        x = bound(case, rates)
        results.rows.append(Row(case, {"native": [native * x] * 3, "eager": [eager * x] * 3, "jax_jit": [jax_jit * x]}))
    results.peaks = [Peak(case, {"native": memory}) for case in run.AT_PEAK]
    return results


def test_the_bound_is_what_its_definition_says() -> None:
    case = Case(1024, 512, 32)  # 2 MiB in float32: the rates of the buffer of 4 MiB
    tanh, write, read = 1024 * 512 / 1e9, 2 * 2**20 / 4e9, 2 * 2**20 / 8e9
    forward = 2 * (2 * 1024 * 512 * 32) / 2e9 + tanh + write
    assert bound(case, RATES) == pytest.approx(forward)
    both = 6 * (2 * 1024 * 512 * 32) / 2e9 + tanh + write
    assert bound(dataclasses.replace(case, what="both"), RATES) == pytest.approx(both + 2 * read)
    assert bound(dataclasses.replace(case, what="output"), RATES) == pytest.approx(both + read)
    assert bound(dataclasses.replace(case, threads=2), RATES) == pytest.approx(forward / 2)


def test_the_best_rate_counts() -> None:
    assert merged([{"x": {"a": 1.0, "b": 5.0}}, {"x": {"a": 3.0}, "y": {"c": 1.0}}]) == {
        "x": {"a": 3.0, "b": 5.0},
        "y": {"c": 1.0},
    }


def test_a_speedup_is_paired_by_rounds() -> None:
    # Whatever else ran in the third round, and in that of which one time is lacking, does not count.
    times = {"native": [1.0, 1.0, 50.0, 1.0], "eager": [2.0, 2.0, 100.0], "none": []}
    assert speedup(times, "native", "eager") == 2.0
    assert speedup(times, "eager", "native") == 0.5
    assert speedup(times, "none", "eager") is None
    assert speedup(times, "native", "absent") is None


def test_a_yardstick_is_no_peer() -> None:
    times = {"native": [1.0], "sdpa": [1.0], "blockwise": [1.0], "eager": [3.0], "jax_jit": [2.0]}
    assert best_peer(times) == "jax_jit"
    assert best_peer({"native": [1.0], "sdpa": [1.0]}) is None


def test_what_is_fast_and_lean_meets_every_bar() -> None:
    outcomes = judged(results_of(native=1.0))
    assert len(outcomes) == 13
    assert all(outcome.met for outcome in outcomes), outcomes


@pytest.mark.parametrize(
    ("changed", "missed"),
    [
        ({"native": 1.4, "jax_jit": 1.9}, ["fraction of the bound"] * 2 + ["than eager"] * 3),  # 2 / 1.4 < 1.5
        ({"eager": 1.6}, ["than eager"] * 2),
        ({"eager": 0.9}, ["than eager"] * 7),
        ({"jax_jit": 1.2}, ["than jax.jit"]),
        ({"jax_jit": 0.9}, ["than jax.jit"] * 2),
        ({"memory": 1.2}, ["peak extra memory"] * 2),
    ],
)
def test_every_bar_can_be_missed(changed: dict[str, float], missed: list[str]) -> None:
    failed = [outcome.bar for outcome in judged(results_of(**{"native": 1.0} | changed)) if outcome.met is False]
    assert sorted(kind for kind in missed) == sorted(kind for bar in failed for kind in {*missed} if kind in bar)
    assert len(failed) == len(missed)


def test_what_is_not_measured_is_neither_met_nor_missed() -> None:
    outcomes = judged(Results(facts=FACTS))
    assert {outcome.met for outcome in outcomes} == {None}
    assert "not measured" in as_markdown(Results(facts=FACTS), outcomes, None)


def test_one_slow_case_anywhere_is_found() -> None:
    results = results_of(native=1.0)
    slow = results.row(Case(1024, 1024, dtype="float64", what="both"))
    assert slow is not None
    slow.times["native"] = [2.2 * x for x in slow.times["native"]]
    (outcome,) = [outcome for outcome in judged(results) if outcome.met is False]
    assert outcome.where == str(slow.case)


def spin(wall: float) -> None:
    """Work, and not sleep: with one thread, CPU time is what counts."""
    end = time.process_time() + wall
    while time.process_time() < end:
        pass


def test_a_version_that_is_planted_slow_misses_its_bars() -> None:
    """From the clock to the bar: what takes twice the time is noticed. Sleep counts with more than one thread only."""
    case, results = Case(8, 8, what="both"), Results(facts=FACTS)
    calls = {"eager": lambda: spin(0.002), "native": lambda: spin(0.004)}
    row = Row(case)
    results.rows = [row]
    for _ in range(3):
        for name, call in calls.items():
            row.times.setdefault(name, []).append(seconds(call, 2, threads=1))
    (outcome,) = [x for x in judged(results) if x.bar.startswith("forward + backward, n = 8")]
    assert outcome.met is False
    asleep = seconds(lambda: time.sleep(0.02), 1, 1), seconds(lambda: time.sleep(0.02), 1, 2)
    assert asleep[0] < 0.01 < 0.02 <= asleep[1]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux can set its high-water mark back")
def test_the_peak_of_memory_is_seen() -> None:
    mebibyte = 2**20  # of which other threads of a busy process may take two or three meanwhile

    def wasteful() -> np.ndarray:
        waste = np.ones(256 * mebibyte, np.uint8)  # is gone at the end, unlike the result
        return np.ones(int(waste[0]) * 128 * mebibyte, np.uint8)

    assert peak_bytes(wasteful) == pytest.approx(384 * mebibyte, rel=0.05)
    assert peak_bytes(lambda: np.ones(128 * mebibyte, np.uint8)) == pytest.approx(128 * mebibyte, rel=0.05)


def test_every_version_has_a_worker_and_a_description() -> None:
    by_worker = [name for names in run.WORKERS.values() for name in names]
    assert sorted(by_worker) == sorted(VERSIONS)
    assert sorted(by_worker) == sorted([*torch_worker.VERSIONS, *jax_worker.VERSIONS])
    assert get_args(What) == tuple(WHATS)


def test_the_grid() -> None:
    cases = grid(SIZES, (1, 2), quick=False)
    assert len({*cases}) == len(cases)
    assert {case.what for case in cases} == {*WHATS}
    assert {case.d for case in cases} == {32, 64, 128}
    assert {case.dtype for case in cases} == {"float32", "float64"}
    assert {case.threads for case in cases} == {1, 2}
    assert any(case.n < case.m for case in cases)
    assert any(case.n > case.m for case in cases)


@pytest.mark.parametrize(
    "what",  # "both" has the outputs of "forward", too
    [pytest.param(what, marks=pytest.mark.soak if what == "forward" else pytest.mark.slow) for what in WHATS],
)
@pytest.mark.parametrize("module", [torch_worker, jax_worker])
def test_all_that_is_timed_computes_the_same(module, what: What) -> None:
    """q_bar, k_bar and v_bar of every version against the plain formulas in NumPy."""
    case = Case(7, 5, 3, what=what)
    names = [x for x in module.VERSIONS if x not in (*NO_ATTN, "native", "compile")]
    prepared = module.prepare(as_data(case), names)
    assert [*prepared.calls] == names
    q, k, v, output_bar, attn_bar = case.arrays()
    attn = np.tanh(q @ k.T)
    P = (1 - attn**2) * (output_bar @ v.T + (attn_bar if what == "both" else 0))
    expected = [attn @ v, attn] + ([] if what == "forward" else [P @ k, P.T @ q, attn.T @ output_bar])
    for name, call in prepared.calls.items():
        found = [np.asarray(getattr(x, "detach", lambda x=x: x)()) for x in _leaves(call())]
        assert len(found) == len(expected), name
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


def _leaves(tree: object) -> list:
    return [leaf for part in tree for leaf in _leaves(part)] if isinstance(tree, (tuple, list)) else [tree]


def test_the_files(tmp_path: Path) -> None:
    results = results_of(native=1.0)
    results.complete = False
    results.write(tmp_path / "x.json")
    data = json.loads((tmp_path / "x.json").read_text())
    assert not data["complete"]
    row = next(row for row in data["rows"] if row["n"] == 1024)
    assert row["versions"]["native"]["times_faster_than_eager"] == 2.0
    assert row["versions"]["native"]["fraction_of_bound"] == 1.0
    assert row["best_peer"] == "jax_jit"
    assert os.listdir(tmp_path) == ["x.json"]
    outcomes = judged(results)
    page = as_markdown(results, outcomes, None)
    assert "**Not complete**" in page
    assert "| 1024 x 1024 | 64 | float32 | 1 |" in page
    assert "1.40x, jax_jit" in page
    console = Console(width=400)
    with console.capture() as captured:
        for title, cells in sections(results, outcomes).items():
            console.print(as_rich(title, cells))
    assert "peak extra memory" in captured.get()


@pytest.mark.slow
def test_the_plot(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="Matplotlib is not among the test requirements")
    plot(results_of(native=1.0), tmp_path / "x.svg")
    assert (tmp_path / "x.svg").read_text().startswith("<?xml")


@pytest.mark.slow
def test_a_worker_that_is_killed_says_so() -> None:
    with run.workers(1, ["jax_jit"]) as processes:
        worker = processes["benchmarks.jax_worker"]
        assert worker.ask(do="facts")["loaded"] == ["jax"]  # one framework a process
        with pytest.raises(run.WorkerError, match="unknown order 'nothing'"):
            worker.ask(do="nothing")
        worker.process.kill()
        with pytest.raises(run.WorkerError, match="ended with exit code -9"):
            worker.ask(do="facts")


@pytest.mark.slow
@rotating(4, turn=2)
def test_from_end_to_end(tmp_path: Path) -> None:
    out = tmp_path / "x.json"
    order = ["--quick", "--sizes", "8", "--only", "eager,function,jax_jit,sdpa,blockwise", "--out", str(out)]
    ran = CliRunner().invoke(app, order)
    assert ran.exit_code == 0, ran.output  # nothing of native is measured, so that no bar is missed
    data = json.loads(out.read_text())
    assert data["complete"]
    assert data["processes"]["benchmarks.torch_worker, T = 1"]["torch threads"] == 1
    for row in data["rows"]:
        assert {"eager", "function", "jax_jit"} <= {*row["versions"]}
        assert ("sdpa" in row["versions"]) == (row["what"] != "both")
        assert all(len(of["rounds_ms"]) >= run.ROUNDS for of in row["versions"].values())
        assert all(0 < of["fraction_of_bound"] < 1 for of in row["versions"].values())
    (both,) = [row["versions"] for row in data["peak_extra_matrices"] if row["what"] == "both"]
    assert both["eager"] > 2.9  # G, P and attn, at the least
    assert out.with_suffix(".md").exists()


def test_a_fault_that_was_not_judged_is_not_missed() -> None:
    from benchmarks import judging

    of = {"ms": 1.0, "caught": ["a"], "false_alarm": False}
    row = {"n": 5, "judged": ["a", "b"], "methods": {"crosscheck": of, "check_grads": of | {"false_alarm": True}}}
    results = {"faults": ["a", "b", "c"], "rows": [row]}
    assert judging.missed(results) == ["b: missed by crosscheck at n = 5; check_grads at n = 5"]
    assert judging.cells(results)[1] == ["5", "1 ms, 1 of 2", "too slow", "too slow", "1 ms, 1 of 2, FALSE ALARM"]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux can set its high-water mark back")
def test_gradcheck_takes_no_jacobian_to_say_no() -> None:
    """Which at n = 256 takes more memory than most machines have."""
    from benchmarks import judging
    from benchmarks.faults import FAULTS

    fault, inputs, n = next(x for x in FAULTS if x.name.startswith("a factor 2")), judging.arrays(96), 96
    jacobian = 8 * n * n * n * judging.D  # of attn by q
    said: list[bool] = []
    grown = peak_bytes(lambda: said.append(judging.by_gradcheck(fault, inputs, fast=True)))
    assert said
    assert all(said)
    assert grown is not None
    assert grown < jacobian / 4


@pytest.mark.slow
@rotating(4, turn=2)
def test_judging_from_end_to_end(tmp_path: Path) -> None:
    from benchmarks import judging
    from benchmarks.faults import FAULTS, NONE

    for fault in FAULTS:  # each is one: it shows in the numbers
        args = [np.random.default_rng(i).standard_normal((5, 5)) for i in range(6)]
        args[3] = np.tanh(args[3])
        right, wrong = (x.backward(lambda mask: mask, *args) for x in (NONE, fault))
        assert any(np.abs(x - y).max() > 1e-9 for x, y in zip(right, wrong, strict=True)), fault.name
    for _, results in judging.measure([5]):
        judging.write(results, tmp_path / "x.json")
    (row,) = results["rows"]
    assert {*row["methods"]} == {*judging.METHODS}
    assert row["methods"]["crosscheck"]["caught"] == [fault.name for fault in FAULTS]
    assert not any(of["false_alarm"] for of in row["methods"].values())
    assert "gradcheck slow" in (tmp_path / "x.md").read_text()
