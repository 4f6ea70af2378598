"""Bounds under an arithmetic contract: float32 inside, and rounded to a 16-bit format where a number is stored.

A number that is x but for an error e, and is rounded to nearest, becomes one between the roundings of x - e and x + e,
since rounding is monotone. So the bound of a stored number is that of these two, and not u |x| more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jax.extend import core

from parity_tests.harness.language import jaxprs
from parity_tests.harness.language.values import evaluate
from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.primitives.bound.base import capped
from parity_tests.harness.primitives.registry import adds_products

Pair = tuple[np.ndarray, np.ndarray]
NAME = "name"  # the primitive of jax.ad_checkpoint.checkpoint_name


def stored(pair: Pair, p: Precision) -> Pair:
    """A value and the bound of its error after it was rounded to a format, once."""
    x, e = pair
    if x.dtype.kind != "f":
        return pair
    low, high = p.rounded(x - e), p.rounded(x + e)
    with np.errstate(invalid="ignore"):
        apart = np.maximum(np.abs(low - x), np.abs(high - x))
    apart = np.where((x == low) & (x == high), 0.0, np.where(np.isnan(apart), np.inf, apart))  # infinities, too
    normal = p.smallest / (2 * p.u)
    flushed = np.where((np.abs(x) - e < normal) & (np.abs(x) + e > 0), p.tiny, 0.0)
    return x, capped(x, apart + flushed, p)


@dataclass(frozen=True)
class Stored:
    """The intermediates of a program that are rounded to a format.

    Attributes:
        precision: the format.
        values: what they are, by which they are recognized wherever a program computes them.
        operands: True if the operands of products are rounded, too.
    """

    precision: Precision
    values: Sequence[np.ndarray]
    operands: bool = False

    @classmethod
    def of(
        cls,
        p: Precision,
        program: core.ClosedJaxpr,
        args: Sequence[np.ndarray],
        outputs: Mapping[str, np.ndarray],
    ) -> Stored:
        """Return the stored values of a format's contract: outputs of the operator, and named values of a program."""
        names = p.arithmetic.stored
        values = [x for name, x in outputs.items() if name in names]

        def collect(eqn: core.JaxprEqn, y: Sequence[np.ndarray]) -> None:
            if eqn.primitive.name == NAME and eqn.params["name"] in names:
                values.append(y[0])

        if jaxprs.checkpoint_names(program.jaxpr).intersection(names):
            evaluate(program, *args, seen=collect)
        return cls(p, values, p.arithmetic.operands)

    def has(self, y: np.ndarray) -> bool:
        """Return whether a number, or an array of numbers, is one of them."""
        return y.dtype.kind == "f" and any(x.shape == y.shape and np.array_equal(x, y) for x in self.values)

    def rounded(self, outputs: list[Pair]) -> list[Pair]:
        """The results of an equation with their bounds, of what is stored after it was rounded."""
        return [stored(pair, self.precision) if self.has(pair[0]) else pair for pair in outputs]

    def taken(self, name: str, operands: list[Pair]) -> list[Pair]:
        """The operands of a primitive with their bounds, of a product after they were rounded.

        By as much as rounding can do: a factor that one operand has here may be in another one, or in the product.
        """
        if not (self.operands and adds_products(name)):
            return operands
        p = self.precision
        return [(x, capped(x, e + p.u * (np.abs(x) + e) + p.tiny * (x != 0), p)) for x, e in operands]
