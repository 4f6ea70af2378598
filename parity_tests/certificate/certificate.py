"""The result of a conversion's comparison with PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Row:
    """One array of a comparison.

    Attributes:
        name: what was compared, such as "output 0" or "gradient of linear.weight".
        error: the largest error over its bound; None if no bound could be derived.
        reason: why it was not compared, or where it differs; empty if it agrees.
    """

    name: str
    error: float | None
    reason: str = ""

    @property
    def agrees(self) -> bool:
        """Whether each entry is within its bound."""
        return not self.reason

    def __str__(self) -> str:
        if self.agrees:
            return f"{self.name}: agrees, error {self.error:.2g} of the bound"
        return f"{self.name}: {self.reason}"


@dataclass(frozen=True)
class Certificate:
    """A comparison of a converted function with PyTorch's, in float64.

    Attributes:
        rows: values, buffers and gradients, one array each.
        culprits: of a function that differs, the operators that do by themselves, with their lines in PyTorch's code.
        read: the arguments whose numbers the function reads: it is converted for these, and not differentiated by them.
        operators: the operators that it calls, and the family of `jax_ref.aten` that has each.
        conventions: of operators with kinks, ties or saturation, what `jax_ref.aten` says of their derivatives there.
    """

    rows: Sequence[Row]
    culprits: Sequence[Row]
    read: Sequence[str]
    operators: Mapping[str, str]
    conventions: Mapping[str, str]

    @property
    def passed(self) -> bool:
        """Whether all that was compared agrees, and something was."""
        return bool(self.rows) and all(row.agrees for row in self.rows)

    def raise_if_failed(self) -> None:
        """Raise AssertionError, with the text of the certificate, unless it passed."""
        if not self.passed:
            raise AssertionError(str(self))

    def __str__(self) -> str:
        wrong = [row for row in self.rows if not row.agrees]
        largest = max((row.error for row in self.rows if row.error is not None), default=0.0)
        count = f"{len(self.rows) - len(wrong)} of {len(self.rows)}"
        lines = [f"{count} arrays agree; largest error {largest:.2g} of its bound"]
        lines += [str(row) for row in (*wrong, *self.culprits)]
        if any(row.error is not None for row in wrong) and not self.culprits:
            lines.append(
                "each operator by itself agrees, so that the program is not the module's: it may read numbers, look at "
                "its own parameters and buffers, change from call to call, or have a backward of its own"
            )
        if self.read:
            lines.append(f"read, and so constant: {', '.join(self.read)}")
        lines.append(f"{len(self.operators)} operators, all in jax_ref.aten: {', '.join(self.operators)}")
        return "\n".join(lines + [f"convention of {name}: {text}" for name, text in self.conventions.items()])


def compared(name: str, found: np.ndarray, bound: np.ndarray | None, expected: np.ndarray) -> Row:
    """Return the comparison of JAX's numbers with PyTorch's.

    Args:
        name: what they are.
        found: JAX's numbers.
        bound: of the error of each; None of integers and booleans, which are equal.
        expected: PyTorch's numbers, of the same shape.
    """
    if found.shape != expected.shape:
        return Row(name, None, f"JAX's shape is {found.shape}, PyTorch's {expected.shape}")
    if found.dtype.kind not in "fc":
        wrong = found != expected
        return Row(name, 0.0, _difference(wrong, found, expected, None) if wrong.any() else "")
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    bound = np.zeros(found.shape) if bound is None else np.broadcast_to(bound, found.shape)
    with np.errstate(all="ignore"):
        size = np.where(same, 0.0, np.abs(found - expected) / bound)
    # Where nothing is known, or an infinity meets a number, the quotient is NaN.
    wrong = ~same & ~(size <= 1)
    error = float(size[np.isfinite(size)].max(initial=0.0))
    if not np.isfinite(bound).all():
        return Row(name, error, "no bound of some entries is known")
    return Row(name, error, _difference(wrong, found, expected, bound) if wrong.any() else "")


def _difference(wrong: np.ndarray, found: np.ndarray, expected: np.ndarray, bound: np.ndarray | None) -> str:
    with np.errstate(all="ignore"):
        size = np.where(wrong, np.abs(np.subtract(found, expected, dtype=np.result_type(found, float))), -1.0)
    worst = np.unravel_index(int(np.argmax(np.where(np.isnan(size), np.inf, size))), found.shape)
    allowed = "" if bound is None else f", allowed {float(bound[worst]):.2g}"
    place = tuple(map(int, worst))
    numbers = f"JAX {found[worst]}, PyTorch {expected[worst]}{allowed}"
    return f"differs in {int(wrong.sum())} of {found.size} entries; at {place} {numbers}"
