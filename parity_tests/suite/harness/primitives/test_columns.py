"""What each domain knows of each primitive of JAX: nothing is lost where the tables are arranged anew."""

from __future__ import annotations

import ast
import inspect

import pytest
from jax import lax
from jax.extend import core
from jax.extend.core import primitives as of_jax

from parity_tests.harness.primitives import FAMILIES
from parity_tests.harness.primitives.registry import Kind, has, moves, records

# By what is known of them: a value in NumPy, a bound of its rounding errors (and of complex numbers, and the terms that
# it sums), an exact value in many bits, a rule in finite fields.
PRIMITIVES = {
    "value bound complex exact field": """
        abs add add_any convert_element_type cos cosh div exp exp2 expm1 integer_pow log log1p log2 mul pow rsqrt
        scatter-add sin sinh sqrt square sub tan tanh""",
    "value bound complex terms exact": "cumsum dot_general reduce_sum",
    "value bound complex exact": """
        acos acosh asin asinh atan atanh eq ne neg to_tolerance""",
    "value bound complex field": "lu triangular_solve",
    "value bound complex": """
        broadcast_in_dim concatenate copy dynamic_slice dynamic_update_slice empty expand_dims gather name pad reshape
        rev scatter select_n slice split squeeze stop_gradient transpose""",
    "value bound terms exact": "conv_general_dilated",
    "value bound exact field": "cbrt clamp cumprod erf erfc logistic max min reduce_max reduce_min reduce_prod sort",
    "value bound exact": """
        atan2 ceil cummax cummin erf_inv erfcx floor ge gt is_finite le lt""",
    "value bound": "and erfcinv iota ndtri not or scatter-max scatter-min scatter-mul scatter_mul",
    "bound complex exact": "sign",
    "bound complex": "complex conj copy_p dce_sink eig fft imag real",
    "bound terms": "reduce_window_sum",
    "bound exact field": "one_minus_square rem",
    "bound exact": "argmax argmin bessel_i0e bessel_i1e digamma lgamma polygamma round",
    "bound field": "cholesky",
    "bound": """
        bitcast_convert_type clz cumlogsumexp eigh empty2 igamma igammac le_to lt_to mulhi nextafter platform_index
        population_count reduce_and reduce_or reduce_precision reduce_window_max reduce_window_min reduce_xor
        regularized_incomplete_beta select_and_gather_add select_and_scatter_add shift_left shift_right_arithmetic
        shift_right_logical stack svd tile top_k unstack xor zeta""",
}
HAVE_ROOTS = "cbrt cholesky log log1p log2 pow rsqrt sqrt"
ARE_INTEGERS = "ceil floor round sign"
IN_A_RUN = "cholesky lu triangular_solve"
# In other number systems they need no rule: the numbers are where the places say.
MOVE = """
    broadcast_in_dim concatenate copy copy_p dynamic_slice dynamic_update_slice expand_dims gather name pad reshape rev
    scatter select_n slice split squeeze stack stop_gradient tile transpose unstack"""
HAVE_LIMITS = "atan div erf erfc exp expm1 integer_pow logistic pow rsqrt tanh"

COLUMNS = ("value", "bound", "complex", "terms", "exact", "field")


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_has_these_primitives(column: str) -> None:
    expected = {name for columns, names in PRIMITIVES.items() if column in columns.split() for name in names.split()}
    found = {name for name, record in records().items() if getattr(record, column) is not None}
    assert sorted(found) == sorted(expected)


def test_a_primitive_stands_once() -> None:
    names = " ".join(PRIMITIVES.values()).split()
    assert len(names) == len({*names})


@pytest.mark.parametrize(
    ("kind", "names"), [(Kind.LIMIT, HAVE_LIMITS), (Kind.ROOT, HAVE_ROOTS), (Kind.INTEGERS, ARE_INTEGERS)]
)
def test_a_proof_finds_these_of_a_kind(kind: Kind, names: str) -> None:
    assert sorted(name for name in records() if has(name, kind)) == names.split()


def test_these_have_values_in_a_run_alone() -> None:
    assert sorted(name for name, record in records().items() if record.run is not None) == IN_A_RUN.split()


def test_these_only_move_numbers() -> None:
    assert sorted(filter(moves, records())) == MOVE.split()


# Other versions of JAX lack an object of these, or have one.
NOT_IN_EVERY_VERSION = {"dce_sink", "log2", "mulhi", "one_minus_square", "stack", "unstack"}


def test_a_primitive_stands_by_its_name_only_where_jax_has_no_object() -> None:
    calls = [
        node
        for family in FAMILIES
        for node in ast.walk(ast.parse(inspect.getsource(family)))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "primitive"
    ]
    named = {arg.value for call in calls for arg in call.args if isinstance(arg, ast.Constant)}
    public = {p.name for module in (of_jax, lax) for p in vars(module).values() if isinstance(p, core.Primitive)}
    assert "copy_p" in named
    assert named & public <= NOT_IN_EVERY_VERSION
