"""jax_ref.sharded on eight devices. Not collected: test_sharded.py runs it in a process that simulates them."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import jax_ref
from jax_ref import sharded
from jax_ref.sharded import by_queries, by_sequence
from parity_tests import JaxCandidate, crosscheck
from parity_tests.harness.findings import Verdict
from parity_tests.suite.derivation import _pages
from parity_tests.suite.jax_ref._cases import draw, same
from parity_tests.suite.jax_ref._meshes import (
    FORWARD_MODE,
    OF_HEADS,
    PLACES,
    PRIMALS,
    SIZES,
    SPECS,
    bytes_sent,
    collectives,
    compiled_gradients,
    gradients,
    mesh_of,
    on_devices,
    on_one_device,
    output_primal,
    over,
    ring_with,
    some_bars,
)

FIRST = ["forward", "vjp", "vjp_partial", "input_subsets"]
REVERSE_FIRST = [*FIRST, "vjp_of_vjp", "jvp_of_vjp"]
EVERY_ORDER = [*REVERSE_FIRST, "jvp", "adjoint", "vjp_of_jvp", "jvp_of_jvp"]
kinds = pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=["Auto", "Explicit"])
faces = pytest.mark.parametrize("face", SPECS, ids=lambda face: face.__name__)
BARS = draw(SIZES, "output_bar attn_bar", seed=41)
DOTS = draw(SIZES, "q_dot k_dot v_dot", seed=42)


def test_there_are_eight_devices() -> None:
    assert len(jax.devices()) == 8


@faces
def test_it_is_the_oracle_to_rounding(face: Callable) -> None:
    """Each entry within the error that its rounding explains, as every candidate is judged."""
    report = crosscheck(JaxCandidate(over(face, mesh_of(8))), SPECS[face], checks=REVERSE_FIRST, dtypes=["float64"])
    report.raise_if_failed()
    assert all(row.verdict is Verdict.PASS for row in report.rows)
    if face is by_sequence:  # the others: test_it_is_the_oracle_to_rounding_in_every_format
        narrow = JaxCandidate(over(face, mesh_of(8)))
        crosscheck(narrow, SPECS[face], checks=["forward", "vjp"], dtypes=["bfloat16"]).raise_if_failed()


@pytest.mark.soak
@faces
def test_it_is_the_oracle_to_rounding_in_every_format(face: Callable) -> None:
    crosscheck(JaxCandidate(over(face, mesh_of(8))), SPECS[face], checks=["forward", "vjp"]).raise_if_failed()


@pytest.mark.parametrize(
    "face",
    [pytest.param(face, marks=() if face is by_sequence else pytest.mark.soak) for face in SPECS],
    ids=lambda face: face.__name__,
)
def test_the_face_for_forward_mode_is_the_oracle_to_rounding(face: Callable) -> None:
    call = JaxCandidate(over(FORWARD_MODE[face], mesh_of(8)))
    report = crosscheck(call, SPECS[face], checks=EVERY_ORDER, dtypes=["float64"], limits={})
    report.raise_if_failed()
    assert all(row.verdict is Verdict.PASS for row in report.rows)
    crosscheck(call, SPECS[face], checks=["jvp"], limits={}).raise_if_failed()


@pytest.mark.parametrize("count", [1, 3, *(pytest.param(count, marks=pytest.mark.soak) for count in (2, 4))])
def test_a_ring_of_any_length(count: int) -> None:
    n = m = 12
    sizes = SIZES._replace(n=n, m=m)
    spec = jax.tree_util.Partial(output_primal)
    crosscheck(
        JaxCandidate(over(by_sequence, mesh_of(count))),
        spec,
        inputs=draw(sizes, "q k v", seed=43),
        checks=["forward", "vjp"],
        dtypes=["float64"],
    ).raise_if_failed()


@pytest.mark.parametrize(
    ("face", "kind"),
    [
        pytest.param(
            face,
            kind,
            id=f"{face.__name__}-{kind.name}",
            marks=pytest.mark.soak if kind is AxisType.Auto and face is not by_sequence else (),
        )
        for face in SPECS
        for kind in (AxisType.Auto, AxisType.Explicit)
    ],
)
def test_both_kinds_of_meshes(face: Callable, kind: AxisType) -> None:
    """`jax.make_mesh` makes an Explicit one, in which JAX refuses products whose sharding is ambiguous."""
    spec, mesh = SPECS[face], mesh_of(8, kind)
    assert spec.inputs is not None
    bars = some_bars(face)
    dots = [np.cos(1 + np.arange(x.size)).reshape(x.shape) for x in spec.inputs]
    primals, bars_there = on_devices(mesh, spec.inputs, PLACES[face]), on_devices(mesh, bars, [P("x")] * len(bars))
    same(jax.jit(gradients(face, mesh))(*primals, *bars_there), on_one_device(face))

    def along(*primals):
        forward = functools.partial(FORWARD_MODE[face], mesh=mesh, axis="x")
        return jax.jvp(forward, primals, tuple(on_devices(mesh, dots, PLACES[face])))[1]

    same(along(*primals), jax.jvp(spec.primal, spec.inputs, tuple(dots))[1])


def test_plain_jit_needs_no_extra_lines() -> None:
    """Sharded queries or heads, Auto axes: the oracle itself, compiled for where its arguments lie."""
    mesh = mesh_of(8)
    for op, primals, places in (
        (jax_ref.attn, PRIMALS, PLACES[by_queries]),
        (jax.vmap(jax_ref.attn), OF_HEADS, PLACES[sharded.by_heads]),
    ):
        loss = jax.jit(jax.value_and_grad(lambda q, k, v, op=op: sum(jnp.sum(jnp.sin(y)) for y in op(q, k, v))))
        there = on_devices(mesh, primals, places)
        compiled = loss.lower(*there).compile()
        assert "all-gather" not in collectives(compiled)
        same(compiled(*there), loss(*primals))
        assert compiled(*there)[1].sharding.is_equivalent_to(there[0].sharding, there[0].ndim)


N, D = 1024, 64
SHAPES = {
    "by_queries": ((N, D), (N, D), (N, D), (N, D), (N, N)),
    "by_heads": ((8, N // 4, D),) * 4 + ((8, N // 4, N // 4),),
    "by_sequence": ((N, D),) * 4,
}


@pytest.mark.parametrize("counts", [(1, 8), pytest.param((1, 2, 4, 8), marks=pytest.mark.soak)], ids=str)
@faces
def test_memory_per_device_falls_with_the_number_of_devices(face: Callable, counts: tuple[int, ...]) -> None:
    """What XLA says of the compiled gradient: a device's arguments, and what it needs besides."""
    with jax.enable_x64(False):
        programs = [compiled_gradients(face, mesh_of(count), SHAPES[face.__name__]) for count in counts]
    temporary = [program.memory_analysis().temp_size_in_bytes for program in programs]
    held = [program.memory_analysis().argument_size_in_bytes for program in programs]
    whole = 4 * N * D * (2 if face is by_queries else 0)  # k and v, which by_queries has on every device
    for i, count in enumerate(counts):
        assert (held[i] - whole) * count == held[0] - whole
        # k_bar and v_bar are sums that a device makes in full; of by_heads the loop over a device's heads needs one.
        assert temporary[i] - whole <= 1.1 * (temporary[0] - whole) / min(count, 4 if face is sharded.by_heads else 8)
    if face is by_sequence:
        assert temporary[-1] < 4 * N * N / 8  # not even a block row of attn


@pytest.mark.parametrize("count", [1, 8, *(pytest.param(count, marks=pytest.mark.soak) for count in (2, 4))])
def test_the_figures_of_the_page(count: int) -> None:
    """derivation/sharding.md, "Measured": what is held is exact, what is sent is what its formula says."""
    rows = [line.split() for line in _pages.run("sharding.md")["measured"].splitlines()[2:]]
    held, besides, sent = {int(row[0]): [1024 * int(x) for x in row[1:]] for row in rows}[count]
    with jax.enable_x64(False):
        program = compiled_gradients(by_sequence, mesh_of(count), SHAPES["by_sequence"])
    assert program.memory_analysis().argument_size_in_bytes == held
    assert program.memory_analysis().temp_size_in_bytes <= 1.1 * besides
    assert bytes_sent(program) == sent


def test_what_moves() -> None:
    """The ring never collects k or v; sharded queries add up k_bar and v_bar; heads exchange nothing."""
    moved = {face: collectives(compiled_gradients(face, mesh_of(8), SHAPES[face.__name__])) for face in SPECS}
    assert moved == {by_queries: {"all-reduce"}, sharded.by_heads: set(), by_sequence: {"collective-permute"}}
    forward = jax.jit(functools.partial(sharded.by_sequence_ad, mesh=mesh_of(8), axis="x"))
    there = on_devices(mesh_of(8), PRIMALS, PLACES[by_sequence])
    tangents = jax.jit(lambda *x: jax.jvp(forward, x, x)).lower(*there).compile()
    assert collectives(tangents) == {"collective-permute"}
    second = jax.jit(lambda q, k, v: jax.jvp(jax.grad(lambda *x: jnp.sum(jnp.sin(forward(*x)))), (q, k, v), (q, k, v)))
    assert collectives(second.lower(*there).compile()) == {"collective-permute"}


def test_that_a_gather_is_seen() -> None:
    """The oracle by plain jit, with keys and values sharded: right, and all of them on every device."""
    there = on_devices(mesh_of(8), PRIMALS, PLACES[by_sequence])
    compiled = jax.jit(lambda *x: jax_ref.attn(*x)[0]).lower(*there).compile()
    same(compiled(*there), output_primal(*PRIMALS))
    assert "all-gather" in collectives(compiled)


def test_a_batch_on_another_axis_stays_there() -> None:
    mesh = jax.make_mesh((2, 4), ("data", "x"), axis_types=(AxisType.Auto,) * 2)
    batch = [np.stack([x, 2 * x]) for x in PRIMALS]
    there = on_devices(mesh, batch, [P("data", "x")] * 3)

    def gradient(op):
        return jax.jit(jax.grad(lambda *x: jnp.sum(jnp.sin(jax.vmap(op)(*x))), (0, 1, 2)))

    ring = gradient(functools.partial(by_sequence, mesh=mesh, axis="x"))
    compiled = ring.lower(*there).compile()
    assert collectives(compiled) == {"collective-permute"}
    same(compiled(*there), gradient(output_primal)(*batch))


@kinds
def test_the_ring_inside_a_shard_map_of_ones_own(kind: AxisType) -> None:
    mesh = jax.make_mesh((2, 4), ("data", "x"), axis_types=(kind,) * 2)
    batch = [np.stack([x, 2 * x]) for x in PRIMALS]

    @functools.partial(jax.shard_map, mesh=mesh, in_specs=P("data", "x"), out_specs=P("data", "x"))
    def mapped(q, k, v):
        return jax.vmap(functools.partial(sharded.ring, axis="x"))(q, k, v)

    there = on_devices(mesh, [*batch, np.stack([BARS[0]] * 2)], [P("data", "x")] * 4)
    both = jax.jit(lambda *x: jax.vjp(mapped, *x[:3])[1](x[3])).lower(*there).compile()
    assert collectives(both) == {"collective-permute"}
    same(both(*there), jax.vjp(jax.vmap(output_primal), *batch)[1](jnp.asarray(np.stack([BARS[0]] * 2))))


@pytest.mark.parametrize("policy", [pytest.param("nothing_saveable", marks=pytest.mark.soak), "dots_saveable"])
def test_remat_and_scan_over_layers(policy: str) -> None:
    """Three layers of a model, each of which looks at itself."""
    mesh = mesh_of(8)
    x = PRIMALS[1]

    def model(op):
        layer = jax.checkpoint(lambda x, _: (x + op(x, x, x), None), policy=getattr(jax.checkpoint_policies, policy))
        return jax.jit(jax.grad(lambda x: jnp.sum(jnp.sin(jax.lax.scan(layer, x, length=3)[0]))))

    (there,) = on_devices(mesh, [x / 4], [P("x")])
    same(model(functools.partial(by_sequence, mesh=mesh, axis="x"))(there), model(output_primal)(x / 4))


# What must be noticed.


def _over_ring(module) -> Callable:
    """`by_sequence` with the ring of another module."""

    def face(q, k, v):
        mapped = jax.shard_map(
            lambda q, k, v: module.ring(q, k, v, "x"), mesh=mesh_of(8), in_specs=P("x"), out_specs=P("x")
        )
        return mapped(q, k, v)

    return jax.jit(face)


WRONG_RINGS = {
    "one step too few": ("length=size - 2", "length=size - 3", {"forward", "vjp"}),
    "one step too many": ("length=size - 2", "length=size - 1", {"forward", "vjp"}),
    "k_bar and v_bar are not sent home": ("return stays, sent(travels)", "return stays, travels", {"vjp"}),
    "k_bar and v_bar stay where they are": ("added(sent(travels), there)", "added(travels, there)", {"vjp"}),
    "the last terms only": ("added(stays, here), ", "here, ", {"forward", "vjp"}),
}


@pytest.mark.parametrize("what", WRONG_RINGS)
def test_a_wrong_ring_is_noticed(what: str) -> None:
    old, new, caught_by = WRONG_RINGS[what]
    assert _caught(_over_ring(ring_with(old, new)), SPECS[by_sequence]) == caught_by


def test_a_ring_made_anew_raises_no_alarm() -> None:
    assert _caught(_over_ring(ring_with("size - 2", "-2 + size")), SPECS[by_sequence]) == set()


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_forgotten_sum_over_the_devices_is_noticed(forgotten: bool) -> None:
    """The gradient of sharded queries, written by hand with nothing that checks what varies over the devices."""
    split, whole = P("x"), P()

    @functools.partial(
        jax.shard_map, mesh=mesh_of(8), in_specs=(split, whole, whole, split, split), out_specs=(split, whole, whole),
        check_vma=False,
    )  # fmt: skip
    def backward(q, k, v, output_bar, attn_bar):
        q_bar, k_bar, v_bar = jax_ref.attn_vjp(q, k, v, output_bar, attn_bar)
        return q_bar, *((k_bar, v_bar) if forgotten else jax.lax.psum((k_bar, v_bar), "x"))

    op = jax.custom_vjp(lambda q, k, v: by_queries(q, k, v, mesh=mesh_of(8), axis="x"))
    op.defvjp(lambda *x: (op(*x), x), lambda x, bars: backward(*x, *bars))
    assert _caught(jax.jit(op), SPECS[by_queries]) == ({"vjp"} if forgotten else set())


def test_jax_itself_notices_it_where_it_may_look() -> None:
    """With check_vma a cotangent that varies over the devices is not that of an array that does not."""

    def unsummed(q, k, v):
        return jax_ref.attn(q, k, v)

    split, whole = P("x"), P()
    face = jax.shard_map(unsummed, mesh=mesh_of(8), in_specs=(split, whole, whole), out_specs=split)
    with pytest.raises(ValueError, match=r"Custom VJP bwd rule .*must produce"):
        jax.vjp(face, *PRIMALS)[1](tuple(map(jnp.asarray, BARS)))


def _caught(call: Callable, spec) -> set[str]:
    report = crosscheck(JaxCandidate(call), spec, checks=["forward", "vjp"], dtypes=["float64"])
    assert {row.verdict for row in report.rows} <= {Verdict.PASS, Verdict.MISMATCH}
    return {row.check for row in report.rows if not row.passed}
