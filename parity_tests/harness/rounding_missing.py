"""What `rounding` cannot bound, and where the rule that is missing belongs."""

from __future__ import annotations

# The file of a family of rules, by what a primitive's name contains. The first that fits is it.
_FILES = (
    ("complex numbers", "rounding_complex.py"),
    ("cond (", "rounding_control.py"),
    ("while (", "rounding_control.py"),
    ("shift", "rounding_bits.py"),
    ("bit", "rounding_bits.py"),
    ("gather", "rounding_indexing.py"),
    ("scatter", "rounding_indexing.py"),
    ("dynamic", "rounding_indexing.py"),
    ("sort", "rounding_order.py"),
    ("top_k", "rounding_order.py"),
    ("arg", "rounding_order.py"),
    ("window", "rounding_order.py"),
    ("select_and", "rounding_order.py"),
    ("eig", "rounding_spectral.py"),
    ("schur", "rounding_spectral.py"),
    ("svd", "rounding_spectral.py"),
    ("fft", "rounding_spectral.py"),
    ("qr", "rounding_matrix.py"),
    ("householder", "rounding_matrix.py"),
    ("hessenberg", "rounding_matrix.py"),
    ("tridiagonal", "rounding_matrix.py"),
    ("solve", "rounding_matrix.py"),
    ("dot", "rounding_sums.py"),
    ("conv_", "rounding_sums.py"),
    ("cum", "rounding_sums.py"),
    ("reduce", "rounding_sums.py"),
)


def file_of(primitive: str) -> str:
    """The file of the harness in which a rule for a primitive belongs."""
    fitting = (file for part, file in _FILES if part in primitive)
    return next(fitting, "rounding_elementary.py")


class NoRule(NotImplementedError):
    """A jaxpr holds a primitive whose rounding error `rounding` cannot bound."""

    def __init__(self, primitive: str) -> None:
        super().__init__(
            f"no rounding-error rule for the JAX primitive {primitive!r}; one can be added to parity_tests/harness/"
            f"{file_of(primitive)}, as CONTRIBUTING.md says under 'A primitive'"
        )


class NotFloat64(TypeError):
    """The function that should be the truth computes in a lower precision although its arguments are float64."""

    def __init__(self, primitive: str, dtype: str) -> None:
        super().__init__(
            f"the JAX function computes in {dtype} (primitive {primitive!r}) although its arguments are float64, so it "
            "cannot judge; let its dtypes follow those of its arguments"
        )
