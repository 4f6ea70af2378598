"""Spectra: eigenvalues, functions of a symmetric matrix, singular values, Fourier transforms."""

from __future__ import annotations

import jax.numpy as jnp
import torch

from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators.operator import Mistake, Operator, function

# eigenvalues of a symmetric matrix


def _eigenvalues_with(of_vectors):
    return function(torch.linalg.eigvalsh, lambda a, w: of_vectors(torch.linalg.eigh(a)[1], w))


eigenvalues = Operator(
    OpSpec("eigvalsh", lambda a: jnp.linalg.eigvalsh(a), "(n,n)->(n)", domains={"a": "definite"}),
    torch.linalg.eigvalsh,
    {
        "vectors_transposed": Mistake(
            _eigenvalues_with(lambda v, w: v.mT @ (w[:, None] * v)), "vjp", passes=("forward",)
        ),
        "of_the_trace": Mistake(_eigenvalues_with(lambda v, w: torch.diag(w)), "vjp", passes=("forward",)),
        "vectors_detached": Mistake(
            _eigenvalues_with(lambda v, w: (v.detach() * w) @ v.detach().mT), "vjp_of_vjp", passes=("vjp",)
        ),
        "descending": Mistake(lambda a: torch.linalg.eigvalsh(a).flip(0), "forward"),
    },
)

# the square root of a definite matrix


def _root(a):
    w, v = jnp.linalg.eigh(a)
    return (v * jnp.sqrt(w)) @ v.T


def _root_torch(a):
    w, v = torch.linalg.eigh(a)
    return (v * w.sqrt()) @ v.mT


def _root_backward(a, y_bar, divided=lambda s: s[:, None] + s):
    w, v = torch.linalg.eigh(a)
    return v @ ((v.mT @ y_bar @ v) / divided(w.sqrt())) @ v.mT


matrix_root = Operator(
    OpSpec("matrix_root", _root, "(n,n)->(n,n)", domains={"a": "definite"}),
    function(_root_torch, _root_backward),
    {
        "as_if_it_commuted": Mistake(
            function(_root_torch, lambda a, y_bar: torch.linalg.solve(_root_torch(a), y_bar) / 2), "vjp"
        ),
        "diagonal_only": Mistake(
            function(
                _root_torch, lambda a, y_bar: _root_backward(a, y_bar, lambda s: 2 * s[:, None].expand(-1, len(s)))
            ),
            "vjp",
        ),
        "spectrum_detached": Mistake(
            function(_root_torch, lambda a, y_bar: _root_backward(a.detach(), y_bar)), "vjp_of_vjp", passes=("vjp",)
        ),
    },
)

# the sum of the singular values


def _nuclear(a):
    return jnp.linalg.svd(a, compute_uv=False).sum()


def _polar(a):
    u, _, vt = torch.linalg.svd(a, full_matrices=False)
    return u @ vt


nuclear_norm = Operator(
    OpSpec("nuclear_norm", _nuclear, "(4,3)->()"),
    lambda a: torch.linalg.svdvals(a).sum(),
    {
        "of_the_frobenius_norm": Mistake(
            function(lambda a: torch.linalg.svdvals(a).sum(), lambda a, w: w * a / a.norm()), "vjp", passes=("forward",)
        ),
        "subgradient_is_a_constant": Mistake(
            function(lambda a: torch.linalg.svdvals(a).sum(), lambda a, w: w * _polar(a.detach())),
            "vjp_of_vjp",
            passes=("vjp",),
        ),
    },
)

# the power spectrum of a real signal


def _power(x):
    y = jnp.fft.rfft(x)  # the second derivative of jnp.abs(y) ** 2 is 0 at y = 0
    return y.real**2 + y.imag**2


def _power_torch(x):
    z = torch.fft.rfft(x)
    return z.real**2 + z.imag**2


def _power_with(scale):
    def backward(x, w):
        z = torch.fft.rfft(x)
        return scale * torch.fft.irfft(z * w, n=len(x))

    return function(_power_torch, backward)


power_spectrum = Operator(
    OpSpec("power_spectrum", _power, "(8)->(5)"),
    _power_torch,
    {
        # irfft is no transpose of rfft: it counts all but the first and the last twice.
        "irfft_for_the_transpose": Mistake(_power_with(8), "vjp", passes=("forward",)),
        "scale": Mistake(_power_with(2), "vjp", passes=("forward",)),
        "amplitude": Mistake(lambda x: torch.fft.rfft(x).abs(), "forward"),
        "normalized": Mistake(lambda x: torch.fft.rfft(x, norm="ortho").abs() ** 2, "forward"),
    },
)
