"""Operators of real and complex numbers together: real inputs of complex outputs, complex inputs beside real ones."""

from __future__ import annotations

import jax.numpy as jnp
import torch

from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators.operator import Mistake, Operator, function

# The half spectrum of real numbers. Its adjoint: of n/2 + 1 numbers w, Re Σ_k w_k exp(2πi jk/n), no term twice.


def _rfft_with(backward):
    def right(x, w):
        return torch.fft.fft(torch.nn.functional.pad(w, (0, x.shape[-1] - w.shape[-1])).conj()).real

    return function(torch.fft.rfft, lambda x, w: backward(x, w, right), lambda x, x_dot: torch.fft.rfft(x_dot))


def _irfft(x, w, right):
    return torch.fft.irfft(w, x.shape[-1]) * x.shape[-1]


rfft = Operator(
    OpSpec("rfft", jnp.fft.rfft, "(b,n)->(b,m)", sizes="m = n // 2 + 1, n >= 1", input_names=("x",)),
    _rfft_with(lambda x, w, right: right(x, w)),
    {
        "inverse_as_adjoint": Mistake(_rfft_with(_irfft), "vjp", passes=("forward", "jvp")),
        "not_conjugated": Mistake(_rfft_with(lambda x, w, right: right(x, w.conj())), "vjp", passes=("forward", "jvp")),
        "complex_gradient": Mistake(_rfft_with(lambda x, w, right: right(x, w) + 0j), "vjp"),
        "real_parts_only": Mistake(
            _rfft_with(lambda x, w, right: right(x, w.real + 0j)), "vjp", passes=("forward", "jvp")
        ),
    },
)


# A complex signal z, weighted by real numbers x: x z, and its power x |z|².


def _weighted(z, x):
    return x * z, x * (jnp.real(z) ** 2 + jnp.imag(z) ** 2)


def _weighted_torch(z, x):
    return x * z, x * (z.real**2 + z.imag**2)


def _weighted_with(z_bar, x_bar):
    def backward(z, x, w, v):
        return z_bar(z, x, w, v), x_bar(z, x, w, v)

    def jvp(z, x, z_dot, x_dot):
        power_dot = 2 * x * (z.real * z_dot.real + z.imag * z_dot.imag)
        return x_dot * z + x * z_dot, x_dot * (z.real**2 + z.imag**2) + power_dot

    return function(_weighted_torch, backward, jvp)


def _of_z(z, x, w, v):
    return x * w + 2 * x * v * z


def _of_x(z, x, w, v):
    return (z.conj() * w).real + v * (z.real**2 + z.imag**2)


def _not_real(z, x, w, v):
    return (z * w).real + v * (z.real**2 + z.imag**2)


weighted_signal = Operator(
    OpSpec("weighted_signal", _weighted, "(n),(n)->(n),(n)", domains={"z": "complex", "x": "positive"}),
    _weighted_with(_of_z, _of_x),
    {
        "product_without_conjugate": Mistake(_weighted_with(_of_z, _not_real), "vjp", passes=("forward", "jvp")),
        "power_conjugated": Mistake(
            _weighted_with(lambda z, x, w, v: x * w + 2 * x * v * z.conj(), _of_x), "vjp", passes=("forward", "jvp")
        ),
        "wirtinger_half": Mistake(
            _weighted_with(lambda z, x, w, v: x * w + x * v * z, _of_x), "vjp", passes=("forward", "jvp")
        ),
        "modulus_for_product": Mistake(
            _weighted_with(_of_z, lambda z, x, w, v: z.abs() * w.abs() + v * z.abs() ** 2), "vjp"
        ),
    },
)
