"""A candidate on a mesh of devices: a right one passes, and a sum over the devices that is left out is found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from parity_tests.cli.case_file import load_case
from parity_tests.harness.crosscheck import crosscheck

CASE = """
import jax
import jax.numpy as jnp
from gradparity import JaxCandidate, OpSpec
from jax.sharding import PartitionSpec as P

MESH = jax.make_mesh((DEVICES,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
ROWS, ALL = P("rows"), P()


def dense(x, w):
    return jnp.tanh(x @ w)


@jax.custom_vjp
def sharded(x, w):
    return jax.shard_map(dense, mesh=MESH, in_specs=(ROWS, ALL), out_specs=ROWS)(x, w)


def backward(kept, y_bar):
    def of_a_device(x, w, y_bar):
        z = y_bar * (1 - dense(x, w) ** 2)
        return z @ w.T, jax.lax.psum(x.T @ z, "rows")

    specs = {"in_specs": (ROWS, ALL, ROWS), "out_specs": (ROWS, ALL)}
    return jax.shard_map(of_a_device, mesh=MESH, check_vma=False, **specs)(*kept, y_bar)


sharded.defvjp(lambda x, w: (sharded(x, w), (x, w)), backward)
spec = OpSpec("dense", primal=dense, signature="(n,d),(d,m)->(n,m)", sizes="n % DEVICES == 0")
candidate = JaxCandidate(sharded)
"""
WRONG = CASE.replace('jax.lax.psum(x.T @ z, "rows")', "x.T @ z")


def test_a_function_on_a_mesh_is_judged(tmp_path: Path):
    """Its operation shard_map returns no list."""
    file = tmp_path / "case.py"
    file.write_text(CASE.replace("DEVICES", "1"))
    spec, (candidate,) = load_case(file)
    report = crosscheck(candidate, spec, checks=["forward", "vjp"], dtypes=["float64"], quick=True)
    assert report.passed, str(report)


@pytest.mark.slow
@pytest.mark.parametrize(("source", "code"), [(CASE, 0), (WRONG, 1)], ids=["right", "wrong"])
def test_a_sum_over_the_devices_that_is_left_out_is_found(source: str, code: int, tmp_path: Path):
    (tmp_path / "case.py").write_text(source.replace("DEVICES", "4"))
    done = subprocess.run(
        [sys.executable, "-m", "gradparity", "check", "case.py", "--quick", "--only", "vjp", "--dtype", "float64"],
        cwd=tmp_path,
        env={**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert ("w_bar  15/15 entries wrong" in done.stdout) is bool(code)
