"""gradparity new: a commented case file that runs as it is."""

from __future__ import annotations

from pathlib import Path

CASE = '''\
"""An operator to be cross-checked: `gradparity check {name}`."""

import jax.numpy as jnp
import torch

from gradparity import OpSpec


# 1. What it should compute, in plain JAX. Its derivatives are what the candidate is judged by.
def tanh_linear(x, w, scale):
    return jnp.tanh(scale * (x @ w))


# 2. The axes of its inputs and outputs, as a NumPy gufunc signature; inputs of many sizes are made from it.
#    "(n,d),(n|1,d)->(n,d)"      an input that may be of size 1 along n, to be broadcast
#    "(...,d),(d)->(...,d)"      any number of axes may come first
#    domains={{"x": "positive"}}   also "unit", "symmetric", "definite", "lower", integer(0, "n"), a sampler
#    constants=["w"]             inputs that are not differentiated
#    params={{"scale": 0.5}}       keyword parameters, handed to both sides
#    kinks={{"x": (-1.0, 1.0)}}    judge there, too, not only at 0; where a slope jumps, any between is right
#    conventions={{"x": "why"}}    ... but for x, which must have JAX's
spec = OpSpec("tanh_linear", primal=tanh_linear, signature="(n,d),(d,e)->(n,e)", params={{"scale": 0.5}})


# 3. The candidate: a function of tensors. Here an autograd.Function; an operator, a module, a compiled or a plain
#    function will do, and so will a function in JAX: candidate = JaxCandidate(f), from gradparity.
class TanhLinear(torch.autograd.Function):
    generate_vmap_rule = True  # left out, vmap is reported as UNSUPPORTED; so is forward mode without a jvp

    @staticmethod
    def forward(x, w, scale):
        return torch.tanh(scale * (x @ w))

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, w, ctx.scale = inputs
        ctx.save_for_backward(x, w, output)  # inputs and outputs only: an intermediate is wrong at second order
        ctx.save_for_forward(x, w, output)

    @staticmethod
    def backward(ctx, output_bar):
        x, w, y = ctx.saved_tensors
        p = (ctx.scale * output_bar * (1 - y * y)).to(x.dtype)  # under autocast, y is bfloat16, and x is not
        return p @ w.T, x.T @ p, None

    @staticmethod
    def jvp(ctx, x_dot, w_dot, _):
        x, w, y = ctx.saved_tensors
        terms = [a @ b for a, b in ((x_dot, w), (x, w_dot)) if a is not None and b is not None]
        return ctx.scale * (1 - y * y) * sum(terms)


def candidate(x, w, scale):
    return TanhLinear.apply(x, w, scale)


# 4. Checks that are known to fail, with the reason; they must fail as listed. Without a list, what the author of a
#    Function left out is reported and not held against it.
# limits = {{"jvp": "no forward mode yet"}}
'''


def write_case(path: Path) -> None:
    """Write a starting file.

    Raises:
        FileExistsError, FileNotFoundError: there is such a file already, or no such folder.
        ValueError: the name does not end in .py.
    """
    if path.suffix != ".py":
        raise ValueError(f"{path}: the name must end in .py")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(CASE.format(name=path.name))
    except FileExistsError:
        raise FileExistsError(f"{path} already exists; give another name") from None
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: there is no folder {path.parent}") from None
