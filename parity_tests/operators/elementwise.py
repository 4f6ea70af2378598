"""Elementwise operators: activations, and compositions whose plain form loses its digits."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import torch
from torch.nn import functional

from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators.operator import Mistake, Operator, function


def wide(rng, shape):
    """Numbers near zero, and far into both tails."""
    return rng.choice([1, 40], shape) * rng.standard_normal(shape)


# softplus(x) = log(1 + exp(b x)) / b, and x beyond the threshold.


def _softplus(x, beta):
    return jnp.logaddexp(beta * x, 0.0) / beta


def _softplus_overflows(x, beta):
    return torch.log(1 + torch.exp(beta * x)) / beta


def _softplus_torch(x, beta):
    # PyTorch's own, softplus, logaddexp and logsigmoid, lose their second derivative in a tail.
    z = beta * x
    # The slope of clamp at 0 is 1, and that of the rest is 0: together with maximum's 1/2 it is right there, too.
    return (torch.maximum(z, torch.zeros_like(z)) + torch.log1p(torch.exp(-z.abs()))) / beta


def _softplus_with(derivative):
    def call(x, beta):
        def jvp(x, x_dot):
            return x_dot * torch.sigmoid(beta * x)

        return function(lambda x: _softplus_torch(x, beta), lambda x, w: w * derivative(x, beta), jvp)(x)

    return call


softplus = Operator(
    OpSpec("softplus", _softplus, "(n)->(n)", params={"beta": 2.0}),
    _softplus_with(lambda x, b: torch.sigmoid(b * x)),  # differentiated twice, _softplus_torch is wrong at 0
    {
        "beta_in_the_derivative": Mistake(_softplus_with(lambda x, b: b * torch.sigmoid(b * x)), "vjp"),
        "sigmoid_of_minus_x": Mistake(_softplus_with(lambda x, b: torch.sigmoid(-b * x)), "vjp", passes=("forward",)),
        "threshold_too_low": Mistake(lambda x, beta: functional.softplus(x, beta, threshold=2), "forward"),
        "derivative_detached": Mistake(
            _softplus_with(lambda x, b: torch.sigmoid(b * x).detach()), "vjp_of_vjp", passes=("vjp", "jvp")
        ),
    },
)

softplus_wide = Operator(
    OpSpec("softplus", _softplus, "(n)->(n)", params={"beta": 2.0}, domains={"x": wide}),
    _softplus_torch,
    {
        "default_threshold": Mistake(functional.softplus, "forward"),  # the identity from 20 on: off by 2e-9
        "overflows": Mistake(_softplus_overflows, "forward", "float32"),
        "nan_at_minus_infinity": Mistake(
            _softplus_with(lambda x, b: torch.exp(b * x) / (1 + torch.exp(b * x))), "vjp", "float32", ("forward",)
        ),
    },
)


# gelu, exact and by tanh.


def _gelu_tanh(x):
    return jax.nn.gelu(x, approximate=True)


_C = math.sqrt(2 / math.pi)


def _gelu_tanh_backward(x, w, cubic=3 * 0.044715):
    t = torch.tanh(_C * (x + 0.044715 * x**3))
    return w * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * _C * (1 + cubic * x * x))


def _gelu_tanh_jvp(x, x_dot):
    return _gelu_tanh_backward(x, x_dot)


gelu_tanh = Operator(
    OpSpec("gelu_tanh", _gelu_tanh, "(n)->(n)"),
    lambda x: functional.gelu(x, approximate="tanh"),
    {
        "exact_gelu": Mistake(functional.gelu, "forward"),
        "exact_gelu_backward": Mistake(
            function(
                lambda x: functional.gelu(x, approximate="tanh"),
                lambda x, w: (
                    w * (0.5 * (1 + torch.erf(x / math.sqrt(2))) + x * torch.exp(-x * x / 2) / math.sqrt(2 * math.pi))
                ),
            ),
            "vjp",
            passes=("forward",),
        ),
        "cubic_factor_of_3_missing": Mistake(
            function(
                lambda x: functional.gelu(x, approximate="tanh"),
                lambda x, w: _gelu_tanh_backward(x, w, 0.044715),
                _gelu_tanh_jvp,
            ),
            "adjoint",
            passes=("forward", "jvp"),
        ),
    },
)

gelu = Operator(
    OpSpec("gelu", lambda x: jax.nn.gelu(x, approximate=False), "(n)->(n)"),
    functional.gelu,
    {
        "quick_gelu": Mistake(lambda x: x * torch.sigmoid(1.702 * x), "forward"),
        "density_term_missing": Mistake(
            function(functional.gelu, lambda x, w: w * 0.5 * (1 + torch.erf(x / math.sqrt(2)))), "vjp"
        ),
    },
)


# silu(x) = x sigmoid(x)


def _silu_backward(x, w):
    s = torch.sigmoid(x)
    return w * s * (1 + x * (1 - s))


def _silu_of_batch(info, in_dims, x):
    """A vmap rule that takes the batch to come first, whatever in_dims says."""
    return functional.silu(x), 0


def _silu_written(x, w):
    return w.mul_(torch.sigmoid(x) * (1 + x * (1 - torch.sigmoid(x))))


def _silu_in_place(x):
    with torch.no_grad():
        x.mul_(1 + 2**-20)
    return functional.silu(x)


def _silu_of_buffer(x):
    """Reads the memory from the first entry on as if the tensor were contiguous, like a kernel that takes a pointer."""
    flat = torch.as_strided(x, (x.numel(),), (1,))
    return functional.silu(flat).reshape(x.shape)


silu = Operator(
    OpSpec("silu", jax.nn.silu, "(n,m)->(n,m)", input_names=("x",)),
    functional.silu,
    {
        "one_minus_missing": Mistake(
            function(functional.silu, lambda x, w: w * torch.sigmoid(x) * (1 + x * torch.sigmoid(x))), "vjp"
        ),
        "jvp_without_product_rule": Mistake(
            function(functional.silu, _silu_backward, lambda x, d: d * torch.sigmoid(x)), "jvp", passes=("vjp",)
        ),
        "vmap_along_the_first_axis": Mistake(
            function(functional.silu, _silu_backward, vmap=_silu_of_batch), "vmap", passes=("vjp",)
        ),
        "cotangent_written": Mistake(function(functional.silu, _silu_written), "purity", passes=("vjp",)),
        "input_written": Mistake(_silu_in_place, "purity"),
        "contiguous_buffer": Mistake(_silu_of_buffer, "layouts", passes=("vjp",)),
    },
)


# log(1 - exp(-x)) for x > 0


def _log1mexp(x):
    return jnp.log(-jnp.expm1(-x))  # up to x = 2 as good as the other branch


def _log1mexp_torch(x):
    return torch.log(-torch.expm1(-x))


def small_and_large(rng, shape):
    """Positive numbers from 2⁻⁹ to 2; of the smallest the second derivative, or a part of it, overflows in float16."""
    return 2.0 ** rng.uniform(-9, 1, shape)


log1mexp = Operator(
    OpSpec("log1mexp", _log1mexp, "(n)->(n)", domains={"x": small_and_large}),
    _log1mexp_torch,
    {
        "plain": Mistake(lambda x: torch.log(1 - torch.exp(-x)), "forward", "bfloat16"),
        "plain_in_low_precision": Mistake(lambda x: torch.log1p(-torch.exp(-x)), "forward", "float32"),
        "sign": Mistake(function(_log1mexp_torch, lambda x, w: -w / torch.expm1(x)), "vjp"),
        "cancelling_backward": Mistake(
            function(_log1mexp_torch, lambda x, w: w * torch.exp(-x) / (1 - torch.exp(-x))),
            "vjp",
            "float32",
            ("forward",),
        ),
    },
)


# clamp to [-0.9, 0.3], which no 16-bit number is: at a kink every subgradient is right.


def _clamp(x):
    return jnp.where(x < -0.9, -0.9, jnp.where(x > 0.3, 0.3, x))


def _clamp_torch(x):
    return torch.clamp(x, -0.9, 0.3)


clamp = Operator(
    OpSpec("clamp", _clamp, "(n,m)->(n,m)"),
    _clamp_torch,
    {
        "one_sided_mask": Mistake(function(_clamp_torch, lambda x, w: w * (x < 0.3)), "vjp", passes=("forward",)),
        "straight_through": Mistake(function(_clamp_torch, lambda x, w: w * 1), "vjp", passes=("forward",)),
        "cotangent_clamped": Mistake(
            function(_clamp_torch, lambda x, w: torch.clamp(w, -1, 1) * ((x > -0.9) & (x < 0.3))), "vjp"
        ),
    },
)

tanh = Operator(
    OpSpec("tanh", jnp.tanh, "(n)->(n)", input_names=("x",)),
    torch.tanh,
    {
        "output_saved_as_16_bits": Mistake(
            function(torch.tanh, lambda x, w: w * (1 - torch.tanh(x).bfloat16().to(x.dtype) ** 2)), "vjp", "float32"
        ),
        "one_minus_square_in_low_precision": Mistake(
            function(torch.tanh, lambda x, w: w * (1 - (torch.tanh(x).bfloat16() ** 2).to(x.dtype))), "vjp", "float32"
        ),
    },
)
