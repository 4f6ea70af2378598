"""equinox: a loop with checkpoints, differentiated in reverse by rules of its own: xₖ₊₁ = tanh(a xₖ)."""

import equinox.internal as eqxi
import jax.numpy as jnp

from gradparity import JaxCandidate, OpSpec


def repeated(x, a):
    for _ in range(5):
        x = jnp.tanh(a * x)
    return x


def loop(x, a):
    def step(state):
        i, x = state
        return i + 1, jnp.tanh(a * x)

    return eqxi.while_loop(lambda state: state[0] < 5, step, (0, x), max_steps=8, kind="checkpointed", checkpoints=3)[1]


spec = OpSpec("while_loop", repeated, "(n),(n)->(n)")
candidate = JaxCandidate(loop)
limits = dict.fromkeys(
    ["jvp", "adjoint", "vjp_of_jvp", "jvp_of_jvp", "vjp_of_vjp"],
    "its rules are of reverse mode, and are made of loops that JAX does not differentiate in reverse",
)
