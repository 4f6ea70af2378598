"""A small transformer with tanh attention learns to reverse a sequence: `python -m jax_ref.examples.train_copy`.

It reads `letters |` and, one position at a time, writes the letters backwards. Which letter comes next depends on a
position that only attention reaches, and which position on queries and keys: a wrong gradient shows in the accuracy.
The data is made on the spot. It needs `pip install 'gradparity[train]'`.

    --planted    the gradient of the keys has the wrong sign: what the accuracy is then
    --plot FILE  where the losses are drawn, by default not at all
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from rich.console import Console
from rich.progress import track

import jax_ref

try:
    import optax
    from flax import nnx

    from jax_ref.nn.flax import TanhAttention
except ImportError as error:
    raise ImportError("jax_ref.examples.train_copy needs Flax and optax: pip install 'gradparity[train]'") from error

LETTERS, LENGTH = 8, 10
STEPS, BATCH = 300, 64
FEATURES, HEADS, LAYERS = 64, 4, 2
ACCURACY = 0.99  # of the letters that it writes, on sequences it has not seen


class Block(nnx.Module):
    """Attention and a two-layer network, each after a norm and added to what comes in."""

    def __init__(self, attention_fn: Callable, rngs: nnx.Rngs) -> None:
        self.norm, self.other_norm = (nnx.LayerNorm(FEATURES, rngs=rngs) for _ in range(2))
        self.attention = TanhAttention(HEADS, FEATURES, attention_fn=attention_fn, rngs=rngs)
        self.wide, self.narrow = (
            nnx.Linear(FEATURES, 2 * FEATURES, rngs=rngs),
            nnx.Linear(2 * FEATURES, FEATURES, rngs=rngs),
        )

    def __call__(self, x: Float[Array, "batch T features"]) -> Float[Array, "batch T features"]:
        x = x + self.attention(self.norm(x), is_causal=True)
        return x + self.narrow(jax.nn.gelu(self.wide(self.other_norm(x))))


class Reverser(nnx.Module):
    """Letters and positions in, scores of the next letter out."""

    def __init__(self, attention_fn: Callable, rngs: nnx.Rngs) -> None:
        self.letters = nnx.Embed(LETTERS + 1, FEATURES, rngs=rngs)
        self.positions = nnx.Embed(2 * LENGTH, FEATURES, rngs=rngs)
        self.blocks = nnx.List([Block(attention_fn, rngs) for _ in range(LAYERS)])
        self.norm, self.scores = nnx.LayerNorm(FEATURES, rngs=rngs), nnx.Linear(FEATURES, LETTERS, rngs=rngs)

    def __call__(self, tokens: Int[Array, "batch T"]) -> Float[Array, "batch T letters"]:
        x = self.letters(tokens) + self.positions(jnp.arange(tokens.shape[1]))[None]
        for block in self.blocks:
            x = block(x)
        return self.scores(self.norm(x))


def batches(seed: int) -> Iterator[Int[Array, "batch 2*LENGTH+1"]]:
    """Sequences: letters, a bar, the letters backwards."""
    rng = np.random.default_rng(seed)
    while True:
        letters = rng.integers(0, LETTERS, (BATCH, LENGTH))
        yield jnp.asarray(np.concatenate([letters, np.full((BATCH, 1), LETTERS), letters[:, ::-1]], axis=1))


def of_answer(model: Reverser, sequences: Int[Array, "batch 2*LENGTH+1"]) -> tuple[Array, Array]:
    """The scores of the letters after the bar, and these letters."""
    return model(sequences[:, :-1])[:, LENGTH:], sequences[:, LENGTH + 1 :]


@nnx.jit
def step(model: Reverser, optimizer: nnx.Optimizer, sequences: Int[Array, "batch 2*LENGTH+1"]) -> Float[Array, ""]:
    """One step of the optimizer; the loss before it."""

    def loss(model: Reverser) -> Float[Array, ""]:
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(*of_answer(model, sequences)))

    value, gradients = nnx.value_and_grad(loss)(model)
    optimizer.update(model, gradients)
    return value


@nnx.jit
def accuracy(model: Reverser, sequences: Int[Array, "batch 2*LENGTH+1"]) -> Float[Array, ""]:
    """The part of the letters that the model knows, each after the right ones before it."""
    scores, answer = of_answer(model, sequences)
    return jnp.mean(jnp.argmax(scores, -1) == answer)


def planted(query: Array, key: Array, value: Array, **options) -> Array:
    """Attention with a mistake: `key` gets the gradient with the wrong sign."""
    return jax_ref.dot_product_attention(query, _sign(key), value, **options)


@jax.custom_vjp
def _sign(x: Array) -> Array:
    return x


_sign.defvjp(lambda x: (x, None), lambda _, x_bar: (-x_bar,))


@dataclass(frozen=True)
class Result:
    """The loss of every step, and the accuracy on new sequences after the last."""

    losses: list[float]
    accuracy: float


def train(attention_fn: Callable = jax_ref.dot_product_attention, steps: int = STEPS, seed: int = 0) -> Result:
    """Train a model from scratch."""
    model = Reverser(attention_fn, nnx.Rngs(seed))
    optimizer = nnx.Optimizer(model, optax.adamw(optax.cosine_decay_schedule(3e-3, steps)), wrt=nnx.Param)
    data = batches(seed)
    losses = [float(step(model, optimizer, next(data))) for _ in track(range(steps), "training", transient=True)]
    new = batches(seed + 1)
    return Result(losses, float(np.mean([accuracy(model, next(new)) for _ in range(8)])))


def plot(losses: list[float], file: str) -> None:
    """Draw the losses.

    Raises:
        ImportError: there is no matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ImportError("--plot needs matplotlib: pip install 'gradparity[train]'") from error
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    axes.semilogy(losses)
    axes.set(xlabel="step", ylabel="loss")
    figure.savefig(file)


def main() -> None:
    """Run the command line of this example."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--planted", action="store_true")
    parser.add_argument("--plot", metavar="FILE")
    arguments = parser.parse_args()
    result = train(planted if arguments.planted else jax_ref.dot_product_attention)
    if arguments.plot:
        plot(result.losses, arguments.plot)
    console = Console()
    console.print(f"loss {result.losses[0]:.3f} -> {result.losses[-1]:.4f}, accuracy {result.accuracy:.1%}")
    console.print(
        "learned" if result.accuracy >= ACCURACY else f"not learned: {ACCURACY:.0%} is what right gradients reach"
    )


if __name__ == "__main__":
    main()
