"""Exceptions raised where `rounding` has no bound, and the file in which a missing record belongs."""

from __future__ import annotations

# The file of a family of rules, by what a primitive's name contains. The first that fits is it.
_FILES = (
    ("complex numbers", "primitives/bound/complex.py"),
    ("cond (", "rounding/bounds.py"),
    ("while (", "rounding/bounds.py"),
    ("shift", "primitives/bits.py"),
    ("bit", "primitives/bits.py"),
    ("gather", "primitives/indexing.py"),
    ("scatter", "primitives/indexing.py"),
    ("dynamic", "primitives/indexing.py"),
    ("sort", "primitives/order.py"),
    ("top_k", "primitives/order.py"),
    ("arg", "primitives/order.py"),
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
    ("dot", "primitives/sums.py"),
    ("conv_", "primitives/sums.py"),
    ("cum", "primitives/sums.py"),
    ("reduce", "primitives/sums.py"),
)


def file_of(primitive: str) -> str:
    """The file of the harness in which a record of a primitive belongs."""
    fitting = (file for part, file in _FILES if part in primitive)
    return next(fitting, "primitives/elementary.py")


class NoRule(NotImplementedError):
    """A jaxpr holds a primitive whose rounding error `rounding` cannot bound."""

    def __init__(self, primitive: str) -> None:
        super().__init__(
            f"no rounding-error rule for the JAX primitive {primitive!r}; add one record to "
            f"parity_tests/harness/{file_of(primitive)}, as CONTRIBUTING.md says under 'A primitive'"
        )


class NotFloat64(TypeError):
    """The function that should be the truth computes in a lower precision although its arguments are float64."""

    def __init__(self, primitive: str, dtype: str) -> None:
        super().__init__(
            f"the JAX function computes in {dtype} (primitive {primitive!r}) although its arguments are float64, so it "
            "cannot judge; let its dtypes follow those of its arguments"
        )
