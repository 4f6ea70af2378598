"""What the tests on several devices share: meshes, inputs whose sizes they divide, the faces' specs and programs."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jax_ref import attn_primal
from jax_ref.sharded import _ring, by_heads, by_heads_ad, by_queries, by_queries_ad, by_sequence, by_sequence_ad
from parity_tests.catalog.attn import SPEC
from parity_tests.harness.specs.spec import OpSpec
from parity_tests.suite.jax_ref._cases import Sizes, draw

SIZES = Sizes(n=16, m=24, d=3, e=5)
HEADS = 8
PRIMALS = draw(SIZES, "q k v", seed=40)
OF_HEADS = tuple(np.stack([x * (1 + i / HEADS) for i in range(HEADS)]) for x in PRIMALS)


def output_primal(q, k, v):
    return attn_primal(q, k, v)[0]


def heads_primal(q, k, v):
    return jax.vmap(attn_primal)(q, k, v)


_BOTH = ("output", "attn")
# Of each face: what it should compute, and its arguments' specs and its results' on a mesh with an axis "x".
SPECS = {
    by_queries: OpSpec("attn", attn_primal, inputs=PRIMALS, output_names=_BOTH, vjp=SPEC.vjp, jvp=SPEC.jvp),
    by_heads: OpSpec("attn of heads", heads_primal, inputs=OF_HEADS, output_names=_BOTH),
    by_sequence: OpSpec("output of attn", output_primal, inputs=PRIMALS),
}
FORWARD_MODE = {by_queries: by_queries_ad, by_heads: by_heads_ad, by_sequence: by_sequence_ad}
PLACES = {by_queries: (P("x"), P(), P()), by_heads: (P("x"),) * 3, by_sequence: (P("x"),) * 3}


def some_bars(face: Callable) -> list[np.ndarray]:
    """A cotangent for each output of a face."""
    spec = SPECS[face]
    shapes = [y.shape for y in jax.tree.leaves(jax.eval_shape(spec.primal, *(spec.inputs or ())))]
    return [np.sin(1 + np.arange(math.prod(shape))).reshape(shape) for shape in shapes]


def on_one_device(face: Callable) -> tuple:
    """What `gradients` of a face must give: the plain primal's outputs, and its VJP by JAX's autodiff."""
    spec, bars = SPECS[face], [jnp.asarray(x) for x in some_bars(face)]
    outputs, pullback = jax.vjp(spec.primal, *(spec.inputs or ()))
    return outputs, pullback(tuple(bars) if isinstance(outputs, tuple) else bars[0])


def mesh_of(count: int, kind: AxisType = AxisType.Auto) -> Mesh:
    """A mesh with one axis, "x", of the first devices."""
    return jax.make_mesh((count,), ("x",), axis_types=(kind,), devices=jax.devices()[:count])


def over(face: Callable, mesh: Mesh) -> Callable:
    """A face as a function of arrays that lie anywhere."""
    return jax.jit(functools.partial(face, mesh=mesh, axis="x"))


def on_devices(mesh: Mesh, arrays, places) -> list[jax.Array]:
    """The arrays, placed."""
    return [jax.device_put(jnp.asarray(x), NamedSharding(mesh, place)) for x, place in zip(arrays, places, strict=True)]


def gradients(face: Callable, mesh: Mesh) -> Callable:
    """The outputs and the VJP of a face, of primals and cotangents."""

    def both(q, k, v, *bars):
        outputs, pullback = jax.vjp(functools.partial(face, mesh=mesh, axis="x"), q, k, v)
        return outputs, pullback(bars if isinstance(outputs, tuple) else bars[0])

    return both


def compiled_gradients(face: Callable, mesh: Mesh, shapes, dtype="float32") -> jax.stages.Compiled:
    """XLA's program of `gradients`, for primals and cotangents of these shapes, the latter placed like q."""
    places = (*PLACES[face], *(P("x"),) * (len(shapes) - 3))
    arguments = [
        jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, place))
        for shape, place in zip(shapes, places, strict=True)
    ]
    return jax.jit(gradients(face, mesh)).lower(*arguments).compile()


def collectives(program: jax.stages.Compiled) -> set[str]:
    """The kinds of communication in a program."""
    kinds = "all-gather|all-reduce|all-to-all|reduce-scatter|collective-permute|collective-broadcast"
    return {kind for kind in re.findall(rf" ({kinds})(?:-start)?\(", program.as_text())}


def bytes_sent(program: jax.stages.Compiled) -> int:
    """What a device sends round the ring in a program of float32, a loop counted as often as it is run."""
    computations: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in program.as_text().splitlines():
        if header := re.match(r"(ENTRY )?%([\w.-]+) \(", line):
            lines = computations.setdefault("entry" if header[1] else header[2], [])
        lines.append(line)

    def sent(name: str) -> int:
        total = 0
        for line in computations[name]:
            if found := re.search(r"= f32\[([\d,]+)\]\S* collective-permute(?:-start)?\(", line):
                total += 4 * math.prod(map(int, found[1].split(",")))
            if loop := re.search(r' while\(.* body=%([\w.-]+),.*"known_trip_count":{"n":"(\d+)"', line):
                total += int(loop[2]) * sent(loop[1])
        return total

    return sent("entry")


def ring_with(old: str, new: str) -> ModuleType:
    """The module of the ring with one piece of its source replaced."""
    source = _source()
    assert source.count(old) == 1, old
    module = ModuleType(_ring.__name__)
    exec(compile(source.replace(old, new), f"{_ring.__file__} with {new!r}", "exec"), vars(module))
    return module


@functools.cache
def _source() -> str:
    with open(_ring.__file__, encoding="utf-8") as file:
        return file.read()
