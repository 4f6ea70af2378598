"""One of several processes that hold a DTensor each: python -m ... RANK SIZE FOLDER PLANTED.

It writes, to FOLDER/RANK.npz, for each way of sharding the whole outputs and gradients of the native attn, and to
FOLDER/RANK.json how the results were placed and what was sent.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.experimental import register_sharding

from parity_tests.suite.torch_impl._common import COTANGENTS, PRIMALS, draw
from torch_impl.native import sharding

SIZES = (5, 3, 6, 6)  # n, d, m, e: the processes have 3 and 2 queries; m and e agree, so the cotangents have one shape
WAYS = {
    "queries": (Shard(0), Replicate(), Replicate()),
    "keys": (Replicate(), Shard(0), Shard(0)),
    "value_features": (Replicate(), Replicate(), Shard(1)),
    "nothing": (Replicate(), Replicate(), Replicate()),
    "all_by_rows": (Shard(0), Shard(0), Shard(0)),
}
USED = {"both": (True, True), "output": (True, False), "attn": (False, True)}


def k_bar_is_whole(*arguments: object):
    """The rules with a mistake: where k_bar is a sum that is due, what each process has is taken for all of it."""
    rules = sharding.attn_backward_rules(*arguments)
    return [([q, Replicate() if k.is_partial() else k, v], placed) for (q, k, v), placed in rules]


def main(rank: int, size: int, folder: Path, planted: bool) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", f"file://{folder}/meeting", rank=rank, world_size=size, timeout=timedelta(seconds=60)
    )
    mesh = init_device_mesh("cpu", (size,))
    sharding.register()
    if planted:
        register_sharding(torch.ops.gradparity.attn_backward.default)(k_bar_is_whole)
    arrays, facts = {}, {}
    for way, places in WAYS.items():
        for used, which in USED.items():
            primals = [
                distribute_tensor(x, mesh, [place]).requires_grad_()
                for x, place in zip(draw(PRIMALS, SIZES), places, strict=True)
            ]
            with CommDebugMode() as sent:
                outputs = torch.ops.gradparity.attn(*primals)
            forward = {str(name): count for name, count in sent.get_comm_counts().items()}
            bars = [distribute_tensor(x, mesh, [Replicate()]) for x in draw(COTANGENTS, SIZES, seed=1)]
            pairs = [(y, w) for y, w, wanted in zip(outputs, bars, which, strict=True) if wanted]
            gradients = torch.autograd.grad([y for y, _ in pairs], primals, [w for _, w in pairs], allow_unused=True)
            results = dict(zip(("output", "attn", "q_bar", "k_bar", "v_bar"), (*outputs, *gradients), strict=True))
            facts[f"{way}/{used}"] = {
                "placed": {name: str(x.placements[0]) for name, x in results.items() if x is not None},
                "sent": forward,
            }
            for name, x in results.items():
                if x is not None:
                    arrays[f"{way}/{used}/{name}"] = x.full_tensor().detach().numpy()
    np.savez(folder / f"{rank}.npz", **arrays)
    (folder / f"{rank}.json").write_text(json.dumps(facts), encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4] == "planted")
    # Not by Python's own end: Gloo's threads outlive their group here, and one that lets go of the last tensor while
    # Python ends aborts the process.
    os._exit(0)
