"""jax_ref.sharded: its errors here, its results on eight devices that a process of its own simulates."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from jax_ref import sharded
from parity_tests.suite.derivation._pages import PAGES
from parity_tests.suite.jax_ref import _jax_process
from parity_tests.suite.jax_ref._cases import same
from parity_tests.suite.jax_ref._meshes import SPECS, on_one_device, ring_with
from parity_tests.suite.jax_ref.test_purity import probe
from parity_tests.suite.process_group import run_together
from parity_tests.suite.rotation import rotating

ON_EIGHT_DEVICES = Path(__file__).with_name("on_eight_devices.py")
FACES = [
    getattr(sharded, f"{face}{mode}") for face in ("by_queries", "by_heads", "by_sequence") for mode in ("", "_ad")
]


@rotating(4, turn=0)
@pytest.mark.parametrize(
    "marks", [pytest.param("not soak", marks=pytest.mark.slow), pytest.param("soak", marks=pytest.mark.soak)]
)
def test_on_eight_devices(marks: str) -> None:
    """XLA reads its flags when it starts, so the tests are run in a process that has them."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", marks, str(ON_EIGHT_DEVICES)],
        env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert "skipped" not in done.stdout


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize("size", [pytest.param(2, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.soak)])
def test_on_several_processes(size: int, tmp_path: Path) -> None:
    """Real processes, each with a device, which exchange by way of the loopback: they get what one device gets."""
    port = str(_free_port())
    arguments = [[str(rank), str(size), port, str(tmp_path)] for rank in range(size)]
    environment = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "", "GLOO_SOCKET_IFNAME": "lo"}
    run_together(_jax_process.__name__, arguments, tmp_path, environment, seconds=240)
    for rank in range(size):
        with np.load(tmp_path / f"{rank}.npz") as results:
            for face in SPECS:
                expected = jax.tree.leaves(on_one_device(face))
                same([results[f"{face.__name__}/{i}"] for i in range(len(expected))], expected)


def _loops(jaxpr) -> Iterator:
    """The bodies of all scans."""
    for eqn in jaxpr.eqns:
        for inner in jaxprs_in_params(eqn.params):
            if eqn.primitive.name == "scan":
                yield inner
            yield from _loops(inner)


def _sends_at_once(ring: Callable) -> list[bool]:
    """Of each transfer in the loops of a ring and of its VJP: is what it sends there before the step computes?"""

    def both(q, k, v, output_bar):
        output, pullback = jax.vjp(lambda *x: ring(*x, "x"), q, k, v)
        return output, pullback(output_bar)

    mapped = jax.shard_map(both, mesh=MESH, in_specs=P("x"), out_specs=P("x"))
    closed = jax.make_jaxpr(mapped)(*_arguments(sharded.by_sequence), np.ones((16, 5)))
    return [
        eqn.invars[0] in body.invars
        for body in _loops(closed.jaxpr)
        for eqn in body.eqns
        if eqn.primitive.name == "ppermute"
    ]


def test_transfers_may_be_hidden_behind_the_computation() -> None:
    assert _sends_at_once(sharded.ring) == [True] * 6
    assert False in _sends_at_once(ring_with("added(sent(travels), there)", "sent(added(travels, there))").ring)


def test_the_cited_equations_are_derived() -> None:
    """Each equation of the page is a line of the ring, and no other of it is cited."""
    source = Path(sharded.__file__).with_name("_ring.py").read_text(encoding="utf-8")
    cited = {int(number) for number in re.findall(r"#\s+\((\d+)\)", source)}
    assert cited == set(PAGES["sharding.md"])


@pytest.mark.slow
def test_the_import_changes_nothing() -> None:
    assert probe("import jax_ref.sharded") == {"changed": [], "loaded": []}


def test_public_names() -> None:
    assert {name for name in vars(sharded) if not name.startswith("_")} == {
        *(face.__name__ for face in FACES), "ring", "ring_ad",
    }  # fmt: skip


MESH = AbstractMesh((8,), ("x",), axis_types=(AxisType.Auto,))  # of devices that nobody asks for


def _arguments(face, n=16, m=24, d=3, h=8):
    batch = (h,) if face.__name__.startswith("by_heads") else ()
    return [np.ones((*batch, *shape)) for shape in ((n, d), (m, d), (m, 5))]


def _said(face, *arguments, axis: str = "x", **sizes: int) -> str:
    with pytest.raises(ValueError, match="attn: ") as caught:
        face(*(arguments or _arguments(face, **sizes)), mesh=MESH, axis=axis)
    return str(caught.value)


def _undivided(axis: str, size: int, argument: str, padded: int) -> str:
    return (
        f"attn: axis {axis} is {size} in {argument}, and the mesh's axis 'x' has 8 devices, which do not divide it; "
        f"pad {axis} to {padded}, or take a mesh axis that divides it"
    )


@pytest.mark.parametrize("face", FACES)
def test_a_size_that_the_mesh_does_not_divide(face) -> None:
    if face.__name__.startswith("by_heads"):
        assert _said(face, h=12) == _undivided("h", 12, "q", 16)
        return
    assert _said(face, n=20) == _undivided("n", 20, "q", 24)
    if face.__name__.startswith("by_sequence"):
        assert _said(face, m=30) == _undivided("m", 30, "k", 32)


@pytest.mark.parametrize("face", FACES)
def test_an_axis_that_the_mesh_has_not(face) -> None:
    assert _said(face, axis="y") == "attn: the mesh has no axis 'y', it has 'x'; name one of these"


@pytest.mark.parametrize("face", FACES)
def test_wrong_arguments(face) -> None:
    q, k, v = _arguments(face)
    assert "axis d is 3 in q but 4 in k" in _said(face, *_with_d(q, k, v))
    with pytest.raises(TypeError, match="attn: q must be an array with axes"):
        face(None, k, v, mesh=MESH, axis="x")
    with pytest.raises(ValueError, match=r"attn: v must have . axes"):
        face(q, k, v[..., None], mesh=MESH, axis="x")


def _with_d(q, k, v):
    return q, np.ones((*k.shape[:-1], 4)), v


def test_one_device_is_a_mesh_too() -> None:
    """The whole way, of one step, in this process."""
    mesh = jax.make_mesh((1,), ("x",), axis_types=(AxisType.Auto,))
    q, k, v = (np.linspace(-1, 1, x.size).reshape(x.shape) for x in _arguments(sharded.by_sequence))
    output = sharded.by_sequence(q, k, v, mesh=mesh, axis="x")
    np.testing.assert_allclose(output, np.tanh(q @ k.T) @ v, rtol=1e-13)
