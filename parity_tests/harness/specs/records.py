"""An input, or an output, of an operator as one record: what `OpSpec` also takes in fields of its own, by name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from parity_tests.harness.specs.domains import Domain, Sampler

# The fields of OpSpec that say something of an input by its name, and what they hold: values by name, or names.
BY_NAME = {"domain": "domains", "kinks": "kinks", "convention": "conventions"}
NAMED = {"constant": "constants", "detached": "detached", "optional": "optional"}


@dataclass(frozen=True)
class Input:
    """An input of an operator, in the place of its name: `OpSpec(..., input_names=[Input("x", "positive"), "w"])`.

    Attributes:
        name: its name in messages.
        domain: where it lies, a domain's name, a `Domain` or a sampler; see `OpSpec.domains`.
        constant: True if it is a floating-point input that is not differentiated.
        detached: True if the primal uses it behind `lax.stop_gradient` only.
        optional: True if it may be absent, as a bias.
        kinks: values of it at which the operator is also judged.
        convention: the reason why the oracle's choice at a kink is binding for its gradient; by default it is not.

    Raises:
        TypeError: the name is not text, or another part is of a wrong kind.
    """

    name: str
    domain: str | Domain | Sampler = "real"
    constant: bool = False
    detached: bool = False
    optional: bool = False
    kinks: Sequence[float] = ()
    convention: str | None = None

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True)
class Output:
    """An output of an operator, in the place of its name: `OpSpec(..., output_names=[Output("y"), "norm"])`.

    Attributes:
        name: its name in messages.
        convention: the reason why the oracle's choice at a kink is binding for its tangent; by default it is not.

    Raises:
        TypeError: the name is not text, or another part is of a wrong kind.
    """

    name: str
    convention: str | None = None

    def __post_init__(self) -> None:
        _check(self)


def _check(record: Input | Output) -> None:
    kind = type(record).__name__
    if not isinstance(record.name, str):
        raise TypeError(f'{kind}: name must be text, such as {kind}("x"), got {record.name!r}')
    for part in NAMED:
        if not isinstance(value := getattr(record, part, False), bool):
            raise TypeError(f"{kind} {record.name}: {part} must be True or False, got {value!r}")
    if record.convention is not None and (not isinstance(record.convention, str) or not record.convention):
        raise TypeError(f"{kind} {record.name}: convention must be the reason, as text, got {record.convention!r}")


def _check_fields(spec: Any) -> None:
    """Check that the fields that records are added to are dictionaries, and sequences of names."""
    for field, kind in (
        *((field, Mapping) for field in BY_NAME.values()),
        *((field, Collection) for field in NAMED.values()),
    ):
        value = getattr(spec, field)
        if isinstance(value, str) or not isinstance(value, kind):
            wanted = "a dictionary" if kind is Mapping else "a sequence of names"
            raise TypeError(f"OpSpec {spec.name}: {field} must be {wanted}, got {value!r}")


def names_in(records: Iterable[str | Input | Output]) -> tuple[str, ...]:
    """The names, where some stand in a record."""
    return tuple(x if isinstance(x, str) else x.name for x in records)


def without_records(spec: Any) -> dict[str, Any]:
    """The fields of an OpSpec that change where its `input_names` and `output_names` hold records: names remain.

    Raises:
        ValueError: a record and a field say the same of an input or output, perhaps differently.
    """
    changed: dict[str, Any] = {}
    for field, kind in (("input_names", Input), ("output_names", Output)):
        given = getattr(spec, field)
        if isinstance(given, str) or not isinstance(given, Iterable):
            continue
        records = [x for x in given if isinstance(x, kind)]
        if records:
            _check_fields(spec)
            changed[field] = tuple(x.name if isinstance(x, kind) else x for x in given)  # others are told of later
            _spread(spec, records, changed)
    return changed


def _spread(spec: Any, records: Sequence[Input | Output], changed: dict[str, Any]) -> None:
    """Add the fields that say of some inputs or outputs what their records say."""
    for record in records:
        for part in fields(record):
            field, value = BY_NAME.get(part.name) or NAMED.get(part.name), getattr(record, part.name)
            if field is None or value == part.default:
                continue
            before = changed.get(field, getattr(spec, field))
            if record.name in before:
                raise ValueError(
                    f"OpSpec {spec.name}: {field} and {type(record).__name__}({record.name!r}, ...) both say it of "
                    f"{record.name}; say it once"
                )
            by_name = isinstance(before, Mapping)
            changed[field] = {**before, record.name: value} if by_name else (*before, *([record.name] if value else []))
