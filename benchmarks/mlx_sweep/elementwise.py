"""Functions of one number, or of two."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mlx.core as mx
import mlx.nn as nn

from benchmarks.mlx_sweep._operator import above_one, inside_one, op

PAIR = "(n),(n)->(n)"
INSIDE, ABOVE = {"x": inside_one}, {"x": above_one}
POSITIVE = {"x": "positive"}

OPERATORS = (
    op("abs", mx.abs, lambda x: jnp.abs(x)),
    op("arccos", mx.arccos, lambda x: jnp.arccos(x), domains=INSIDE),
    op("arccosh", mx.arccosh, lambda x: jnp.arccosh(x), domains=ABOVE),
    op("arcsin", mx.arcsin, lambda x: jnp.arcsin(x), domains=INSIDE),
    op("arcsinh", mx.arcsinh, lambda x: jnp.arcsinh(x)),
    op("arctan", mx.arctan, lambda x: jnp.arctan(x)),
    op("arctanh", mx.arctanh, lambda x: jnp.arctanh(x), domains=INSIDE),
    op("cos", mx.cos, lambda x: jnp.cos(x)),
    op("cosh", mx.cosh, lambda x: jnp.cosh(x)),
    op("degrees", mx.degrees, lambda x: x * (180 / jnp.pi)),
    op("erf", mx.erf, lambda x: jax.lax.erf(x)),
    op("erfinv", mx.erfinv, lambda x: jax.lax.erf_inv(x), domains=INSIDE),
    op("exp", mx.exp, lambda x: jnp.exp(x)),
    op("expm1", mx.expm1, lambda x: jnp.expm1(x)),
    op("log", mx.log, lambda x: jnp.log(x), domains=POSITIVE),
    op("log10", mx.log10, lambda x: jnp.log(x) / jnp.log(10.0), domains=POSITIVE),
    op("log1p", mx.log1p, lambda x: jnp.log1p(x), domains=POSITIVE),
    op("log2", mx.log2, lambda x: jnp.log(x) / jnp.log(2.0), domains=POSITIVE),
    op("nan_to_num", lambda x: mx.nan_to_num(x), lambda x: x),
    op("negative", mx.negative, lambda x: -x),
    op("radians", mx.radians, lambda x: x * (jnp.pi / 180)),
    op("reciprocal", mx.reciprocal, lambda x: 1 / x, domains={"x": "nonzero"}),
    op("rsqrt", mx.rsqrt, lambda x: jax.lax.rsqrt(x), domains=POSITIVE),
    op("sigmoid", mx.sigmoid, lambda x: jax.nn.sigmoid(x)),
    op("sign", lambda x: x * mx.sign(x), lambda x: x * jnp.sign(x), domains={"x": "nonzero"}),
    op("sin", mx.sin, lambda x: jnp.sin(x)),
    op("sinh", mx.sinh, lambda x: jnp.sinh(x)),
    op("sqrt", mx.sqrt, lambda x: jnp.sqrt(x), domains=POSITIVE),
    op("square", mx.square, lambda x: x * x),
    op("tan", mx.tan, lambda x: jnp.tan(x), domains=INSIDE),
    op("tanh", mx.tanh, lambda x: jnp.tanh(x)),
    op("add", mx.add, lambda x, y: x + y, "(n,m),(n|1,m)->(n,m)"),
    op("subtract", mx.subtract, lambda x, y: x - y, "(n,m),(n|1,m)->(n,m)"),
    op("multiply", mx.multiply, lambda x, y: x * y, "(n,m),(n|1,m)->(n,m)"),
    op("divide", mx.divide, lambda x, y: x / y, "(n,m),(n|1,m)->(n,m)", domains={"y": "nonzero"}),
    op("maximum", mx.maximum, lambda x, y: jnp.maximum(x, y), PAIR),
    op("minimum", mx.minimum, lambda x, y: jnp.minimum(x, y), PAIR),
    op("power", mx.power, lambda x, y: jnp.power(x, y), PAIR, domains=POSITIVE),
    op("power 3", lambda x: x**3, lambda x: x**3),
    op("logaddexp", mx.logaddexp, lambda x, y: jnp.logaddexp(x, y), PAIR),
    op("arctan2", mx.arctan2, lambda x, y: jnp.arctan2(x, y), PAIR, domains={"x": "nonzero", "y": "nonzero"}),
    op("clip", lambda x: mx.clip(x, -0.5, 1.0), lambda x: jnp.clip(x, -0.5, 1.0), kinks={"x": (-0.5, 1.0)}),
    op("where", lambda x, y: mx.where(x > y, x * y, y), lambda x, y: jnp.where(x > y, x * y, y), PAIR),
    op("relu", nn.relu, lambda x: jax.nn.relu(x)),
    op("relu6", nn.relu6, lambda x: jax.nn.relu6(x), kinks={"x": (6.0,)}),
    op("relu2", nn.relu2, lambda x: jnp.square(jax.nn.relu(x))),
    op("leaky_relu", nn.leaky_relu, lambda x: jax.nn.leaky_relu(x)),
    op("elu", nn.elu, lambda x: jax.nn.elu(x)),
    op("celu", nn.celu, lambda x: jax.nn.celu(x)),
    op("selu", nn.selu, lambda x: 1.0507 * jax.nn.elu(x, 1.67326)),
    op("gelu", nn.gelu, lambda x: x * (1 + jax.lax.erf(x / jnp.sqrt(2.0))) / 2),
    op("gelu_approx", nn.gelu_approx, lambda x: x * (1 + jnp.tanh(jnp.sqrt(2 / jnp.pi) * (x + 0.044715 * x**3))) / 2),
    op("gelu_fast_approx", nn.gelu_fast_approx, lambda x: x * jax.nn.sigmoid(1.702 * x)),
    op("silu", nn.silu, lambda x: jax.nn.silu(x)),
    op("softplus", nn.softplus, lambda x: jax.nn.softplus(x)),
    op("softsign", nn.softsign, lambda x: x / (1 + jnp.abs(x))),
    op(
        "softshrink",
        nn.softshrink,
        lambda x: jnp.where(jnp.abs(x) > 0.5, x - 0.5 * jnp.sign(x), 0.0),
        kinks={"x": (-0.5, 0.5)},
    ),
    op("mish", nn.mish, lambda x: x * jnp.tanh(jax.nn.softplus(x))),
    op("hardswish", nn.hardswish, lambda x: x * jax.nn.relu6(x + 3) / 6, kinks={"x": (-3.0, 3.0)}),
    op("hard_tanh", nn.hard_tanh, lambda x: jnp.clip(x, -1, 1), kinks={"x": (-1.0, 1.0)}),
    op("log_sigmoid", nn.log_sigmoid, lambda x: jax.nn.log_sigmoid(x)),
    op("prelu", nn.prelu, lambda x, y: jnp.where(x >= 0, x, x * y), PAIR),
)
