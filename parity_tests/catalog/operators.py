"""The suite's operators, by name: what `gradparity run` judges."""

from __future__ import annotations

from parity_tests.catalog import attn, model
from parity_tests.harness.candidates.base import AnyCandidate
from parity_tests.harness.candidates.not_built import NotBuilt

SPECS = {spec.name: spec for spec in (attn.SPEC, attn.SPEC_FLOAT32)} | model.SPECS


def names(op: str) -> tuple[str, ...]:
    """The implementations of an operator."""
    of_attn = {attn.SPEC.name: attn.NAMES, attn.SPEC_FLOAT32.name: tuple(attn.IN_JAX)}
    return of_attn[op] if op in of_attn else model.names(op)


def candidate(op: str, name: str) -> AnyCandidate | NotBuilt:
    """The implementation of this name; a native one is compiled when it is first asked for."""
    of_attn = {attn.SPEC.name: attn.candidate, attn.SPEC_FLOAT32.name: attn.candidate_float32}
    return of_attn[op](name) if op in of_attn else model.candidate(op, name)
