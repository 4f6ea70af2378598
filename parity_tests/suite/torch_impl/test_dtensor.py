"""The native attn on DTensors of two processes, judged by the oracle; and a wrong rule, which it catches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from parity_tests.catalog.attn import SPEC
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.oracle.truth import Truth
from parity_tests.harness.specs.samples import samples
from parity_tests.harness.specs.spec import OpSpec
from parity_tests.suite.process_group import run_together
from parity_tests.suite.torch_impl import _dtensor_process
from parity_tests.suite.torch_impl._common import COTANGENTS, PRIMALS, draw
from parity_tests.suite.torch_impl._dtensor_process import SIZES, USED, WAYS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("native"),
    pytest.mark.skipif(not torch.distributed.is_available(), reason="this PyTorch has no torch.distributed"),
]
TRUTHS = ("output", "attn", "q_bar", "k_bar", "v_bar")


@pytest.fixture(scope="module")
def native() -> None:
    from torch_impl.native.build import ToolchainMissing, load

    try:
        load()  # once, and not by two processes at once
    except ToolchainMissing as reason:
        pytest.skip(str(reason))


def _run(folder: Path, planted: str) -> Path:
    """Two processes, and the folder with what they write."""
    arguments = [[str(rank), "2", str(folder), planted] for rank in (0, 1)]
    run_together(_dtensor_process.__name__, arguments, folder, {"GLOO_SOCKET_IFNAME": "lo"}, seconds=120)
    return folder


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory, native: None) -> Path:
    return _run(tmp_path_factory.mktemp("right"), "nothing")


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory, native: None) -> Path:
    return _run(tmp_path_factory.mktemp("wrong"), "planted")


@pytest.fixture(scope="module")
def truths() -> dict[str, dict[str, Truth]]:
    """Of each choice of outputs that are used: every result, with the error that rounding explains."""
    primals = [x.numpy() for x in draw(PRIMALS, SIZES)]
    bars = [x.numpy() for x in draw(COTANGENTS, SIZES, seed=1)]
    with pinned():
        spec = OpSpec("attn", SPEC.primal, inputs=primals, vjp=SPEC.vjp, output_names=("output", "attn"))
        oracle = Oracle(spec, next(iter(samples(spec, 0))))
        values = oracle.evaluate("forward", primals, FLOAT64)
        found = {}
        for used, which in USED.items():
            some = [bar if wanted else None for bar, wanted in zip(bars, which, strict=True)]
            found[used] = dict(zip(TRUTHS, [*values, *oracle.evaluate("vjp", [*primals, *some], FLOAT64)], strict=True))
    return found


def _wrong_results(folder: Path, truths: dict, rank: int) -> set[str]:
    found = set()
    with np.load(folder / f"{rank}.npz") as results:
        assert len(results.files) == len(WAYS) * (len(TRUTHS) * len(USED) - 1)  # of attn alone there is no v_bar
        for name in results.files:
            _, used, label = name.split("/")
            truth = truths[used][label]
            assert np.abs(truth.value).max() > 100 * truth.bound.max()
            if not (np.abs(results[name] - truth.value) <= truth.bound).all():
                found.add(name)
    return found


@pytest.mark.parametrize("rank", [0, 1])
def test_it_is_the_oracle_to_rounding(right: Path, truths: dict, rank: int) -> None:
    assert _wrong_results(right, truths, rank) == set()


def _facts(folder: Path) -> Iterator[tuple[str, str, dict]]:
    for name, facts in json.loads((folder / "0.json").read_text()).items():
        way, used = name.split("/")
        yield way, used, facts


def test_what_is_placed_where_and_what_moves(right: Path) -> None:
    placed = {way: facts["placed"] for way, used, facts in _facts(right) if used == "output"}
    assert placed["queries"] == {
        "output": "S(0)", "attn": "S(0)", "q_bar": "S(0)", "k_bar": "P(sum)", "v_bar": "P(sum)",
    }  # fmt: skip
    assert placed["keys"] == {
        "output": "P(sum)", "attn": "S(1)", "q_bar": "P(sum)", "k_bar": "S(0)", "v_bar": "S(0)",
    }  # fmt: skip
    assert placed["value_features"] == {
        "output": "S(1)", "attn": "R", "q_bar": "P(sum)", "k_bar": "P(sum)", "v_bar": "S(1)",
    }  # fmt: skip
    assert {*placed["nothing"].values()} == {"R"}
    assert {way for way, _, facts in _facts(right) if facts["sent"]} == {"all_by_rows"}


def test_a_wrong_rule_is_caught(wrong: Path, truths: dict) -> None:
    """k_bar, which is a sum over the queries, taken for whole by each process."""
    sums = {"queries/both", "queries/output", "queries/attn", "value_features/output"}
    assert _wrong_results(wrong, truths, 0) == {f"{name}/k_bar" for name in sums}


def test_without_rules_pytorch_refuses() -> None:
    """So that nobody is given a wrong gradient who has not asked for the rules."""
    probe = (
        "import torch, torch.distributed as dist\n"
        "from torch.distributed.device_mesh import init_device_mesh\n"
        "from torch.distributed.tensor import Replicate, distribute_tensor\n"
        "from torch.testing._internal.distributed.fake_pg import FakeStore\n"
        "from torch_impl import attn_native\n"
        "assert 'torch.distributed.tensor' in __import__('sys').modules\n"
        "dist.init_process_group('fake', store=FakeStore(), rank=0, world_size=2)\n"
        "x = distribute_tensor(torch.ones(2, 2), init_device_mesh('cpu', (2,)), [Replicate()])\n"
        "try:\n    attn_native(x, x, x)\nexcept NotImplementedError as error:\n    print(error)\n"
        "else:\n    raise SystemExit('it did not refuse')\n"
        "from torch_impl.native.sharding import register\nregister(), register()\n"
        "print(*attn_native(x, x, x)[0].placements)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", probe], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "does not have a sharding strategy registered" in done.stdout
    assert done.stdout.splitlines()[-1] == "R"
