"""Inputs in one line: "x: (n,d), w: (d) constant, target: (n) integer(0,c)"."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from parity_tests.harness.specs.domains import BOOLEAN, DOMAINS, Domain, Sampler, integer
from parity_tests.harness.specs.signature_grammar import ARGUMENT

_EXAMPLE = 'write the name and the axes of each, such as "x: (n,d), w: (d)"'
_BOUND = r"\s*(-?\w+)\s*"
_CONSTANT = r"(constant(?![\w-]))?"
_INPUT = re.compile(
    rf"\s*([^\W\d][\w.]*)\s*:\s*({ARGUMENT})\s*{_CONSTANT}\s*"
    rf"(?:integer\({_BOUND},{_BOUND}\)|([a-z][a-z-]*))?\s*{_CONSTANT}\s*(?:,|$)"
)


@dataclass(frozen=True)
class Inputs:
    """The inputs of an operator, by name.

    Attributes:
        axes: of each input, as in a signature: "(n,d)".
        domains: of those that are not any real numbers.
        constants: the names of those that are not differentiated, although they may be real numbers.
    """

    axes: Mapping[str, str]
    domains: Mapping[str, str | Domain | Sampler]
    constants: Sequence[str] = ()

    @classmethod
    def parse(cls, text: str) -> Inputs:
        """Read "x: (n,d), w: (d)".

        After the axes may come a domain of `OpSpec`, "integer(0,c)" or "boolean"; and, before or after it, "constant".

        Raises:
            ValueError: the text cannot be read; the message says from where on.
        """
        axes, domains, constants, place = dict[str, str](), dict[str, str | Domain | Sampler](), list[str](), 0
        while place < len(text) or not axes:
            found = _INPUT.match(text, place)
            if found is None:
                raise ValueError(
                    f"inputs {text!r} cannot be read from {text[place:].strip()!r} on: {_remedy(text, place)}"
                )
            name, argument, before, low, high, domain, after = found.groups()
            if name in axes:
                raise ValueError(f"inputs {text!r} has {name!r} twice; the names must differ")
            axes[name], place = argument, found.end()
            constants += [name] if before or after else []
            if high is not None:
                domains[name] = integer(_bound(low), _bound(high))
            elif domain in (*DOMAINS, BOOLEAN.name):
                domains[name] = domain
            elif domain is not None:
                listed = ", ".join(DOMAINS)
                raise ValueError(
                    f"inputs {text!r}: {domain!r} is no domain; there are integer(low,high), boolean, {listed}; "
                    "constant, beside one or by itself, says that an input is not differentiated"
                )
        return cls(axes, domains, constants)

    @property
    def names(self) -> Sequence[str]:
        """The names of the inputs, in order."""
        return tuple(self.axes)

    @property
    def signature(self) -> str:
        """The part of a signature that is before "->"."""
        return ",".join(self.axes.values())

    def followed_by(self, shapes: Mapping[str, tuple[int, ...]]) -> Inputs:
        """Return these inputs, and after them those of fixed shapes whose names are not among them."""
        more = {name: f"({','.join(map(str, shape))})" for name, shape in shapes.items() if name not in self.axes}
        return replace(self, axes={**self.axes, **more})


def _remedy(text: str, place: int) -> str:
    """Return a text on what to write instead; an axis that is computed of others needs a name of its own."""
    if tuple_of_one := re.match(r"\s*([^\W\d][\w.]*\s*:\s*\([^()]*?)\s*,\s*\)", text[place:]):
        return f'leave out the last comma: "{tuple_of_one[1]})"'
    axes = re.match(r"\s*[^\W\d][\w.]*\s*:\s*\(([^()]*)\)", text[place:])
    computed = next(
        (axis.strip() for axis in (axes[1] if axes else "").split(",") if re.search(r"\w\s*[*+/%-]", axis)), ""
    )
    return (
        f'give the axis {computed} a name, such as c, and a rule of sizes, "c == {computed}"' if computed else _EXAMPLE
    )


def _bound(text: str) -> int | str:
    return int(text) if re.fullmatch(r"-?\d+", text) else text
