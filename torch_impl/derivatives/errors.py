"""The errors of formulas: the file or the text is wrong, or the formula cannot be evaluated here."""

from __future__ import annotations


class DerivativesFileError(ValueError):
    """A derivatives.yaml cannot be read; the message begins with file:line and says what to change."""


class FormulaSyntaxError(ValueError):
    """A formula's text is not a C++ expression of the kind that derivatives.yaml holds."""

    def __init__(self, text: str, position: int, expected: str) -> None:
        self.text = text
        self.position = position
        self.expected = expected
        found = repr(text[position : position + 12]) if position < len(text) else "the end"
        super().__init__(f"expected {expected} at position {position}, found {found}\n  {text}\n  {' ' * position}^")


class EvaluationError(RuntimeError):
    """A formula was evaluated and went wrong, as it would in C++: a value is missing, or of the wrong kind."""


class NotEvaluable(NotImplementedError):
    """A formula needs something that is not written in Python here; `name` is what is missing."""

    def __init__(self, name: str, reason: str = "it is not written in Python here") -> None:
        self.name = name
        super().__init__(f"cannot evaluate {name}: {reason}")


class OperatorRefused(EvaluationError):
    """A formula calls what a derivatives.yaml, which may be a stranger's, must not call; says what to write instead."""


class DerivativeNotImplemented(NotImplementedError):
    """PyTorch itself declares that this derivative is not implemented."""


class FormulaRefused(ValueError):
    """A Python function cannot be written as a formula; the message begins with file:line."""
