"""torchdiffeq: the adjoint of an equation that the classical Runge-Kutta method solves exactly, as it does the adjoint.

x' = w y, y' = v has at t = 1 the solution x0 + w (y0 + v / 2), y0 + v.
"""

import jax.numpy as jnp
import torch
from torchdiffeq import odeint_adjoint

from gradparity import OpSpec


def solution(x0, y0, w, v):
    """One step of Kutta's 3/8 rule, which is the solution, and rounds as the method does."""
    first, second, third = y0, y0 + v / 3, y0 + (v - v / 3)
    last = y0 + (v - v + v)
    x = x0 + (w * first + 3 * (w * second + w * third) + w * last) * 0.125
    return jnp.stack([x, y0 + (v + 3 * (v + v) + v) * 0.125])


spec = OpSpec("odeint_adjoint", solution, "(n),(n),(n),(n)->(2,n)", dtypes=["float64", "float32"])


def candidate(x0, y0, w, v):
    def slope(t, state):
        return torch.stack([w * state[1], v.expand_as(state[1])])

    times = torch.tensor([0.0, 1.0], dtype=x0.dtype)
    return odeint_adjoint(slope, torch.stack([x0, y0]), times, method="rk4", adjoint_params=(w, v))[-1]
