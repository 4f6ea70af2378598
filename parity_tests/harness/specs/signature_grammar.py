"""The grammar of signatures, and messages that say where a malformed one goes wrong and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterator

AXIS = r"(?:[^\W\d]\w*|[0-9]{1,12})(?:\s*\|\s*1(?!\w))?"
ELLIPSIS = "..."  # any number of leading axes
LEADING = rf"(?:{re.escape(ELLIPSIS)}|{AXIS})"
ARGUMENT = rf"\(\s*(?:{LEADING}\s*(?:,\s*{AXIS}\s*)*)?\)"
_ARGUMENTS = rf"{ARGUMENT}(?:\s*,\s*{ARGUMENT})*"
_SIGNATURE = re.compile(rf"\s*{_ARGUMENTS}\s*->\s*{_ARGUMENTS}\s*")
_OTHER_ARROW = re.compile(r"[→⇒⟶↦➔]|=>|[-–—]+>(?<!->)|[–—−]>?|-{2,}>|-(?=\s*\()")
_EXAMPLE = 'write the axes of each input and output by name, such as "(n,d),(m,d)->(n,m)", with "()" for a scalar'
_LONGEST = 60  # characters of a signature that a message repeats


def is_signature(text: str) -> bool:
    """Return whether a text has the form of a gufunc signature."""
    axes = re.findall(r"\w+", text)
    return _SIGNATURE.fullmatch(text) is not None and all(a.isascii() or not a.isdigit() for a in axes)


def why_not(text: str) -> str:
    """Return the error message for a text that is not a signature."""
    quoted = f"signature {cut(text)!r}"
    if is_signature(text.replace("?", "")):
        return (
            f"{quoted} has an optional axis; an operator with it and one without it are two: write an OpSpec for each"
        )
    if is_signature(re.sub(r"\|\s*\w+", "", text)):
        return (
            f'{quoted} broadcasts an axis from another size than 1; write "n|1" where an input may be of size 1 along n'
        )
    place, mistake = next(_mistakes(text), (0, "it cannot be read"))
    return f"{quoted} is not a gufunc signature, at character {place + 1}: {mistake}; {_EXAMPLE}"


def cut(text: str) -> str:
    """Return the text, with its middle elided if it is long."""
    half = _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[:half]} ... {text[-half:]}"


def _mistakes(text: str) -> Iterator[tuple[int, str]]:
    """Yield the places where a text cannot be read as a signature, each with the reason."""
    arrow = _OTHER_ARROW.search(text)
    if arrow:
        yield arrow.start(), f'write "->" for {arrow[0]!r}'
    if "->" not in text:
        yield len(text.rstrip()), 'there is no "->" between inputs and outputs'
    inputs, _, outputs = text.partition("->")
    if "->" in outputs:
        yield len(inputs) + 2 + outputs.index("->"), 'there is a second "->"'
    for side, start, which in ((inputs, 0, "input"), (outputs, len(inputs) + 2, "output")):
        if not side.strip():
            yield start, f"there is no {which}"
        yield from _mistakes_in_arguments(side, start)


def _mistakes_in_arguments(side: str, start: int) -> Iterator[tuple[int, str]]:
    """Yield the mistakes in one side of the arrow, which begins at character `start` of the signature."""
    i = 0
    while i < len(side):
        i += len(side[i:]) - len(side[i:].lstrip())
        if i == len(side):
            return
        if side[i] in "[{<":
            yield start + i, f'write "(" for {side[i]!r}'
        if side[i] != "(":
            word = re.match(r"[^\s(),]+", side[i:])
            yield start + i, f'write parentheses around the axes of an argument, "({word[0] if word else "n"})"'
        end = side.find(")", i)
        opened = side.find("(", i + 1)
        if end < 0 or i < opened < end:
            yield start + i, "this parenthesis is not closed"
            return
        yield from _mistakes_in_axes(side[i + 1 : end], start + i + 1)
        rest = side[end + 1 :]
        i = end + 1 + len(rest) - len(rest.lstrip())
        if i < len(side) and side[i] != ",":
            yield start + i, "write a comma between two arguments"
        elif i < len(side) and not side[i + 1 :].strip():
            yield start + i, "there is no argument after this comma"
        i += 1


def _mistakes_in_axes(inside: str, start: int) -> Iterator[tuple[int, str]]:
    """Yield the mistakes between two parentheses, whose inside begins at character `start` of the signature."""
    if not inside.strip():
        return
    first = start
    for piece in inside.split(","):
        axis, place = piece.strip(), start + len(piece) - len(piece.lstrip())
        if not axis:
            yield start, "there is a comma without an axis"
        elif axis == ELLIPSIS:
            if start != first:
                yield place, "'...' stands for leading axes, and must come first"
        elif re.fullmatch(r"[0-9]+", axis) and len(axis) > 12:
            yield place, f"an axis of size {cut(axis)} fits no memory"
        elif re.fullmatch(r"\w+\s+\w.*", axis):
            yield place, f"write a comma between the axes {axis!r}"
        elif not re.fullmatch(AXIS, axis) or (axis.isdigit() and not axis.isascii()):
            yield (
                place,
                (
                    f"{axis!r} is neither a name nor a number; name the axis, and say how long it is by "
                    'OpSpec(sizes="m = 2*n")'
                ),
            )
        start += len(piece) + 1
