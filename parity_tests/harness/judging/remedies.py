"""Common mistakes of newcomers, recognized by the first error, each with its remedy."""

from __future__ import annotations

import re

from parity_tests.harness.report.results import ORACLE, Row

# How JAX says that it was given a tensor.
_GIVEN_A_TENSOR = re.compile(
    r"(interpreting argument to|is not a valid JAX type|requires ndarray or scalar arguments).*torch\.Tensor|"
    r"Argument 'tensor\(|Cannot interpret 'torch\.\w+' as a data type",
    re.DOTALL,
)
# How PyTorch says that it was given what JAX traces with.
_GIVEN_A_TRACER = re.compile(r"must be Tensor, not \w*Tracer")
# How JAX says that what it traces with was given to NumPy, or must have a value while it has none.
_GIVEN_TO_NUMPY = re.compile(r"(jax\.errors\.)?TracerArrayConversionError: .*? with shape \S+")
_WITHOUT_A_VALUE = re.compile(
    r"(jax\.errors\.)?(ConcretizationTypeError|TracerBoolConversionError|TracerIntegerConversionError): "
    r".*?traced array with shape [^\s.]+\.?"
)
# How XLA says that its own passes have made a program that is none.
_NOT_COMPILED = re.compile(r"JaxRuntimeError: INTERNAL: ")
NOT_JAX = (
    "must be written in JAX: the oracle is to be independent of PyTorch; OpSpec.from_torch makes a function of JAX of "
    "one of PyTorch's"
)


class NotOnTensors(Exception):
    """A candidate is a function of JAX arrays, as its first row shows; the message has the remedy."""


class FirstRows:
    """Looks at the first row of each candidate; in a later row JAX's error about tensors is about the candidate."""

    def __init__(self) -> None:
        self._candidates: set[str] = set()

    def check(self, row: Row) -> None:
        """Raise `NotOnTensors` if this is a candidate's first row, and shows JAX's own error about tensors."""
        name = row.candidate
        if name == ORACLE or name in self._candidates:
            return
        self._candidates.add(name)
        texts = [row.reason, *(wrong.pattern for wrong in (row.failure.wrong if row.failure else ()))]
        if any(map(_GIVEN_A_TENSOR.search, texts)):
            remedy = f"if it is a function of JAX arrays, give JaxCandidate({name})"
            raise NotOnTensors(f"{name} hands tensors to JAX; {remedy}")


def of_oracle_error(error: Exception) -> str:
    """The text of an `OracleError`, with the remedy if the primal calls PyTorch or NumPy."""
    return with_remedy(str(error))


def with_remedy(text: str) -> str:
    """The text of an exception of the oracle, with the remedy if its code calls PyTorch or NumPy.

    Or if it is XLA's defect, and no mistake of whoever wrote the oracle.
    """
    if _NOT_COMPILED.search(text):
        return f"{text}; XLA fails to compile the oracle's program, which is a defect of XLA: write it in another way"
    if _GIVEN_A_TRACER.search(text):
        return f"{text}; the primal {NOT_JAX}"
    if _GIVEN_TO_NUMPY.search(text):
        text = _GIVEN_TO_NUMPY.sub("it gives an array of JAX's to NumPy", text)
        return f"{text}; the oracle must be written in JAX: write jnp where it says np"
    if _WITHOUT_A_VALUE.search(text):
        text = _WITHOUT_A_VALUE.sub(
            "it asks for the value of an array of JAX's, which has none while it is traced", text
        )
        return f"{text}; write jnp.where in place of an if, and leave out float() and int()"
    return text
