"""One small model in Flax and in torch, the same weights and data, and 100 steps of the same optimizer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
from flax import nnx

from jax_ref.nn import flax as jax_layers
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.rounding.analysis import bounded
from torch_impl import nn as torch_layers

STEPS, LAYERS, HEADS, FEATURES = 100, 2, 2, 4
Weights = Mapping[str, np.ndarray]

# The same numbers for both: optax's default of weight_decay is 1e-4, torch's 1e-2; their eps is in the same place.
SGD = {"rate": 0.02, "momentum": 0.9}
ADAMW = {"rate": 1e-2, "b1": 0.9, "b2": 0.999, "eps": 1e-8, "decay": 1e-2}


def of_optax(name: str) -> optax.GradientTransformation:
    if name == "sgd":
        return optax.sgd(SGD["rate"], momentum=SGD["momentum"])
    a = ADAMW
    return optax.adamw(a["rate"], b1=a["b1"], b2=a["b2"], eps=a["eps"], weight_decay=a["decay"])


def of_torch(name: str, parameters: Sequence[torch.Tensor], decay: float = ADAMW["decay"]) -> torch.optim.Optimizer:
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=SGD["rate"], momentum=SGD["momentum"])
    a = ADAMW
    return torch.optim.AdamW(parameters, lr=a["rate"], betas=(a["b1"], a["b2"]), eps=a["eps"], weight_decay=decay)


def data() -> tuple[np.ndarray, np.ndarray]:
    """Sequences, and what to make of them: sums of the signs so far, which only attention sees."""
    x = np.random.default_rng(0).standard_normal((4, 6, FEATURES)).astype(np.float32)  # exact in both formats
    return x, np.cumsum(np.sign(x), axis=1).astype(np.float32) / 4


@functools.cache
def split_layer(dtype: str) -> tuple[nnx.GraphDef, nnx.State]:
    """What `nnx.merge` makes a layer from, its weights at the values that they are born with."""
    with jax.ensure_compile_time_eval():  # so that they are not part of what is traced
        return nnx.split(jax_layers.TanhAttention(HEADS, FEATURES, param_dtype=dtype, rngs=nnx.Rngs(0)))


def initial() -> list[Weights]:
    """The weights of every layer, exact in float32, biases other than zero."""
    rng = np.random.default_rng(1)
    shapes = {name: x.shape for name, x in jax_layers.export_weights(nnx.merge(*split_layer("float32"))).items()}
    return [
        {name: (rng.standard_normal(shape) / 2).astype(np.float32) for name, shape in shapes.items()}
        for _ in range(LAYERS)
    ]


def loss_of(weights: Sequence[Mapping[str, jax.Array]]) -> jax.Array:
    """The mean square of what two layers, each added to its input, miss."""
    dtype = weights[0]["out.bias"].dtype
    x, target = (jnp.asarray(a, dtype) for a in data())
    for of_layer in weights:
        attention = nnx.merge(*split_layer(dtype.name), copy=True)
        jax_layers.import_weights(attention, of_layer)
        x = x + attention(x, is_causal=True)
    return jnp.mean((x - target) ** 2)


_loss_and_gradients = jax.jit(jax.value_and_grad(loss_of))


def losses_in_jax(name: str, dtype: str) -> np.ndarray:
    """The loss before each step."""
    return np.array([float(loss) for _, loss in _run(name, dtype, lambda weights, gradients: gradients)])


def _run(name: str, dtype: str, change: Callable) -> Iterator[tuple[list[Weights], jax.Array]]:
    """The weights and the loss before each step; the optimizer gets change(weights, gradients)."""
    optimizer = of_optax(name)
    weights = jax.tree.map(lambda x: jnp.asarray(x, dtype), initial())
    state = optimizer.init(weights)
    for _ in range(STEPS):
        loss, gradients = _loss_and_gradients(weights)
        yield weights, loss
        updates, state = optimizer.update(change(weights, gradients), state, weights)
        weights = optax.apply_updates(weights, updates)


def losses_in_torch(
    name: str, dtype: torch.dtype, plant: Callable | None = None, decay: float = ADAMW["decay"]
) -> np.ndarray:
    """The loss of the torch twin before each step; `plant` changes the gradient of the keys."""
    layers = [torch_layers.TanhAttention(FEATURES, HEADS, dtype=dtype) for _ in range(LAYERS)]
    for one, weights in zip(layers, initial(), strict=True):
        torch_layers.import_weights(one, {name: torch.from_numpy(x) for name, x in weights.items()})
        if plant is not None:
            one.k_proj.register_forward_hook(lambda module, inputs, key: key.register_hook(plant) and None)
    optimizer = of_torch(name, [p for one in layers for p in one.parameters()], decay)
    first, target = (torch.from_numpy(a).to(dtype) for a in data())
    losses = []
    for _ in range(STEPS):
        x = first
        for one in layers:
            x = x + one(x, is_causal=True)
        loss = torch.mean((x - target) ** 2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def spread_of_float32(name: str, draws: int = 8) -> np.ndarray:
    """How far rounding to float32 can drive a run from the exact one, for the loss before each step.

    `rounding.bounded` bounds, entry by entry, the error of loss and gradients in float32. The run is repeated in
    float64, each step with random errors of up to that size in the gradients, and the largest distance from the exact
    run is taken: Monte Carlo arithmetic (D. Parker, 1997), with the roundings of a whole step as one. How later steps
    enlarge or forget an error is so in the bound. It takes the rounding of the weights to float32 for one of the inputs
    of the gradients (`inputs`: two roundings of each); what the optimizer itself rounds is less. To it comes the
    error of the loss itself.
    """
    leaves, tree = jax.tree.flatten(initial())
    jaxpr = jax.make_jaxpr(lambda *x: jax.tree.leaves(_loss_and_gradients(jax.tree.unflatten(tree, x))))(
        *(x.astype(np.float64) for x in leaves)
    )
    exact, errors = [], []
    for weights, loss in _run(name, "float64", lambda weights, gradients: gradients):
        arguments = [np.asarray(x) for x in jax.tree.leaves(weights)]
        exact.append(float(loss))
        errors.append([error for _, error in bounded(jaxpr, *arguments, precision=PRECISIONS["float32"])])
    rng, far = np.random.default_rng(2), np.zeros(STEPS)
    for _ in range(draws):
        steps = iter(errors)

        def shaken(weights: list[Weights], gradients: list[Weights], steps: Iterator = steps) -> list[Weights]:
            noise = [error * rng.uniform(-1, 1, error.shape) for error in next(steps)[1:]]
            return jax.tree.map(jnp.add, gradients, jax.tree.unflatten(tree, noise))

        losses = np.array([float(loss) for _, loss in _run(name, "float64", shaken)])
        far = np.maximum(far, np.abs(losses - exact))
    return far + [float(error[0]) for error in errors]
