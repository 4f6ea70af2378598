"""Arithmetic contracts: what a computation in a 16-bit format rounds, and where, as data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True)
class Arithmetic:
    """The roundings of a candidate in a 16-bit dtype. It says nothing of wider dtypes, nor beyond first order.

    Attributes:
        inside: "float32" if everything is computed in float32 and each result is rounded to the dtype once; "format"
            if the result of every operation is rounded to the dtype.
        stored: the names of intermediates that are rounded to the dtype although the inside is float32, as what a
            kernel saves for its backward, or hands to a tensor core: outputs of the operator, or what the primal or an
            explicit formula names by `jax.ad_checkpoint.checkpoint_name`.
        operands: True if the operands of matrix products and convolutions are rounded to the dtype although the inside
            is float32, and their products added up in float32: as a tensor core takes what a kernel has computed.

    Raises:
        TypeError, ValueError: a field that cannot be used, with the remedy.
    """

    inside: Literal["float32", "format"] = "float32"
    stored: tuple[str, ...] = ()
    operands: bool = False

    def __post_init__(self) -> None:
        if self.inside not in ("float32", "format"):
            raise ValueError(f'Arithmetic: inside must be "float32" or "format", got {self.inside!r}')
        if isinstance(self.stored, str) or not isinstance(self.stored, Iterable):
            raise TypeError(f'Arithmetic: stored must be a sequence of names, such as ("attn",), got {self.stored!r}')
        object.__setattr__(self, "stored", tuple(self.stored))
        wrong = [name for name in self.stored if not isinstance(name, str)]
        if wrong:
            raise TypeError(
                f'Arithmetic: stored must be a sequence of names, such as ("attn",), got {wrong[0]!r} in it'
            )
        for name in ("stored", "operands"):
            if getattr(self, name) and self.inside == "format":
                raise ValueError(f'Arithmetic: with inside="format" everything is rounded to the dtype; omit {name}')

    def __str__(self) -> str:
        """The contract in words, for reports."""
        if self.inside == "format":
            return "every operation rounded"
        kept = f", {' and '.join(self.stored)} rounded where stored" if self.stored else ""
        taken = ", operands of products rounded" if self.operands else ""
        return f"float32 inside{kept}{taken}, results rounded once"


INSIDE_FLOAT32 = Arithmetic("float32")
THROUGHOUT = Arithmetic("format")


def check_arithmetic(whose: str, arithmetic: object) -> None:
    """Raise a TypeError if what is stated of a candidate's roundings is no `Arithmetic`, nor None."""
    if arithmetic is not None and not isinstance(arithmetic, Arithmetic):
        raise TypeError(f'{whose}: arithmetic must be an Arithmetic, such as Arithmetic("float32"), got {arithmetic!r}')


class Storing(Protocol):
    """Knows which intermediates of a program are rounded to a format other than the one that it is computed in."""

    def rounded(self, outputs: list[tuple]) -> list[tuple]:
        """Return the results of an equation with their bounds, of what is stored after it was rounded."""
        ...

    def taken(self, name: str, operands: list[tuple]) -> list[tuple]:
        """Return the operands of a primitive with their bounds, as it takes them."""
        ...
