"""Exceptions raised where `rounding` has no bound, and the file in which a missing record belongs."""

from __future__ import annotations

# The file of a family of rules, by what a primitive's name contains. The first that fits is it.
_FILES = (
    ("complex numbers", "complex.py"),
    ("cond (", "bounds.py"),
    ("while (", "bounds.py"),
    ("shift", "bits.py"),
    ("bit", "bits.py"),
    ("gather", "indexing.py"),
    ("scatter", "indexing.py"),
    ("dynamic", "indexing.py"),
    ("sort", "order.py"),
    ("top_k", "order.py"),
    ("arg", "order.py"),
    ("window", "order.py"),
    ("select_and", "order.py"),
    ("eig", "spectral.py"),
    ("schur", "spectral.py"),
    ("svd", "spectral.py"),
    ("fft", "spectral.py"),
    ("qr", "matrix.py"),
    ("householder", "matrix.py"),
    ("hessenberg", "matrix.py"),
    ("tridiagonal", "matrix.py"),
    ("solve", "matrix.py"),
    ("dot", "sums.py"),
    ("conv_", "sums.py"),
    ("cum", "sums.py"),
    ("reduce", "sums.py"),
)


def file_of(primitive: str) -> str:
    """The file of this package in which a record of a primitive belongs."""
    fitting = (file for part, file in _FILES if part in primitive)
    return next(fitting, "elementary.py")


class NoRule(NotImplementedError):
    """A jaxpr holds a primitive whose rounding error `rounding` cannot bound."""

    def __init__(self, primitive: str) -> None:
        super().__init__(
            f"no rounding-error rule for the JAX primitive {primitive!r}; add one record to parity_tests/harness/"
            f"rounding/{file_of(primitive)}, as CONTRIBUTING.md says under 'A primitive'"
        )


class NotFloat64(TypeError):
    """The function that should be the truth computes in a lower precision although its arguments are float64."""

    def __init__(self, primitive: str, dtype: str) -> None:
        super().__init__(
            f"the JAX function computes in {dtype} (primitive {primitive!r}) although its arguments are float64, so it "
            "cannot judge; let its dtypes follow those of its arguments"
        )
