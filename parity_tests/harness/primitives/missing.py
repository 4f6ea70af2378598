"""Exceptions raised where a number system has no rule of a primitive, and the file in which that belongs."""

from __future__ import annotations

from parity_tests.harness.primitives.registry import Primitive, record_of

_HARNESS = "parity_tests.harness."
_RULES = {
    **dict.fromkeys(("bound", "complex"), "rounding-error rule"),
    "exact": "exact value",
    "field": "rule in finite fields",
}
# The file of a family, by what a primitive's name contains. The first that fits is it.
_FILES = (
    ("cond (", "rounding/bounds.py"),
    ("while (", "rounding/bounds.py"),
    ("shift", "primitives/bits.py"),
    ("bit", "primitives/bits.py"),
    ("gather", "primitives/indexing.py"),
    ("scatter", "primitives/indexing.py"),
    ("dynamic", "primitives/indexing.py"),
    ("sort", "primitives/order.py"),
    ("top_k", "primitives/order.py"),
    ("arg", "primitives/extrema.py"),
    ("window", "primitives/order.py"),
    ("select_and", "primitives/order.py"),
    ("eig", "primitives/spectral.py"),
    ("schur", "primitives/spectral.py"),
    ("svd", "primitives/spectral.py"),
    ("fft", "primitives/spectral.py"),
    ("qr", "primitives/matrix.py"),
    ("householder", "primitives/matrix.py"),
    ("hessenberg", "primitives/matrix.py"),
    ("tridiagonal", "primitives/matrix.py"),
    ("solve", "primitives/matrix.py"),
    ("gamma", "primitives/gamma.py"),
    ("bessel", "primitives/gamma.py"),
    ("beta", "primitives/gamma.py"),
    ("zeta", "primitives/gamma.py"),
    ("dot", "primitives/sums.py"),
    ("conv_", "primitives/sums.py"),
    ("cum", "primitives/sums.py"),
    ("reduce", "primitives/sums.py"),
)


def _record(primitive: str) -> Primitive | None:
    return record_of(primitive.partition(" ")[0])


def file_of(primitive: str) -> str:
    """The file of the harness with the record of a primitive, or in which it belongs."""
    record = _record(primitive)
    if record is not None and record.bound.__module__.startswith(_HARNESS):
        return record.bound.__module__.removeprefix(_HARNESS).replace(".", "/") + ".py"
    fitting = (file for part, file in _FILES if part in primitive)
    return next(fitting, "primitives/elementary.py")


class NoRule(NotImplementedError):
    """A primitive has no rule for a number system, or none for such numbers.

    Attributes:
        primitive: its name, and which numbers.
        column: of its record, in which the rule would stand: "bound", "complex", "exact" or "field".
    """

    def __init__(self, primitive: str, column: str = "bound") -> None:
        self.primitive, self.column = primitive, column
        record, add = _record(primitive), "add one record to"
        if record is not None:
            add = "its record is in" if getattr(record, column) is not None else f"add {column!r} to its record in"
        super().__init__(
            f"no {_RULES[column]} for the JAX primitive {primitive!r}; {add} "
            f"parity_tests/harness/{file_of(primitive)}, as CONTRIBUTING.md says under 'A primitive'"
        )


class NotFloat64(TypeError):
    """The function that should be the truth computes in a lower precision although its arguments are float64."""

    def __init__(self, primitive: str, dtype: str) -> None:
        super().__init__(
            f"the JAX function computes in {dtype} (primitive {primitive!r}) although its arguments are float64, so it "
            "cannot judge; let its dtypes follow those of its arguments"
        )
