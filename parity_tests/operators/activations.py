"""Activations: softplus, GELU, SiLU, gated units, a soft cap."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import torch
from torch.nn import functional

from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators import sites
from parity_tests.operators.operator import Formulas, Mistake, Operator, by_formulas, changing, function, right


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


_ROOT, _CUBIC = math.sqrt(2 / math.pi), 0.044715


def _tanh_of_gelu(x):
    return torch.tanh(_ROOT * (x + _CUBIC * x * x * x))


def _gelu_tanh_forward(at, x):
    return (0.5 * x * (1 + _tanh_of_gelu(x)),), (x,)


def _gelu_tanh_backward(at, saved, bars):
    (x,), g = saved, at("y_bar", bars[0])
    t = at("t", _tanh_of_gelu(x))
    inner = at("inner", _ROOT * (1 + 3 * _CUBIC * x * x), x)
    slope = 0.5 * (1 + t) + at("second term", 0.5 * x * (1 - t * t) * inner)
    return (at("x_bar", g * at("slope", slope, x)),)


def _slope_of_exact_gelu(slope, x):
    return 0.5 * (1 + torch.erf(x / math.sqrt(2))) + x * torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _of_one_cubic_term(inner, x):
    return _ROOT * (1 + _CUBIC * x * x)


def _gelu_tanh_vjp(x, w, at=right):
    return _gelu_tanh_backward(at, (x,), (w,))[0]


_GELU_TANH = Formulas("GELU, by tanh", sites.rows(1), _gelu_tanh_forward, _gelu_tanh_backward, sites.ROWS)
gelu_tanh = Operator(
    OpSpec("gelu_tanh", lambda x: jax.nn.gelu(x, approximate=True), "(n,m)->(n,m)"),
    lambda x: functional.gelu(x, approximate="tanh"),
    {
        "exact_gelu": Mistake(functional.gelu, "forward"),
        "exact_gelu_backward": _GELU_TANH.mistake({"slope": _slope_of_exact_gelu}),
        "cubic_factor_of_3_missing": Mistake(
            function(
                lambda x: functional.gelu(x, approximate="tanh"),
                lambda x, w: _gelu_tanh_vjp(x, w, changing({"inner": _of_one_cubic_term})),
                _gelu_tanh_vjp,
            ),
            "adjoint",
            passes=("forward", "jvp"),
        ),
    }
    | _GELU_TANH.planted(
        sites.left_out("second term", "the term with the derivative of the tanh is left out"),
        ("the derivative is that of the exact GELU", "formula", {"slope": _slope_of_exact_gelu}),
        ("the factor 3 of the cubic term is missing", "factor", {"inner": _of_one_cubic_term}),
        ("the cubic term is left out of the slope", "term", {"inner": lambda i, x: torch.full_like(i, _ROOT)}),
        sites.stale_row("t", "the tanh of one row is 10 % too large"),
        (
            "the derivative is 0 for x < -2",
            "formula",
            {"slope": lambda s, x: torch.where(x < -2, torch.zeros_like(s), s)},
        ),
        sites.first_row_for_all("y_bar"),
        sites.half("x_bar"),
        sites.entry("x_bar"),
        sites.doubled_tile("x_bar"),
        sites.negated_column("x_bar"),
        sites.slight("x_bar"),
    ),
    _GELU_TANH,
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


def _silu_forward(at, x):
    return (x * torch.sigmoid(x),), (x,)


def _silu_backward(at, saved, bars):
    (x,), g = saved, at("y_bar", bars[0])
    s = at("sigmoid", torch.sigmoid(x), x)
    return (at("x_bar", at("slope", s + at("second term", x * s * (1 - s)), x) * g),)


def _silu_vjp(x, w):
    return _silu_backward(right, (x,), (w,))[0]


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


_SILU = Formulas("SiLU", sites.rows(1, 2.0), _silu_forward, _silu_backward, sites.ROWS)
silu = Operator(
    OpSpec("silu", jax.nn.silu, "(n,m)->(n,m)", input_names=("x",)),
    functional.silu,
    {
        "one_minus_missing": Mistake(
            function(functional.silu, lambda x, w: w * torch.sigmoid(x) * (1 + x * torch.sigmoid(x))), "vjp"
        ),
        "jvp_without_product_rule": Mistake(
            function(functional.silu, _silu_vjp, lambda x, d: d * torch.sigmoid(x)), "jvp", passes=("vjp",)
        ),
        "vmap_along_the_first_axis": Mistake(
            function(functional.silu, _silu_vjp, vmap=_silu_of_batch), "vmap", passes=("vjp",)
        ),
        "cotangent_written": Mistake(function(functional.silu, _silu_written), "purity", passes=("vjp",)),
        "input_written": Mistake(_silu_in_place, "purity"),
        "contiguous_buffer": Mistake(_silu_of_buffer, "layouts", passes=("vjp",)),
    }
    | _SILU.planted(
        sites.left_out("second term", "the term with the derivative of the sigmoid is left out"),
        sites.sign("second term"),
        ("the sigmoid is that of a scaled by 1.702", "formula", {"sigmoid": lambda s, x: torch.sigmoid(1.702 * x)}),
        ("the slope is at most 1", "formula", {"slope": lambda s, x: s.clamp(max=1.0)}),
        (
            "the derivative is 0 for x < -4",
            "formula",
            {"slope": lambda s, x: torch.where(x < -4, torch.zeros_like(s), s)},
        ),
        sites.stale_row("sigmoid", "the sigmoid of one row is 10 % too large"),
        sites.first_row_for_all("y_bar"),
        sites.half("x_bar"),
        sites.entry("x_bar"),
        sites.zero_row("x_bar"),
        sites.doubled_tile("x_bar"),
        sites.slight("x_bar"),
    ),
    _SILU,
)


CAP = 5.0


def _gated_silu_forward(at, a, b):
    return (a * torch.sigmoid(a) * b,), (a, b)


def _gated_silu_backward(at, saved, bars):
    (a, b), g = saved, at("y_bar", bars[0])
    s = at("sigmoid", torch.sigmoid(a), a)
    slope = s + at("second term", a * s * (1 - s))
    return at("a_bar", g * at("b in a_bar", b) * slope), at("b_bar", g * a * at("sigmoid of b_bar", s))


gated_silu = by_formulas(
    lambda a, b: jax.nn.silu(a) * b,
    Formulas("SwiGLU", sites.rows(2), _gated_silu_forward, _gated_silu_backward, sites.ROWS),
    sites.left_out("second term", "the term with the derivative of the sigmoid is left out of a_bar"),
    sites.sign("second term"),
    ("b is left out of a_bar", "factor", {"b in a_bar": torch.ones_like}),
    sites.shifted("b in a_bar", "b in a_bar is that of the column before", axis=1),
    ("the sigmoid is left out of b_bar", "factor", {"sigmoid of b_bar": torch.ones_like}),
    ("the sigmoid is that of a scaled by 1.702", "formula", {"sigmoid": lambda s, a: torch.sigmoid(1.702 * a)}),
    sites.first_row_for_all("y_bar"),
    sites.half("a_bar"),
    sites.entry("b_bar"),
    sites.doubled_tile("a_bar"),
    sites.zero_row("b_bar"),
    sites.slight("a_bar"),
)


def _softplus_forward(at, x):
    return (torch.logaddexp(x, torch.zeros_like(x)),), (x,)


def _softplus_backward(at, saved, bars):
    (x,), g = saved, at("y_bar", bars[0])
    return (at("x_bar", g * at("slope", torch.sigmoid(x), x)),)


softplus_of_one = by_formulas(
    lambda x: jax.nn.softplus(x),
    Formulas("softplus", sites.rows(1, 3.0), _softplus_forward, _softplus_backward, sites.ROWS),
    ("the slope is 1 for x > 3", "formula", {"slope": lambda s, x: torch.where(x > 3, torch.ones_like(s), s)}),
    ("the slope is 0 for x < -3", "formula", {"slope": lambda s, x: torch.where(x < -3, torch.zeros_like(s), s)}),
    ("the slope is that of a scaled by 2", "formula", {"slope": lambda s, x: torch.sigmoid(2 * x)}),
    ("the slope is that of -x", "sign", {"slope": lambda s, x: torch.sigmoid(-x)}),
    sites.stale_row("slope", "the slope of one row is 10 % too large"),
    sites.shifted("y_bar", "y_bar is that of the column before", axis=1),
    sites.first_row_for_all("y_bar"),
    sites.half("x_bar"),
    sites.entry("x_bar"),
    sites.doubled_tile("x_bar"),
    sites.negated_column("x_bar"),
    sites.slight("x_bar"),
)


def _soft_cap_forward(at, x):
    t = torch.tanh(x / CAP)
    return (CAP * t,), (t,)


def _soft_cap_backward(at, saved, bars):
    (t,), g = saved, at("y_bar", bars[0])
    return (at("x_bar", g * at("slope", 1 - t * t, t)),)


soft_cap = by_formulas(
    lambda x: CAP * jnp.tanh(x / CAP),
    Formulas("soft cap of logits", sites.rows(1, 4.0), _soft_cap_forward, _soft_cap_backward, sites.ROWS),
    ("the slope is 1 - t, a factor 1 + t is missing", "factor", {"slope": lambda s, t: 1 - t}),
    ("the slope is 0 near saturation, for |t| > 0.9", "formula", {"slope": lambda s, t: s * (t.abs() < 0.9)}),
    sites.factor("slope", 1 / CAP, "the slope is divided by the cap"),
    ("the slope is that without a cap", "formula", {"slope": lambda s, t: torch.ones_like(s)}),
    sites.stale_row("slope", "the slope of one row is 10 % too large"),
    sites.shifted("y_bar", "y_bar is that of the row before"),
    sites.first_row_for_all("y_bar"),
    sites.half("x_bar"),
    sites.entry("x_bar"),
    sites.doubled_tile("x_bar"),
    sites.negated_column("x_bar"),
    sites.slight("x_bar"),
)
