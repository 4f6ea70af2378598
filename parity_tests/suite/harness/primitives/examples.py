"""Programs in which each primitive is, whose own equation the tests of its record evaluate."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.extend import core

from parity_tests.harness.language import spelled_out


def _window(combine: Callable, start: float) -> Callable:
    return lambda x: lax.reduce_window(x, start, combine, (2, 2), (1, 1), "VALID")


def _gradient_of_two(x):
    return jax.vjp(lambda a: a * jnp.sin(a), x)[1](x)[0]


X, ROW, SCALAR, SQUARE = (3, 4), (4,), (), (3, 3)
# A program in which the primitive is, of arguments of these shapes: its equation is evaluated by itself.
Example = tuple[Callable, tuple[tuple[int, ...], ...]]
EXAMPLES: dict[str, Example] = {
    "reshape": (lambda x: lax.reshape(x, (4, 3)), (X,)),
    "transpose": (lambda x: x.T, (X,)),
    "broadcast_in_dim": (lambda x: lax.broadcast_in_dim(x, (2, 3, 4), (1, 2)), (X,)),
    "squeeze": (lambda x: lax.squeeze(x, (0,)), ((1, 3),)),
    "slice": (lambda x: lax.slice(x, (0, 1), (3, 4)), (X,)),
    "rev": (lambda x: lax.rev(x, (1,)), (X,)),
    "concatenate": (lambda x, y: lax.concatenate([x, y], 1), (X, X)),
    "pad": (lambda x, v: lax.pad(x, v, [(1, 1, 0), (0, 0, 1)]), (X, SCALAR)),
    "split": (lambda x: lax.split(x, (1, 3), 1), (X,)),
    "stack": (lambda x, y: jnp.stack([x, y]), (X, X)),
    "unstack": (lambda x: jnp.unstack(x), (X,)),
    "tile": (lambda x: jnp.tile(x, (2, 2)), (X,)),
    "neg": (lambda x: -x, (X,)),
    "copy": (jnp.copy, (X,)),
    "stop_gradient": (lax.stop_gradient, (X,)),
    "name": (lambda x: checkpoint_name(x, "named"), (X,)),
    "convert_element_type": (lambda x: x.astype(np.int32), (X,)),
    "select_n": (lambda x, y: lax.select_n(x > y, x, y), (X, X)),
    "add": (lambda x, y: x + y, (X, X)),
    "sub": (lambda x, y: x - y, (X, X)),
    "add_any": (_gradient_of_two, (X,)),
    "dot_general": (lambda x, y: x @ y, (X, (4, 2))),
    "conv_general_dilated": (
        lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME"),
        ((1, 2, 3, 4), (2, 2, 2, 2)),
    ),
    "reduce_sum": (lambda x: lax.reduce_sum_p.bind(x, axes=(0,), out_sharding=None), (X,)),
    "cumsum": (lambda x: lax.cumsum(x, 1), (X,)),
    "reduce_window_sum": (_window(lax.add, 0.0), (X,)),
    "scatter-add": (lambda x, y: x.at[jnp.array([2, 0])].add(y), (X, (2, 4))),
    "gather": (lambda x: x[jnp.array([2, 0])], (X,)),
    "dynamic_update_slice": (lambda x, y: lax.dynamic_update_slice(x, y, (1, 0)), (X, (2, 2))),
    "div": (lambda x, y: x / y, (X, X)),
    "triangular_solve": (lambda x, y: lax.linalg.triangular_solve(x, y, left_side=True, lower=True), (SQUARE, (3, 2))),
    "abs": (lax.abs, (X,)),
    **{name: (getattr(lax, name), (X, X)) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "cholesky": (lambda x: lax.linalg.cholesky(x, symmetrize_input=False), (SQUARE,)),
    "scatter": (lambda x, y: x.at[jnp.array([0, 2])].set(y), (X, (2, 4))),
    "dynamic_slice": (lambda x: lax.dynamic_slice(x, (1, 1), (2, 2)), (X,)),
    "mul": (lambda x, y: x * y, (X, X)),
    "integer_pow": (lambda x: lax.integer_pow(x, 3), (X,)),
    "square": (lax.square, (X,)),
    "reduce_prod": (lambda x: lax.reduce_prod(x, (0,)), (X,)),
    "cumprod": (lambda x: lax.cumprod(x, 1), (X,)),
    "cumlogsumexp": (lambda x: lax.cumlogsumexp(x, 1), (X,)),
    "max": (lax.max, (X, X)),
    "min": (lax.min, (X, X)),
    "clamp": (lax.clamp, (X, X, X)),
    "reduce_max": (lambda x: lax.reduce_max(x, (0,)), (X,)),
    "reduce_min": (lambda x: lax.reduce_min(x, (0,)), (X,)),
    "cummax": (lambda x: lax.cummax(x, 1), (X,)),
    "cummin": (lambda x: lax.cummin(x, 1), (X,)),
    "reduce_window_max": (_window(lax.max, -np.inf), (X,)),
    "reduce_window_min": (_window(lax.min, np.inf), (X,)),
    "scatter-max": (lambda x, y: x.at[jnp.array([2, 0])].max(y), (X, (2, 4))),
    "scatter-min": (lambda x, y: x.at[jnp.array([2, 0])].min(y), (X, (2, 4))),
    "floor": (lax.floor, (X,)),
    "ceil": (lax.ceil, (X,)),
    "round": (jnp.round, (X,)),
    "iota": (lambda: lax.iota(np.float64, 3), ()),
    "platform_index": (lambda: lax.platform_dependent(default=lambda: 0.0, cpu=lambda: 1.0), ()),
    "polygamma": (lambda x: lax.polygamma(jnp.ones(4), x), (ROW,)),
    "zeta": (lambda x: lax.zeta(jnp.full(4, 2.0), x), (ROW,)),
    "igamma": (lax.igamma, (ROW, ROW)),
    "igammac": (lax.igammac, (ROW, ROW)),
    "regularized_incomplete_beta": (lax.betainc, (ROW, ROW, ROW)),
    "pow": (lax.pow, (ROW, ROW)),
    "nextafter": (lax.nextafter, (ROW, ROW)),
    "atan2": (lax.atan2, (ROW, ROW)),
    **{
        name: (getattr(lax, name), (ROW,))
        for name in (
            *("exp", "exp2", "expm1", "log", "log1p", "logistic", "sqrt", "rsqrt", "cbrt", "erf", "erfc", "erf_inv"),
            *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
            *("lgamma", "digamma", "bessel_i0e", "bessel_i1e", "sign"),
        )
    },
}
WHOLE = tuple(name for name in ("erfcx", "erfcinv", "ndtri") if hasattr(jax.scipy.special, name))
# Of JAX 0.11 and later; an older one has no such function, and its programs no such primitive.
NEWER = ("log2", "one_minus_square")
# Functions of jax.scipy.special that are primitives to the analysis alone.
EXAMPLES |= {name: (lambda x, f=spelled_out._BY_FUNCTION_OF_JAX[f"_{name}"]: f(x), (ROW,)) for name in WHOLE}
EXAMPLES |= {name: (getattr(lax, name), (ROW,)) for name in NEWER if hasattr(lax, name)}
# Of other versions of JAX, or internal to its kernels: this one has no function that makes them.
ABSENT = {"copy_p", "expand_dims", "empty2", "lt_to", "le_to", *(name for name in NEWER if not hasattr(lax, name))}
ABSENT |= {"erfcx", "erfcinv", "ndtri"} - set(WHOLE)
LEAST = {"acosh": 1.0}  # where a function is defined: from here on, by less than 1


def _equations(jaxpr: core.Jaxpr) -> Iterator[core.JaxprEqn]:
    for eqn in jaxpr.eqns:
        yield eqn
        for sub in core.jaxprs_in_params(eqn.params):
            yield from _equations(sub)


def equation(name: str) -> core.JaxprEqn:
    """The primitive's own equation in its example."""
    f, shapes = EXAMPLES[name]
    jaxpr = jax.make_jaxpr(f)(*(np.full(shape, 0.5) for shape in shapes))
    return next(eqn for eqn in _equations(jaxpr.jaxpr) if eqn.primitive.name == name)
