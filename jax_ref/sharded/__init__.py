"""attn on many devices, by JAX's own engine; derivation/sharding.md says what moves between them, and what it costs.

`by_queries`, `by_heads` and `by_sequence` take whole arrays and a mesh, `ring` is for a `jax.shard_map` of your own.
Each has a second face for forward mode first, with `_ad`, as `jax_ref.attn` has.

For sharded queries or heads plain `jax.jit` suffices on a mesh with Auto axes: `jax.jit(jax_ref.attn)` of arrays that
were placed with a `NamedSharding`, without a line more.

Batches that are sharded along another axis of the mesh stay where they are under `jax.vmap` if the axes are Auto. If
they are Explicit, JAX (0.10.2) collects them first; `ring` inside a `jax.shard_map` over both axes does not.
"""

from jax_ref.sharded._mesh import by_heads as by_heads
from jax_ref.sharded._mesh import by_heads_ad as by_heads_ad
from jax_ref.sharded._mesh import by_queries as by_queries
from jax_ref.sharded._mesh import by_queries_ad as by_queries_ad
from jax_ref.sharded._mesh import by_sequence as by_sequence
from jax_ref.sharded._mesh import by_sequence_ad as by_sequence_ad
from jax_ref.sharded._ring import ring as ring
from jax_ref.sharded._ring import ring_ad as ring_ad
