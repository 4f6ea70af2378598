"""What is refused, word for word: every message names the argument, the axis, the sizes and the remedy."""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_ref import attn, attn_ad, attn_primal
from parity_tests.suite.jax_ref._cases import FORMULAS, Formula, Sizes, draw, same
from parity_tests.suite.marks import fast

SIZES = Sizes(n=3, m=5, d=4, e=2)
Q, K, V = draw(SIZES, "q k v", seed=70)
DTYPES = "float64, float32, bfloat16, float16, complex128, complex64"


class Refused(NamedTuple):
    """Arguments, the exception and its text."""

    args: tuple
    error: type[Exception]
    text: str


def _rank(name: str, axes: str, x: np.ndarray) -> str:
    rank, shape = x.ndim, x.shape
    return f"attn: {name} must have 2 axes ({axes}), got {rank} (shape {shape}); map over batch axes with vmap"


REFUSED = {
    "q_with_a_batch": Refused((Q[None], K, V), ValueError, _rank("q", "n, d", Q[None])),
    "k_with_a_batch": Refused((Q, K[None], V), ValueError, _rank("k", "m, d", K[None])),
    "v_with_a_batch": Refused((Q, K, V[None]), ValueError, _rank("v", "m, e", V[None])),
    "all_with_a_batch": Refused((Q[None], K[None], V[None]), ValueError, _rank("q", "n, d", Q[None])),
    "q_a_vector": Refused((Q[0], K, V), ValueError, _rank("q", "n, d", Q[0])),
    "k_a_vector": Refused((Q, K[0], V), ValueError, _rank("k", "m, d", K[0])),
    "v_a_vector": Refused((Q, K, V[:, 0]), ValueError, _rank("v", "m, e", V[:, 0])),
    "q_a_number": Refused((Q[0, 0], K, V), ValueError, _rank("q", "n, d", Q[0, 0])),
    "axis_d": Refused(
        (Q[:, :3], K, V),
        ValueError,
        "attn: axis d is 3 in q but 4 in k (q has shape (3, 3), k has shape (5, 4)); make them equal",
    ),
    "axis_m": Refused(
        (Q, K, V[:3]),
        ValueError,
        "attn: axis m is 5 in k but 3 in v (k has shape (5, 4), v has shape (3, 2)); make them equal",
    ),
    "axis_d_of_1_is_not_broadcast": Refused(
        (Q, K[:, :1], V),
        ValueError,
        "attn: axis d is 4 in q but 1 in k (q has shape (3, 4), k has shape (5, 1)); make them equal",
    ),
    "integers": Refused(
        (Q.astype(int), K.astype(int), V.astype(int)),
        TypeError,
        f"attn: q has dtype int64; convert it to one of {DTYPES} before calling",
    ),
    "v_of_integers": Refused(
        (Q, K, V.astype("int32")), TypeError, f"attn: v has dtype int32; convert it to one of {DTYPES} before calling"
    ),
    "k_of_booleans": Refused(
        (Q, K > 0, V), TypeError, f"attn: k has dtype bool; convert it to one of {DTYPES} before calling"
    ),
    "8_bits": Refused(
        (Q, K, np.asarray(V, jnp.float8_e4m3fn)),
        TypeError,
        f"attn: v has dtype float8_e4m3fn; convert it to one of {DTYPES} before calling",
    ),
    "k_in_float32": Refused(
        (Q, K.astype("float32"), V),
        TypeError,
        "attn: q, k and v must share one dtype, got float64, float32 and float64; "
        "convert them to a common dtype before calling",
    ),
    "v_complex": Refused(
        (Q, K, V + 0j),
        TypeError,
        "attn: q, k and v must share one dtype, got float64, float64 and complex128; "
        "convert them to a common dtype before calling",
    ),
}
NOT_ARRAYS = {
    "q_a_list": Refused((Q.tolist(), K, V), TypeError, "attn: q must be an array with axes (n, d), got list"),
    "k_absent": Refused((Q, None, V), TypeError, "attn: k must be an array with axes (m, d), got NoneType"),
    "v_a_tuple": Refused((Q, K, (V,)), TypeError, "attn: v must be an array with axes (m, e), got tuple"),
}

ENTRIES: dict[str, Callable] = {"attn": attn, "attn_ad": attn_ad, "attn_primal": attn_primal}
ENTRIES |= {f"jit_{name}": jax.jit(op) for name, op in ENTRIES.items()}
# A formula checks its primals before it looks at a direction.
ENTRIES |= {
    name: lambda *primals, formula=formula: formula.explicit(*primals, *[None] * len(formula.directions))
    for name, formula in FORMULAS.items()
}
DIFFERENTIATED: dict[str, Callable] = {
    "vjp_of_attn": lambda *primals: jax.vjp(attn, *primals),
    "vjp_of_attn_ad": lambda *primals: jax.vjp(attn_ad, *primals),
    "vjp_of_jit_attn": lambda *primals: jax.vjp(jax.jit(attn), *primals),
}


def cases(table: dict):
    return [pytest.param(x, id=name) for name, x in table.items()]


def refuses(f: Callable, case: Refused) -> None:
    with pytest.raises(case.error) as info:
        f(*case.args)
    assert type(info.value) is case.error
    assert str(info.value) == case.text


# In a derivative the rules run in the place of the function, so they have to check, too.
@fast("attn", "attn_primal", "jit_attn_primal", "attn_jvp", "attn_vjp", "attn_vjp_of_vjp", "attn_jvp_of_vjp")
@pytest.mark.parametrize("entry", cases(ENTRIES | DIFFERENTIATED))
def test_refused_primals(entry: Callable, subtests):
    for name, case in (REFUSED | NOT_ARRAYS).items():
        with subtests.test(name):
            refuses(entry, case)


def test_vmap_counts_the_axes_that_it_leaves():
    """The message speaks of one entry of the batch."""
    refuses(jax.vmap(attn, (0, None, None)), Refused((Q, K, V), ValueError, _rank("q", "n, d", Q[0])))


each_formula = pytest.mark.parametrize("formula", cases(FORMULAS))


def arguments(formula: Formula) -> dict[str, np.ndarray]:
    return dict(zip(formula.arguments, draw(SIZES, formula.arguments, seed=71), strict=True))


@fast("attn_jvp", "attn_vjp")
@each_formula
def test_a_direction_of_the_wrong_shape(formula: Formula, subtests):
    """Transposed, with a batch, or with an axis of 1 or none that NumPy would broadcast."""
    args = arguments(formula)
    for direction in formula.directions:
        x, primal = args[direction], direction.split("_")[0]
        for wrong in (x.T, x[None], x[:1], x[0, 0]):
            text = f"attn: {direction} must have the shape of {primal}, {x.shape}, got {wrong.shape}"
            case = Refused(tuple((args | {direction: wrong}).values()), ValueError, text)
            with subtests.test(direction, shape=wrong.shape):
                refuses(formula.explicit, case)
                refuses(jax.jit(formula.explicit), case)


@fast("attn_jvp", "attn_vjp")
@each_formula
def test_a_direction_of_the_wrong_dtype(formula: Formula, subtests):
    args = arguments(formula)
    for direction, dtype in itertools.product(formula.directions, ("float32", "int64", "complex128")):
        wrong = args[direction].astype(dtype)
        text = f"attn: {direction} must have the dtype of q, float64, got {dtype}; convert it before calling"
        case = Refused(tuple((args | {direction: wrong}).values()), TypeError, text)
        with subtests.test(direction, dtype=dtype):
            refuses(formula.explicit, case)
            refuses(jax.jit(formula.explicit), case)


@each_formula
def test_a_direction_that_is_no_array(formula: Formula, subtests):
    """Not even 0, which is so near to what None means."""
    args = arguments(formula)
    for direction, wrong in itertools.product(formula.directions, ([0.0], 0, 0.0)):
        text = f"attn: {direction} must be an array or None, got {type(wrong).__name__}"
        with subtests.test(direction, wrong=wrong):
            refuses(formula.explicit, Refused(tuple((args | {direction: wrong}).values()), TypeError, text))


@pytest.mark.parametrize("name", ["attn", "attn_ad", "attn_primal", *FORMULAS])
def test_numpy_arrays_work(name):
    """Everywhere, in either order of storage, and what comes back is a JAX array."""
    names = FORMULAS[name].arguments if name in FORMULAS else ("q", "k", "v")
    f = FORMULAS[name].explicit if name in FORMULAS else ENTRIES[name]
    args = draw(SIZES, names, seed=72)
    for layout in (np.ascontiguousarray, np.asfortranarray):
        results = f(*(layout(x) for x in args))
        assert all(isinstance(x, jax.Array) for x in results)
        same(results, f(*map(jnp.asarray, args)))
