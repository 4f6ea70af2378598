"""Elementwise operators, and special functions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax.scipy import special
from torch.nn import functional

from benchmarks.operators._case import COMPLEX, FIRST_ORDER, SECOND_ORDER, TRANSFORMS, WAYS, Defect, case

_TRIGAMMA = "8. digamma: derivative"
TRIGAMMA = Defect(
    _TRIGAMMA,
    ("x_bar", "output_dot", "x_bar_dot", "x_dot_bar", "output_bar_bar", "output_dot_dot"),
    (*FIRST_ORDER, *SECOND_ORDER, *WAYS, *TRANSFORMS),
    ("float64",),
)
DERIVATIVE_OF_TRIGAMMA = Defect(
    _TRIGAMMA, ("x_bar", "x_bar_dot", "output_dot_dot"), (*SECOND_ORDER, "functorch"), ("float64",)
)
_FAR_APART = "9. logaddexp: derivatives where the arguments are far apart"
FAR_APART = (
    Defect(_FAR_APART, ("x_bar", "y_bar"), ("vjp",), ("float16",)),
    Defect(_FAR_APART, ("x_bar", "y_bar"), ("points_second_order",), ("float64",), ("is large",)),
)
DIVISION = Defect("10. Division: gradient of the divisor", ("y_bar",), ("vjp",), ("float16",))
SQUARE = Defect(
    "22. addcdiv: gradient of the divisor",
    ("z_bar",),
    ("points",),
    ("float32", "bfloat16", "float16"),
    ("has squares that overflow", "has squares that underflow"),
)
LOGISTIC = Defect(
    "31. logsigmoid: second derivative of large numbers", ("x_bar",), ("points_second_order",), ("float64",), ("is 40",)
)
SELECTION = Defect(
    "12. maximum, minimum, fmax, fmin: the other argument's tangent",
    ("output_dot", "output_dot_dot"),
    ("jvp", "jvp_of_jvp", "layouts", "vmap"),
)


def above_one(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers at which the multivariate gamma function of order 3 is defined."""
    return 1.25 + np.exp(rng.standard_normal(shape) / 2)


def inside_one(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers at which the arc cosine has a derivative."""
    return rng.uniform(-15 / 16, 15 / 16, shape)


CASES = (
    case("__rmul__", lambda x: 3.14 * x, lambda x: 3.14 * x, "(n,m)->(n,m)"),
    case("abs", lambda x: jnp.abs(x), torch.abs, "(n,m)->(n,m)"),
    case("acos", lambda x: jnp.arccos(x), torch.acos, "(n)->(n)", domains={"x": inside_one}),
    case(
        "addcdiv",
        lambda x, y, z: x + 0.5 * y / z,
        lambda x, y, z: torch.addcdiv(x, y, z, value=0.5),
        "(n,m),(n|1,m),(n,m)->(n,m)",
        SQUARE,
        domains={"z": "positive"},
    ),
    case("atan", lambda x: jnp.arctan(x), torch.atan, "(n)->(n)"),
    case("cosh", lambda x: jnp.cosh(x), torch.cosh, "(n)->(n)"),
    case(
        "digamma",
        lambda x: special.digamma(x),
        torch.digamma,
        "(n)->(n)",
        TRIGAMMA,
        domains={"x": "positive"},
    ),
    case("erfc", lambda x: special.erfc(x), torch.erfc, "(n)->(n)"),
    case("expm1", lambda x: jnp.expm1(x), torch.expm1, "(n)->(n)"),
    case("fmax", lambda x, y: jnp.fmax(x, y), torch.fmax, "(n,m),(n|1,m)->(n,m)", SELECTION),
    case("frac", lambda x: x - jnp.trunc(x), torch.frac, "(n)->(n)"),
    case("imag", lambda z: jnp.imag(z), torch.imag, "(n,m)->(n,m)", dtypes=COMPLEX),
    case(
        "lgamma",
        lambda x: special.gammaln(x),
        torch.lgamma,
        "(n)->(n)",
        DERIVATIVE_OF_TRIGAMMA,
        domains={"x": "positive"},
    ),
    case(
        "logaddexp",
        lambda x, y: jnp.logaddexp(x, y),
        torch.logaddexp,
        "(n,m),(n|1,m)->(n,m)",
        *FAR_APART,
    ),
    case("logit", lambda x: special.logit(x), torch.logit, "(n)->(n)", domains={"x": "unit"}),
    case("maximum", lambda x, y: jnp.maximum(x, y), torch.maximum, "(n,m),(n|1,m)->(n,m)", SELECTION),
    case("min.binary", lambda x, y: jnp.minimum(x, y), torch.min, "(n,m),(n,m|1)->(n,m)", SELECTION),
    case(
        "mvlgamma.mvlgamma_p_3",
        lambda x: special.multigammaln(x, 3),
        lambda x: torch.mvlgamma(x, 3),
        "(n)->(n)",
        DERIVATIVE_OF_TRIGAMMA,
        domains={"x": above_one},
    ),
    case("neg", lambda x: -x, torch.neg, "(n,m)->(n,m)"),
    case("nn.functional.elu", lambda x: jax.nn.elu(x, 0.7), lambda x: functional.elu(x, 0.7), "(n)->(n)"),
    case("nn.functional.glu", lambda x: jax.nn.glu(x), functional.glu, "(n,6)->(n,3)"),
    case("nn.functional.hardtanh", lambda x: jax.nn.hard_tanh(x), functional.hardtanh, "(n)->(n)"),
    case("nn.functional.logsigmoid", lambda x: jax.nn.log_sigmoid(x), functional.logsigmoid, "(n)->(n)", LOGISTIC),
    case("nn.functional.tanhshrink", lambda x: x - jnp.tanh(x), functional.tanhshrink, "(n)->(n)"),
    case(
        "polygamma.polygamma_n_2",
        lambda x: special.polygamma(2, x),
        lambda x: torch.polygamma(2, x),
        "(n)->(n)",
        domains={"x": "positive"},
    ),
    case("real", lambda z: jnp.real(z), torch.real, "(n,m)->(n,m)", dtypes=COMPLEX),
    case("rsub", lambda x, y: y - 2 * x, lambda x, y: torch.rsub(x, y, alpha=2), "(n,m),(n|1,m)->(n,m)"),
    case("sigmoid", lambda x: jax.nn.sigmoid(x), torch.sigmoid, "(n)->(n)"),
    case("special.entr", lambda x: special.entr(x), torch.special.entr, "(n)->(n)", domains={"x": "positive"}),
    case("special.i1e", lambda x: special.i1e(x), torch.special.i1e, "(n)->(n)"),
    case(
        "special.xlog1py",
        lambda x, y: special.xlog1py(x, y),
        torch.special.xlog1py,
        "(n,m),(n|1,m)->(n,m)",
        domains={"y": "positive"},
    ),
    case("square", lambda x: jnp.square(x), torch.square, "(n)->(n)"),
    case(
        "true_divide",
        lambda x, y: x / y,
        torch.true_divide,
        "(n,m),(n|1,m)->(n,m)",
        DIVISION,
    ),
)
