"""torchdiffeq: the adjoint of an equation that the classical Runge-Kutta method solves exactly, as it does the adjoint.

x' = w y, y' = v has at t = 1 the solution x0 + w (y0 + v / 2), y0 + v.
"""

import jax.numpy as jnp
import torch
from torchdiffeq import odeint_adjoint

from gradparity import OpSpec


def exact(x0, y0, w, v):
    return jnp.stack([x0 + w * (y0 + v / 2), y0 + v])


spec = OpSpec("odeint_adjoint", exact, "(n),(n),(n),(n)->(2,n)", dtypes=["float64", "float32"])


def candidate(x0, y0, w, v):
    def slope(t, state):
        return torch.stack([w * state[1], v.expand_as(state[1])])

    times = torch.tensor([0.0, 1.0], dtype=x0.dtype)
    return odeint_adjoint(slope, torch.stack([x0, y0]), times, method="rk4", adjoint_params=(w, v))[-1]
