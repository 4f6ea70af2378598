"""The suite's operators, by name: what `gradparity run` judges."""

from __future__ import annotations

from parity_tests.harness.candidate import Candidate, NotBuilt
from parity_tests.harness.jax_candidate import JaxCandidate
from parity_tests.suite import attn, model

SPECS = {attn.SPEC.name: attn.SPEC} | model.SPECS


def names(op: str) -> tuple[str, ...]:
    """The implementations of an operator."""
    return attn.NAMES if op == attn.SPEC.name else model.names(op)


def candidate(op: str, name: str) -> Candidate | JaxCandidate | NotBuilt:
    """The implementation of this name; a native one is compiled when it is first asked for."""
    return attn.candidate(name) if op == attn.SPEC.name else model.candidate(op, name)
