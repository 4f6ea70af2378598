"""Attention for models as data: specs that cross its options, and the implementations that are judged.

The oracle of `HEAD` is one head, with the explicit formulas of derivation/model.md, which JAX's autodiff certifies.
That of the others is attention written a second time, on whole arrays, without maps and rules: it judges how the face
maps heads, groups and batches, too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

import torch_impl
from jax_ref import _masked, dot_product_attention, dot_product_attention_ad
from parity_tests.harness.candidates.base import AnyCandidate
from parity_tests.harness.candidates.jax_candidate import JaxCandidate
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.specs.domains import integer
from parity_tests.harness.specs.spec import OpSpec

SCALE = 0.75
BLOCK = 3  # so that the small samples have several blocks, and one in part

_NUMBERS = {  # of the equations
    "output": "(3) in derivation/attn.md",
    "attn": "(105) in derivation/model.md",
    "q_bar": "(108) in derivation/model.md",
    "k_bar": "(109) in derivation/model.md",
    "v_bar": "(12) in derivation/attn.md",
    "bias_bar": "(110) in derivation/model.md",
    "attn_dot": "(6) in derivation/attn.md",
    "output_dot": "(7) in derivation/attn.md",
}
EQUATIONS = {result: f"equation {number}" for result, number in _NUMBERS.items()}
MASK = integer(0, 2)


def _of_head(f: Callable) -> Callable:
    """A function of `jax_ref._masked` with the scale, and a mask of integers as samples have it."""

    def of_head(q, k, v, bias, mask, *directions):
        return f(SCALE, q, k, v, bias, mask > 0, *directions)

    return of_head


HEAD = OpSpec(
    "attention_head",
    _of_head(_masked.masked_primal),
    "(n,d),(m,d),(m,e),(n|1,m|1),(n|1,m)->(n,e),(n,m)",
    vjp=_of_head(_masked.masked_vjp),
    jvp=_of_head(_masked.masked_jvp),
    vjp_of_vjp=_of_head(_masked.masked_vjp_of_vjp),
    jvp_of_vjp=_of_head(_masked.masked_jvp_of_vjp),
    vjp_of_jvp=_of_head(_masked.masked_vjp_of_jvp),
    jvp_of_jvp=_of_head(_masked.masked_jvp_of_jvp),
    input_names=("q", "k", "v", "bias", "mask"),
    output_names=("output", "attn"),
    domains={"mask": MASK},
    equations=EQUATIONS,
)


def plain(query, key, value, bias=None, allowed=None, *, scale: float) -> tuple[jax.Array, jax.Array]:
    """Attention on whole arrays: keys repeated for their groups, the mask a choice between the weight and 0."""
    groups = query.shape[-2] // key.shape[-2]
    key, value = (jnp.repeat(x, groups, axis=-2) for x in (key, value))
    scores = scale * jnp.einsum("...tnh,...snh->...nts", query, key)
    attn = jnp.tanh(scores if bias is None else scores + bias)
    attn = attn if allowed is None else jnp.where(allowed, attn, 0)
    return jnp.einsum("...nts,...sne->...tne", attn, value), attn


def _plain_grouped(query, key, value, bias, mask):
    return plain(query, key, value, bias, mask > 0, scale=SCALE)


GROUPED = OpSpec(
    "attention_grouped",
    _plain_grouped,
    "(b,t,4,h),(b,s,2,h),(b,s,2,e),(b|1,4,t|1,s|1),(b|1,1,t,s)->(b,t,4,e),(b,4,t,s)",
    output_names=("output", "attn"),
    domains={"mask": MASK},
)


def _plain_unbatched(query, key, value, bias, mask):
    return plain(query, key, value, bias, mask[None] > 0, scale=SCALE)[0]


UNBATCHED = OpSpec(
    "attention_unbatched",
    _plain_unbatched,
    "(t,4,h),(s,2,h),(s,2,e),(4,t|1,s|1),(t,s)->(t,4,e)",
    domains={"mask": MASK},
)


def _plain_causal(query, key, value, query_short, key_short):
    (T, _, H), S = query.shape[-3:], key.shape[-3]
    rows, columns = jnp.arange(T)[:, None], jnp.arange(S)[None, :]
    lengths = (size - x[:, None, None, None] for size, x in ((T, query_short), (S, key_short)))
    of_queries, of_keys = lengths
    allowed = (rows >= columns)[None, None] & (rows[None, None] < of_queries) & (columns[None, None] < of_keys)
    return plain(query, key, value, None, allowed, scale=max(H, 1) ** -0.5)[0]


CAUSAL = OpSpec(  # query_short, key_short: by how much the lengths of an example are shorter than the axes
    "attention_causal",
    _plain_causal,
    "(b,t,3,h),(b,s,3,h),(b,s,3,e),(b),(b)->(b,t,3,e)",
    domains={"query_short": integer(0, 2), "key_short": integer(0, 2)},
)

SPECS = {spec.name: spec for spec in (HEAD, GROUPED, UNBATCHED, CAUSAL)}


def as_head(f: Callable) -> Callable:
    """`dot_product_attention` as an implementation of HEAD."""

    def head(q, k, v, bias, mask):
        output, attn = f(q[:, None], k[:, None], v[:, None], bias, mask > 0, scale=SCALE, return_attn=True)
        return output[:, 0], attn[0]

    return head


def as_grouped(f: Callable) -> Callable:
    """... of GROUPED."""
    return lambda *args: f(*args[:4], args[4] > 0, scale=SCALE, return_attn=True)


def as_unbatched(f: Callable) -> Callable:
    """... of UNBATCHED."""
    return lambda *args: f(*args[:4], args[4] > 0, scale=SCALE)


def as_causal(f: Callable) -> Callable:
    """... of CAUSAL."""

    def causal(query, key, value, query_short, key_short):
        T, S = query.shape[-3], key.shape[-3]
        lengths = {"query_seq_lengths": T - query_short, "key_value_seq_lengths": S - key_short}
        return f(query, key, value, is_causal=True, **lengths)

    return causal


AS = {"attention_head": as_head, "attention_grouped": as_grouped, "attention_unbatched": as_unbatched}
AS |= {"attention_causal": as_causal}
IN_JAX = {
    "attention_jax": dot_product_attention,
    "attention_ad": dot_product_attention_ad,
    "attention_blockwise": functools.partial(dot_product_attention, implementation="blockwise", block_size=BLOCK),
    "attention_blockwise_ad": functools.partial(dot_product_attention_ad, implementation="blockwise", block_size=BLOCK),
}


def names(op: str) -> tuple[str, ...]:
    """The implementations of a spec; blocks of the matrix cannot return it."""
    returns_attn = op in ("attention_head", "attention_grouped")
    return "attention_composite", *(name for name in IN_JAX if not ("blockwise" in name and returns_attn))


def candidate(op: str, name: str) -> AnyCandidate:
    """The implementation of this name, of this spec."""
    if name in IN_JAX:
        return JaxCandidate(jax.jit(AS[op](IN_JAX[name])), name)
    return Candidate(AS[op](torch_impl.dot_product_attention), name, {})
