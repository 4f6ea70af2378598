"""One of several processes with one JAX device each: python -m ... RANK SIZE PORT FOLDER.

It writes the outputs and gradients of jax_ref.sharded over all devices, whole, to FOLDER/RANK.npz.
"""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

SECONDS = 60  # for the processes to find each other


def _placed(mesh: Mesh, x: np.ndarray, place: P) -> jax.Array:
    """An array of which each process makes its own part."""
    return jax.make_array_from_callback(x.shape, NamedSharding(mesh, place), lambda index: x[index])


def main(rank: int, size: int, port: int, folder: Path) -> None:
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    address = f"127.0.0.1:{port}"
    jax.distributed.initialize(
        address,
        size,
        rank,
        coordinator_bind_address=address,
        initialization_timeout=SECONDS,
        heartbeat_timeout_seconds=SECONDS,
    )
    assert (jax.process_count(), len(jax.devices()), len(jax.local_devices())) == (size, size, 1)

    from parity_tests.suite.jax_ref import _meshes  # after JAX has been told who it is

    mesh = jax.make_mesh((size,), ("x",), axis_types=(AxisType.Auto,))
    results = {}
    for face, spec in _meshes.SPECS.items():
        assert spec.inputs is not None
        bars = _meshes.some_bars(face)
        arrays = [*spec.inputs, *bars]
        places = [*_meshes.PLACES[face], *[P("x")] * len(bars)]
        there = [_placed(mesh, x, place) for x, place in zip(arrays, places, strict=True)]
        found = jax.jit(_meshes.gradients(face, mesh))(*there)
        whole = multihost_utils.process_allgather(found, tiled=True)
        results |= {f"{face.__name__}/{i}": np.asarray(x) for i, x in enumerate(jax.tree.leaves(whole))}
    np.savez(folder / f"{rank}.npz", **results)
    jax.distributed.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
