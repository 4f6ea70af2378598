"""The sweep on a Dask cluster: a worker that is killed costs nothing."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from parity_tests.sweep.dask_cluster import executor_of
from parity_tests.sweep.guard import Limits
from parity_tests.sweep.results_file import Header, ResultsFile, read_results
from parity_tests.sweep.running import run

from . import _judges

distributed = pytest.importorskip("distributed", reason="needs Dask: pip install 'gradparity[dask]'")
dask = pytest.importorskip("dask", reason="needs Dask: pip install 'gradparity[dask]'")
pytest.importorskip("pebble", reason="needs pebble: pip install 'gradparity[sweep]'")

NAMES = [f"operator_{i}" for i in range(10)]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # Dask's own, of a worker that ends
def test_a_worker_is_killed_and_nothing_is_lost_or_written_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADPARITY_NOTES", str(tmp_path))
    path, judge = tmp_path / "a.jsonl", f"{_judges.HERE}:slow"
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    judged: list[str] = []
    with dask.config.set({"distributed.worker.daemon": False}), distributed.LocalCluster(**settings) as cluster:
        worker = next(iter(cluster.workers.values())).pid
        with (
            ResultsFile(path, Header.of(["vjp"], ["float64"], Limits())) as file,
            executor_of(cluster.scheduler_address) as executor,
        ):
            for operator, _ in run(NAMES, file, executor, judge):
                if not judged:
                    os.kill(worker, signal.SIGKILL)
                judged.append(operator)
    assert sorted(judged) == NAMES
    assert sorted(read_results(path).lines) == NAMES
