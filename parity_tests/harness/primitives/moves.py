"""Moves and selections: the numbers of the result are those of the operands."""

from __future__ import annotations

import functools

import numpy as np
from jax.extend.core import primitives as of_jax
from jax.lax import split_p, tile_p

from parity_tests.harness.primitives.registry import BY_MODULUS, Kind, primitive
from parity_tests.harness.primitives.value.convolutions import padded
from parity_tests.harness.primitives.value.evaluated import evaluated
from parity_tests.harness.primitives.value.functions import all_floating, always, of_one, where
from parity_tests.harness.primitives.value.movements import broadcast, itself, reshaped, sliced, split

MOVES = Kind.MOVES | Kind.LINEAR
_OF_ONE = {"kinds": MOVES, "complex": BY_MODULUS}


@primitive(of_jax.broadcast_in_dim_p, **_OF_ONE, value=of_one(broadcast))
@primitive(of_jax.reshape_p, **_OF_ONE, value=of_one(reshaped))
@primitive(of_jax.transpose_p, **_OF_ONE, value=of_one(lambda x, permutation: np.transpose(x, permutation)))
@primitive(of_jax.squeeze_p, **_OF_ONE, value=of_one(lambda x, dimensions: np.squeeze(x, tuple(dimensions))))
# By its name: no version has it in a public module.
@primitive("expand_dims", **_OF_ONE, value=of_one(lambda x, dimensions: np.expand_dims(x, tuple(dimensions))))
@primitive(of_jax.rev_p, **_OF_ONE, value=of_one(lambda x, dimensions: np.flip(x, tuple(dimensions))))
@primitive(of_jax.slice_p, **_OF_ONE, value=of_one(sliced))
@primitive(
    of_jax.concatenate_p,
    kinds=Kind.MOVES,
    complex=BY_MODULUS,
    value=where(always, lambda *x, dimension: np.concatenate(x, dimension)),
)
@primitive(of_jax.pad_p, kinds=Kind.MOVES, complex=BY_MODULUS, value=where(all_floating, padded))
@primitive(split_p, kinds=Kind.MOVES_UNFOLLOWED, complex=BY_MODULUS, value=of_one(split))
@primitive(tile_p, "stack", "unstack", kinds=Kind.MOVES_UNFOLLOWED)  # JAX 0.10.0 has no "stack" and "unstack"
def _rearranged(eqn, x, e, y, p):
    bounds = evaluated(eqn, *e)
    return [*map(np.asarray, bounds)] if eqn.primitive.multiple_results else np.asarray(bounds)


_ITSELF = Kind.ITSELF | Kind.KEEPS_SIZE


@primitive(of_jax.copy_p, kinds=_ITSELF | Kind.LINEAR, complex=BY_MODULUS, value=of_one(itself))
@primitive("copy_p", kinds=_ITSELF | Kind.LINEAR, complex=BY_MODULUS)  # of another primitive than `copy_p`
@primitive(of_jax.name_p, kinds=_ITSELF | Kind.LINEAR, complex=BY_MODULUS, value=of_one(itself))  # of checkpoint_name
@primitive(of_jax.stop_gradient_p, kinds=_ITSELF, complex=BY_MODULUS, value=of_one(itself))  # whose derivative is 0
def _same(eqn, x, e, y, p):
    return e[0]


@primitive(
    of_jax.select_n_p,
    kinds=Kind.SELECTS,
    complex=BY_MODULUS,
    value=where(lambda eqn, x: len(x) == 3 and x[0].dtype == np.bool_, lambda which, no, yes: np.where(which, yes, no)),
)
def _select(eqn, x, e, y, p):
    chosen = np.asarray(evaluated(eqn, x[0], *e[1:]))
    other = functools.reduce(
        np.maximum, (np.abs(case * 1.0 - y * 1.0) + bound for case, bound in zip(x[1:], e[1:], strict=True))
    )
    return np.where(np.asarray(e[0]) > 0, other, chosen)
