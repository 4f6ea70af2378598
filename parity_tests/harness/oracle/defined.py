"""Where an operator has one value: elsewhere it has no derivative, and any answer is as good as another.

fmod(x, y) has no value at y = 0, although the quotient rule gives x the slope 1 there. The factors of a singular matrix
have values of which there are many others: the oracle's have no error bound, as rounding may choose another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from parity_tests.harness.numbers.fingerprint import fingerprint
from parity_tests.harness.numbers.formats import FLOAT64, Precision
from parity_tests.harness.oracle.oracle import Arrays, Oracle
from parity_tests.harness.oracle.truth import Truth
from parity_tests.harness.specs.samples import Sample


class OracleAtSample(Protocol):
    """The oracle at one sample, in one format: what the rules of kinks need of a trial."""

    @property
    def oracle(self) -> Oracle:
        """The oracle."""
        ...

    @property
    def sample(self) -> Sample:
        """The sample."""
        ...

    @property
    def precision(self) -> Precision:
        """The format."""
        ...

    def truth(self, name: str, args: Arrays) -> list[Truth]:
        """Return the truths of a map as `where_defined` does."""
        ...


def has_one_value(oracle: Oracle, inputs: Sequence[np.ndarray]) -> bool:
    """Return whether every entry of the operator's value is a unique number; an infinity, as at a pole, is one."""
    return not _without_value(oracle, inputs) and not _ambiguous(oracle.ask("forward", inputs, FLOAT64))


def why_undefined(oracle: Oracle, sample: Sample) -> str | None:
    """Why an operator has no derivative at a sample; None if it may have one, in a part of its entries at least.

    A number without an error bound is not enough: a rule that bounds rounding may be too careful. The oracle's
    derivative must be no number, too. Long samples are asked for their value only, which is cheap.
    """
    inputs = sample.primals(oracle.inputs)
    values = oracle.values("forward", inputs)
    if any(y.size for y in values) and all(np.isnan(y).all() for y in values):
        return "the oracle's value there is NaN"
    if sample.first_order_only or not _ambiguous(oracle.ask("forward", inputs, FLOAT64)):
        return None
    derivative = oracle.values("vjp", oracle.arguments("vjp", sample))
    return None if all(np.isfinite(y).all() for y in derivative) else "the oracle has no derivative there"


def where_defined(oracle: Oracle, name: str, args: Arrays, precision: Precision) -> list[Truth]:
    """The truths of a map, those of a derivative without a bound for what depends on an entry that has no value.

    Of a gradient that is found by a cotangent of NaN for each such entry: what it reaches is NaN. Where there is no
    derivative at all its zeros have no bound either.
    """
    truths = oracle.ask(name, args, precision)
    if name == "forward":
        return truths
    if _only_zeros_known(truths) and _only_zeros_known(oracle.ask(name, args, FLOAT64)):
        return [replace(y, bound=np.full(y.value.shape, np.inf)) for y in truths]
    nans = _without_value(oracle, args[: len(oracle.inputs)])
    if not nans:
        return truths
    spoilt = [
        np.where(nans[slot.like], np.nan, x) if slot.like in nans and x is not None else x
        for slot, x in zip(oracle.map(name).arguments, args, strict=True)
    ]
    return [
        replace(truth, bound=np.where(nans.get(truth.like, np.isnan(y)), np.inf, truth.bound))
        for truth, y in zip(truths, oracle.values(name, spoilt), strict=True)
    ]


def _only_zeros_known(truths: Sequence[Truth]) -> bool:
    """Return whether there is no derivative, so that its structural zeros have no bound either.

    The factors of a singular matrix have none, and by any formula NaNs may reach the zeros of their triangles. An
    infinite derivative, that of a pole or an overflow, counts as a derivative: a zero next to it is a zero.
    """
    unknown = [~np.isfinite(y.bound) for y in truths]
    if not any(u.any() for u in unknown):
        return False
    zeros = [(y.value == 0) & (y.bound == 0) for y in truths]
    return all((u | z).all() for u, z in zip(unknown, zeros, strict=True)) and not any(
        np.isinf(y.value).any() for y in truths
    )


def _without_value(oracle: Oracle, inputs: Arrays) -> Mapping[str, np.ndarray]:
    """Where each output is NaN, by its name; empty if none is. All maps in all formats share it, at the same inputs."""
    key = ("without value", *map(fingerprint, inputs))
    if key not in oracle.kept:
        nans = {label: np.isnan(y) for label, y in oracle.outputs_by_name(inputs).items()}
        oracle.kept[key] = nans if any(nan.any() for nan in nans.values()) else {}
    return oracle.kept[key]


def _ambiguous(truths: Sequence[Truth]) -> bool:
    """Return whether an entry is a number that has no bound, however small the unit roundoff."""
    return any((np.isfinite(y.value) & ~np.isfinite(y.bound)).any() for y in truths)
