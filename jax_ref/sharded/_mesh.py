"""attn over a mesh of devices: the queries sharded, the heads, or the whole sequence.

Each face takes whole arrays and says how they lie on the mesh; JAX moves what lies otherwise. The mesh's axes may be
Auto or Explicit: inside `jax.shard_map` there is no difference, and no product whose sharding would be ambiguous.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Inexact

from jax_ref._attn import attn, attn_ad
from jax_ref._validate import AXES, validate
from jax_ref.sharded._ring import ring, ring_ad


def by_queries(
    q: Inexact[Array, "n d"], k: Inexact[Array, "m d"], v: Inexact[Array, "m e"], *, mesh: Mesh, axis: str
) -> tuple[Inexact[Array, "n e"], Inexact[Array, "n m"]]:
    """`jax_ref.attn` with the queries sharded and the keys and values on every device.

    Args:
        q: queries (n, d), of a dtype that `jax_ref.attn` takes; n is divided among the devices.
        k: keys (m, d). v: values (m, e). Batch axes: `jax.vmap`.
        mesh: the devices. axis: the name of the mesh's axis that divides n.

    Returns:
        output (n, e) and attn (n, m), both sharded like q. The VJP is that of `attn` on each device, and k_bar and
        v_bar are added up over the devices: the sums over i in (124) and (125) of derivation/sharding.md.

    Raises:
        TypeError, ValueError: as `jax_ref.attn`; an axis that the mesh lacks; a size that it does not divide.
    """
    return _by_queries(attn, q, k, v, mesh, axis)


def by_queries_ad(
    q: Inexact[Array, "n d"], k: Inexact[Array, "m d"], v: Inexact[Array, "m e"], *, mesh: Mesh, axis: str
) -> tuple[Inexact[Array, "n e"], Inexact[Array, "n m"]]:
    """`by_queries` for forward mode first, and for any mix of modes: `jax_ref.attn_ad` on each device."""
    return _by_queries(attn_ad, q, k, v, mesh, axis)


def _by_queries(op: Callable, q, k, v, mesh, axis):
    validate(q, k, v)
    _divided(mesh, axis, n=("q", q.shape[0]))

    def on_a_device(q, k, v):
        # What every device uses varies from here on: its cotangent does, and is added up where this is transposed.
        k, v = (jax.lax.pcast(x, axis, to="varying") for x in (k, v))
        return op(q, k, v)

    split, whole = PartitionSpec(axis), PartitionSpec()
    return _mapped(on_a_device, mesh, axis, (split, whole, whole))(q, k, v)


def by_heads(
    q: Inexact[Array, "h n d"], k: Inexact[Array, "h m d"], v: Inexact[Array, "h m e"], *, mesh: Mesh, axis: str
) -> tuple[Inexact[Array, "h n e"], Inexact[Array, "h n m"]]:
    """`jax.vmap(jax_ref.attn)` over heads that are sharded; the devices exchange nothing.

    Args:
        q: queries (h, n, d). k: keys (h, m, d). v: values (h, m, e), of a dtype that `jax_ref.attn` takes.
        mesh: the devices. axis: the name of the mesh's axis that divides h.

    Returns:
        output (h, n, e) and attn (h, n, m), sharded by heads, with the explicit VJP of `attn`.

    Raises:
        TypeError, ValueError: as `jax_ref.attn`; an axis that the mesh lacks; a size that it does not divide.
    """
    return _by_heads(attn, q, k, v, mesh, axis)


def by_heads_ad(
    q: Inexact[Array, "h n d"], k: Inexact[Array, "h m d"], v: Inexact[Array, "h m e"], *, mesh: Mesh, axis: str
) -> tuple[Inexact[Array, "h n e"], Inexact[Array, "h n m"]]:
    """`by_heads` for forward mode first, and for any mix of modes: `jax_ref.attn_ad` on each device."""
    return _by_heads(attn_ad, q, k, v, mesh, axis)


def _by_heads(op: Callable, q, k, v, mesh, axis):
    for name, x in (("q", q), ("k", k), ("v", v)):
        axes = ", ".join(("h", *AXES[name]))
        if not hasattr(x, "shape"):
            raise TypeError(f"attn: {name} must be an array with axes ({axes}), got {type(x).__name__}")
        if len(x.shape) != 3:
            raise ValueError(f"attn: {name} must have 3 axes ({axes}), got {len(x.shape)} (shape {tuple(x.shape)})")
        if x.shape[0] != q.shape[0]:
            raise ValueError(f"attn: axis h is {q.shape[0]} in q but {x.shape[0]} in {name}; make them equal")
    of_one_head: tuple[Any, ...] = tuple(jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in (q, k, v))
    validate(*of_one_head)
    _divided(mesh, axis, h=("q", q.shape[0]))
    return _mapped(jax.vmap(op), mesh, axis, (PartitionSpec(axis),) * 3)(q, k, v)


def by_sequence(
    q: Inexact[Array, "n d"], k: Inexact[Array, "m d"], v: Inexact[Array, "m e"], *, mesh: Mesh, axis: str
) -> Inexact[Array, "n e"]:
    """The output of `jax_ref.attn`, with queries, keys and values sharded: a ring, see `ring`.

    Args:
        q: queries (n, d), of a dtype that `jax_ref.attn` takes. k: keys (m, d). v: values (m, e). Batch axes:
            `jax.vmap`.
        mesh: the devices. axis: the name of the mesh's axis that divides n and m.

    Returns:
        output (n, e), sharded like q. No device ever holds all of k, v or attn, in either direction.

    Raises:
        TypeError, ValueError: as `jax_ref.attn`; an axis that the mesh lacks; a size that it does not divide.
    """
    return _by_sequence(ring, q, k, v, mesh, axis)


def by_sequence_ad(
    q: Inexact[Array, "n d"], k: Inexact[Array, "m d"], v: Inexact[Array, "m e"], *, mesh: Mesh, axis: str
) -> Inexact[Array, "n e"]:
    """`by_sequence` for forward mode first, and for any mix of modes: `ring_ad` on each device."""
    return _by_sequence(ring_ad, q, k, v, mesh, axis)


def _by_sequence(op: Callable, q, k, v, mesh, axis):
    validate(q, k, v)
    _divided(mesh, axis, n=("q", q.shape[0]), m=("k", k.shape[0]))
    return _mapped(lambda q, k, v: op(q, k, v, axis), mesh, axis, (PartitionSpec(axis),) * 3)(q, k, v)


def _divided(mesh: Mesh, axis: str, **sizes: tuple[str, int]) -> None:
    """Raise unless the mesh has the axis, and its size divides these axes of the arguments."""
    if axis not in mesh.shape:
        there = ", ".join(map(repr, mesh.axis_names))
        raise ValueError(f"attn: the mesh has no axis {axis!r}, it has {there}; name one of these")
    devices = mesh.shape[axis]
    for name, (argument, size) in sizes.items():
        if size % devices:
            raise ValueError(
                f"attn: axis {name} is {size} in {argument}, and the mesh's axis {axis!r} has {devices} devices, which "
                f"do not divide it; pad {name} to {-(-size // devices) * devices}, or take a mesh axis that divides it"
            )


def _mapped(f: Callable, mesh: Mesh, axis: str, specs: tuple[PartitionSpec, ...]) -> Callable:
    """f on every device along an axis of the mesh; its results are sharded as the first of its arguments is."""
    mapped = jax.shard_map(f, mesh=mesh, in_specs=specs, out_specs=specs[0], axis_names={axis})

    def on_the_mesh(*args: jax.Array) -> Any:
        if AxisType.Explicit in mesh.axis_types:  # along such an axis arrays move on demand only
            args = tuple(jax.reshard(x, NamedSharding(mesh, spec)) for x, spec in zip(args, specs, strict=True))
        return mapped(*args)

    return on_the_mesh
