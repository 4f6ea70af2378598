"""The public functions of JAX with a call of each: whatever of them is differentiated, the error analysis may meet."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

NAMESPACES: tuple[types.ModuleType, ...] = (jnp, jax.nn, jax.scipy.special, jax.lax, jnp.linalg)

# Numbers with few bits and others, where all functions but those of numbers from 1 on are defined.
X, Y, Z = np.array([0.25, 0.7, 0.4]), np.array([0.2, 0.5, 0.6]), np.array([0.3, 0.9, 0.8])
ABOVE = np.array([1.25, 2.7, 1.4])
A = np.array([[2.0, 0.3, 0.1], [0.3, 3.0, 0.2], [0.1, 0.2, 2.5]])
EVEN = np.array([[0.25, 0.7], [0.4, 0.6]])
IMAGE, KERNEL = np.linspace(0.1, 0.9, 32).reshape(1, 2, 4, 4), np.linspace(0.1, 0.9, 24).reshape(3, 2, 2, 2)
PLACES, SIGNS, BITS = np.array([2, 0, 1]), np.array([True, False, True]), np.array([6, 3, 5], np.uint8)
FLOAT64 = jnp.dtype("float64")


@dataclass(frozen=True)
class Call:
    """Arguments of a function; those that are arrays of floating-point numbers are differentiated."""

    args: Sequence[Any]
    kwargs: dict[str, Any] = field(default_factory=dict)

    def program(self, f: Callable) -> core.ClosedJaxpr:
        """The jaxpr of the function."""
        return jax.make_jaxpr(self._of_numbers(f))(*self.numbers)

    def vjp(self, f: Callable) -> core.ClosedJaxpr | None:
        """The jaxpr of its VJP, of numbers and cotangents; None if it has none, or JAX has no derivative of it."""
        g = self._of_numbers(f)

        def real(*x: jax.Array) -> list[jax.Array]:
            return [y for y in jax.tree.leaves(g(*x)) if jnp.issubdtype(jnp.asarray(y).dtype, jnp.inexact)]

        cotangents = jax.eval_shape(real, *self.numbers)
        if not self.numbers or not cotangents:
            return None
        try:
            return jax.make_jaxpr(lambda x, c: jax.vjp(real, *x)[1](c))(self.numbers, cotangents)
        except (NotImplementedError, ValueError):
            return None

    @property
    def numbers(self) -> list[np.ndarray]:
        """The arguments that are differentiated."""
        return [x for x in jax.tree.leaves(self.args) if _is_real(x)]

    def _of_numbers(self, f: Callable) -> Callable:
        leaves, tree = jax.tree.flatten(self.args)

        def g(*numbers: jax.Array) -> Any:
            remaining = iter(numbers)
            given = [next(remaining) if _is_real(x) else x for x in leaves]
            return f(*jax.tree.unflatten(tree, given), **self.kwargs)

        return g


def _is_real(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def _called(*args: Any, **kwargs: Any) -> Call:
    return Call(args, kwargs)


# Those that most functions take. The first that a function does not refuse is its call.
_COMMON = [
    _called(X),
    _called(X, Y),
    _called(A),
    _called(A, X),
    _called(A, A),
    _called(X, Y, Z),
    _called(PLACES),
    _called(PLACES, PLACES),
    _called(SIGNS),
    _called(PLACES, X),
    _called(X, PLACES),
    _called(X, 2),
    _called([X, Y]),
    _called((3,)),
    _called(3),
]

_ONE_ROW = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
_ROWS_INTO = lax.ScatterDimensionNumbers(
    update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
)
_SCATTERED = _called(A, PLACES[:, None], A, _ROWS_INTO)
_OF_AXIS_0 = _called(A, (0,))
_NHWC = ("NHWC", "HWIO", "NHWC")

# Of functions with arguments of their own.
_OWN: dict[types.ModuleType, dict[str, Call]] = {
    jnp: {
        "apply_along_axis": _called(jnp.cumsum, 0, A),
        "apply_over_axes": _called(jnp.sum, A, (0, 1)),
        "argwhere": _called(X, size=3),
        "astype": _called(X, FLOAT64),
        "bincount": _called(PLACES, X, length=3),
        "broadcast_to": _called(X, (2, 3)),
        "choose": _called(PLACES, [X, Y, Z], mode="clip"),
        "compress": _called(SIGNS, X, size=2),
        "cov": _called(A),
        **{name: _called(IMAGE[0], 2) for name in ("split", "array_split", "dsplit", "hsplit", "vsplit")},
        "einsum": _called("ij,j->i", A, X),
        "extract": _called(SIGNS, X, size=2),
        "fill_diagonal": _called(A, X, inplace=False),
        "flatnonzero": _called(X, size=3),
        "fromfunction": _called(jnp.add, (2, 3)),
        "full": _called((3,), X),
        "insert": _called(X, 1, Y),
        "intersect1d": _called(X, Y, size=3),
        "kaiser": _called(3, np.array(0.5)),
        "mask_indices": _called(3, jnp.triu, size=6),
        "moveaxis": _called(A, 0, 1),
        "nonzero": _called(X, size=3),
        "permute_dims": _called(A, (1, 0)),
        "place": _called(X, SIGNS, Y, inplace=False),
        "polyfit": _called(X, Y, 1),
        "put": _called(X, PLACES, Y, inplace=False),
        "put_along_axis": _called(X, PLACES, Y, 0, inplace=False),
        "ravel_multi_index": _called((PLACES, PLACES), (3, 3), mode="clip"),
        "reshape": _called(A, (9,)),
        "rollaxis": _called(A, 1),
        "setdiff1d": _called(X, Y, size=3),
        "setxor1d": _called(X, Y, size=6),
        "swapaxes": _called(A, 0, 1),
        "tri": _called(3, dtype=FLOAT64),
        "union1d": _called(X, Y, size=6),
        **{
            name: _called(X, size=3)
            for name in ("unique", "unique_all", "unique_counts", "unique_inverse", "unique_values")
        },
        "unpackbits": _called(BITS),
        **{name: _called(ABOVE) for name in ("acosh", "arccosh")},
    },
    jax.nn: {
        "glu": _called(EVEN),
        "one_hot": _called(PLACES, 3),
        "dot_product_attention": _called(*(np.linspace(0.1, 0.9, 12).reshape(1, 3, 2, 2),) * 3),
        "scaled_dot_general": _called(A, A, (((1,), (0,)), ((), ()))),
    },
    jax.scipy.special: {
        "bessel_jn": _called(X, v=2),
        "hyp2f1": _called(X, Y, Z, X),
        "sph_harm_y": _called(np.array([1]), np.array([1]), X[:1], Y[:1], n_max=1),
        "spence": _called(X),
        "zeta": _called(ABOVE, X),
        "polygamma": _called(np.array([1, 2, 0]), X),
        "expn": _called(np.array([1, 2, 3]), X),
        "multigammaln": _called(ABOVE, 2),
    },
    lax: {
        "acosh": _called(ABOVE),
        "argmax": _called(X, 0, jnp.int32),
        "argmin": _called(X, 0, jnp.int32),
        "associative_scan": _called(jnp.add, X),
        "bitcast_convert_type": _called(X, jnp.dtype("uint64")),
        "broadcast": _called(X, (2,)),
        "broadcast_in_dim": _called(X, (2, 3), (1,)),
        "broadcasted_iota": _called(FLOAT64, (2, 3), 1),
        "clamp": _called(X, Y, Z),
        "concatenate": _called([X, Y], 0),
        "cond": _called(True, jnp.sin, jnp.cos, X),
        "conv": _called(IMAGE, KERNEL, (1, 1), "SAME"),
        "conv_general_dilated": _called(IMAGE, KERNEL, (1, 1), "SAME"),
        "conv_general_dilated_local": _called(
            IMAGE, np.linspace(0.1, 0.9, 216).reshape(3, 8, 3, 3), (1, 1), "VALID", (2, 2)
        ),
        "conv_general_dilated_patches": _called(IMAGE, (2, 2), (1, 1), "SAME"),
        "conv_transpose": _called(
            IMAGE.transpose(0, 2, 3, 1), KERNEL.transpose(2, 3, 1, 0), (1, 1), "SAME", dimension_numbers=_NHWC
        ),
        "conv_with_general_padding": _called(IMAGE, KERNEL, (1, 1), "SAME", None, None),
        "convert_element_type": _called(X, FLOAT64),
        "custom_linear_solve": _called(lambda x: 2 * x, X, lambda _, b: b / 2, symmetric=True),
        "custom_root": _called(lambda x: x - 2 * X, X, lambda f, x: x - f(x), lambda g, y: y / g(jnp.ones(3))),
        "dot_general": _called(A, A, (((1,), (0,)), ((), ()))),
        "dynamic_index_in_dim": _called(A, 1),
        "dynamic_slice": _called(A, (1, 1), (2, 2)),
        "dynamic_slice_in_dim": _called(A, 1, 2),
        "dynamic_update_index_in_dim": _called(A, X, 1, 0),
        "dynamic_update_slice": _called(A, EVEN, (1, 1)),
        "dynamic_update_slice_in_dim": _called(X, Y[:2], 1, 0),
        "empty": _called((3,), FLOAT64),
        "expand_dims": _called(X, (0,)),
        "fft": _called(X, "RFFT", (3,)),
        "fori_loop": _called(0, 3, lambda i, x: jnp.sin(x), X),
        "full": _called((3,), np.array(0.5)),
        "gather": _called(A, PLACES[:, None], _ONE_ROW, (1, 3)),
        "imag": _called(X.astype(complex)),
        "index_take": _called(A, (PLACES,), (0,)),
        "iota": _called(FLOAT64, 3),
        "map": _called(jnp.sin, X),
        "pad": _called(X, np.array(0.5), [(1, 1, 1)]),
        "platform_dependent": _called(X, default=jnp.sin, cpu=jnp.sin),
        "ragged_dot": _called(A, np.stack([A, A]), np.array([1, 2], np.int32)),
        "real": _called(X.astype(complex)),
        "reduce": _called(X, np.array(0.0), lax.max, (0,)),
        "reduce_and": _called(SIGNS, (0,)),
        "reduce_or": _called(SIGNS, (0,)),
        "reduce_xor": _called(SIGNS, (0,)),
        **{name: _OF_AXIS_0 for name in ("reduce_max", "reduce_min", "reduce_prod", "reduce_sum")},
        "reduce_precision": _called(X, 8, 23),
        "reduce_window": _called(A, -np.inf, lax.max, (2, 2), (1, 1), "VALID"),
        "reshape": _called(A, (9,)),
        "rev": _OF_AXIS_0,
        "scan": _called(lambda c, x: (c * x, c + x), np.array(0.5), X),
        **{
            name: _SCATTERED
            for name in ("scatter", "scatter_add", "scatter_max", "scatter_min", "scatter_mul", "scatter_sub")
        },
        "scatter_apply": _called(A, PLACES[:, None], jnp.sin, _ROWS_INTO, update_shape=(3, 3)),
        "select": _called(SIGNS, X, Y),
        "slice": _called(A, (0, 1), (2, 3)),
        "slice_in_dim": _called(A, 0, 2),
        "split": _called(X, (1, 2)),
        "squeeze": _called(X[None], (0,)),
        "switch": _called(1, [jnp.sin, jnp.cos], X),
        "tile": _called(X, (2,)),
        "transpose": _called(A, (1, 0)),
        "while_loop": _called(lambda c: c[1] < 3, lambda c: (jnp.sin(c[0]), c[1] + 1), (X, 0)),
        "betainc": _called(X, Y, Z),
        "regularized_incomplete_beta": _called(X, Y, Z),
        "polygamma": _called(np.ones(3), X),
        "zeta": _called(ABOVE, X),
    },
    jnp.linalg: {"matrix_power": _called(A, 2), "cholesky": _called(A), "solve": _called(A, X)},
}

_COLLECTIVE = "works between the devices of a mesh, by the name of an axis"
_TEXT_OR_FILE = "takes or returns files, text or settings"
_SHAPES = "of shapes and dtypes, not of arrays"
_MAKES = "makes another function"
NOT_CALLED: dict[types.ModuleType, dict[str, str]] = {
    jnp: {
        **dict.fromkeys(
            (
                *("array_repr", "array_str", "fromfile", "fromiter", "fromstring", "load", "save", "savez"),
                *("get_printoptions", "set_printoptions", "printoptions", "einsum_path"),
            ),
            _TEXT_OR_FILE,
        ),
        **dict.fromkeys(("frompyfunc", "vectorize"), _MAKES),
        **dict.fromkeys(("promote_types", "result_type"), _SHAPES),
        "trim_zeros": "the shape of its result depends on numbers, which are not traced",
    },
    jax.nn: {
        "get_scaled_dot_general_config": _TEXT_OR_FILE,
        "scaled_matmul": "takes numbers of 8 bits",
    },
    jax.scipy.special: {},
    lax: {
        **dict.fromkeys(
            (
                *("all_gather", "all_to_all", "axis_index", "axis_size", "pbroadcast", "pcast", "pmax", "pmean"),
                *("pmin", "ppermute", "precv", "psend", "pshuffle", "psum", "psum_scatter", "psum_scatter_start"),
                *("pswapaxes", "ragged_all_to_all", "with_sharding_constraint", "after_all", "create_token"),
            ),
            _COLLECTIVE,
        ),
        **dict.fromkeys(
            (
                *("conv_dimension_numbers", "conv_general_permutations", "conv_general_shape_tuple", "dtype"),
                *("conv_shape_tuple", "conv_transpose_shape_tuple", "padtype_to_pads", "reduce_window_shape_tuple"),
                *("ConvGeneralDilatedDimensionNumbers", "PrecisionLike"),
            ),
            _SHAPES,
        ),
        "composite": _MAKES,
        "ragged_dot_general": "is what `ragged_dot` calls",
        **dict.fromkeys(("rng_uniform", "rng_bit_generator", "random_gamma_grad"), "is of random numbers"),
        "scaled_dot": "takes numbers of 8 bits",
    },
    jnp.linalg: {},
}


def functions_of(module: types.ModuleType) -> Iterator[tuple[str, Callable]]:
    """The public functions of a namespace by name, but for those that are not called."""
    for name in sorted(dir(module)):
        f = getattr(module, name)
        if not name.startswith("_") and callable(f) and not inspect.isclass(f) and name not in NOT_CALLED[module]:
            yield name, f


def call_of(module: types.ModuleType, name: str, f: Callable) -> tuple[Call, core.ClosedJaxpr]:
    """A call that a function does not refuse, and the function's jaxpr.

    Raises:
        LookupError: it refuses all of them.
    """
    own = _OWN[module].get(name)
    refusals = []
    for call in _COMMON if own is None else [own]:
        try:
            return call, call.program(f)
        except Exception as error:
            refusals.append(error)
    raise LookupError(
        f"{module.__name__}.{name} refuses every call of jax_functions; give it one of its own there"
    ) from ExceptionGroup("refusals", refusals)
