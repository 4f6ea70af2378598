"""Gradients that are a choice and no derivative: straight-through estimators, and the slopes of spiking neurons."""

from __future__ import annotations

import jax.numpy as jnp
import torch

from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators.operator import Mistake, Operator, function

# Rounding, whose gradient passes as it is: Y. Bengio, N. Leonard, A. Courville, arXiv:1308.3432, 2013.


def _through(gradient):
    return lambda x: gradient(x) + (torch.round(x) - gradient(x)).detach()


straight_through_round = Operator(
    OpSpec("straight_through_round", jnp.round, "(n)->(n)", input_names=("x",), surrogate=lambda x, w: (w,)),
    _through(lambda x: x),
    {
        "derivative_of_round": Mistake(torch.round, "vjp", passes=("forward",)),
        "scaled": Mistake(_through(lambda x: 2 * x), "vjp", passes=("forward",)),
    },
)


# The sign, whose gradient passes where |x| <= 1: I. Hubara et al., "Binarized Neural Networks", 2016.


def _sign_surrogate(x, w):
    return (jnp.where(jnp.abs(x) <= 1, w, 0.0),)


def _sign_with(backward):
    return function(torch.sign, backward, lambda x, x_dot: backward(x, x_dot))


binarize = Operator(
    OpSpec("binarize", jnp.sign, "(n,m)->(n,m)", input_names=("x",), surrogate=_sign_surrogate),
    _sign_with(lambda x, w: w * (x.abs() <= 1)),
    {
        "not_masked": Mistake(_sign_with(lambda x, w: 1 * w), "vjp", passes=("forward",)),
        "masked_on_one_side": Mistake(_sign_with(lambda x, w: w * (x <= 1)), "vjp", passes=("forward",)),
        "mask_without_its_ends": Mistake(_sign_with(lambda x, w: w * (x.abs() < 1)), "points", passes=("vjp", "jvp")),
        "scaled": Mistake(_sign_with(lambda x, w: 0.5 * w * (x.abs() <= 1)), "vjp", passes=("forward",)),
        "masks_the_cotangent": Mistake(_sign_with(lambda x, w: w * (w.abs() <= 1)), "vjp", passes=("forward",)),
        "tangent_not_masked": Mistake(
            function(torch.sign, lambda x, w: w * (x.abs() <= 1), lambda x, x_dot: 1 * x_dot), "jvp", passes=("vjp",)
        ),
    },
)


# A spike, whose gradient is that of a fast sigmoid: F. Zenke, S. Ganguli, "SuperSpike", 2018.


def _spike(x, slope):
    return jnp.where(x > 0, 1.0, 0.0) * jnp.ones_like(x)


def _spike_torch(gradient):
    def call(x, slope):
        def backward(x, w):
            return gradient(x, slope) * w

        return function(lambda x: (x > 0).to(x.dtype), backward, backward)(x)

    return call


superspike = Operator(
    OpSpec(
        "superspike",
        _spike,
        "(n)->(n)",
        params={"slope": 10.0},
        surrogate=lambda x, w, slope: (w / (1 + slope * jnp.abs(x)) ** 2,),
    ),
    _spike_torch(lambda x, slope: 1 / (1 + slope * x.abs()) ** 2),
    {
        "not_squared": Mistake(_spike_torch(lambda x, slope: 1 / (1 + slope * x.abs())), "vjp", passes=("forward",)),
        "slope_forgotten": Mistake(_spike_torch(lambda x, slope: 1 / (1 + x.abs()) ** 2), "vjp", passes=("forward",)),
        "detached": Mistake(
            _spike_torch(lambda x, slope: 1 / (1 + slope * x.abs().detach()) ** 2), "vjp_of_vjp", passes=("vjp", "jvp")
        ),
    },
)
