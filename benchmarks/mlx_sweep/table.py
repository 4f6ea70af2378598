"""The operators of the sweep by name."""

from __future__ import annotations

from benchmarks.mlx_sweep import elementwise, products, rows, shapes
from benchmarks.mlx_sweep._operator import Operator

OPERATORS: dict[str, Operator] = {
    operator.name: operator for group in (elementwise, rows, products, shapes) for operator in group.OPERATORS
}
