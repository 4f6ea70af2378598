"""A primitive that JAX does not have, added through the public door: one record, and everything else follows."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from mpmath.ctx_mp import MPContext

from parity_tests import OpSpec, Verdict
from parity_tests.harness.extended.problem import exact_values
from parity_tests.harness.language.values import evaluate
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.addends import addends
from parity_tests.harness.primitives.exact.arrays import of_numbers
from parity_tests.harness.primitives.field.rules import entrywise
from parity_tests.harness.primitives.missing import NoRule
from parity_tests.harness.primitives.moves import MOVES
from parity_tests.harness.primitives.registry import BY_MODULUS, Kind, Terms, kind_of, primitive, scoped_records
from parity_tests.harness.primitives.sums import SUM
from parity_tests.harness.primitives.value.evaluated import evaluated
from parity_tests.harness.primitives.value.functions import of_reals
from parity_tests.harness.proof.proof import sameness
from parity_tests.harness.rounding.analysis import bounded
from parity_tests.suite.harness._ops import judged, normal


def _made(name: str, f: Callable) -> Primitive:
    """A primitive of one linear function, with all that JAX needs of it."""
    made = Primitive(name)
    made.def_impl(f)
    made.def_abstract_eval(lambda x: jax.core.ShapedArray(jax.eval_shape(f, x).shape, x.dtype))
    ad.deflinear2(made, lambda y_bar, x: jax.linear_transpose(f, x.aval)(y_bar))
    mlir.register_lowering(made, mlir.lower_fun(f, multiple_results=False))
    batching.primitive_batchers[made] = lambda args, axes: (jax.vmap(f, axes[0])(*args), 0)
    return made


turned_p = _made("turned", lambda x: lax.rev(x, (0,)))
total_p = _made("total", lambda x: jnp.sum(x, 0))
AS_TURNED = {"kinds": MOVES, "complex": BY_MODULUS}
AS_TOTAL = {
    "kinds": SUM,
    "terms": Terms(lambda eqn, x: x[0].shape[0], lambda eqn, x, K, p: float(K * K)),
}


def turned_rule(eqn, x, e, y, p):
    return np.asarray(evaluated(eqn, *e))


def total_rule(eqn, x, e, y, p):
    K = x[0].shape[0]
    return e[0].sum(0) + p.gamma(K, float(K * K)) * np.abs(x[0]).sum(0) + p.u * np.abs(y)


@pytest.fixture(autouse=True)
def own_records():
    """Records made in a test are forgotten after it."""
    with scoped_records(), pinned():
        yield


def bound_of(f, args, precision="float16"):
    args = [np.asarray(x) for x in args]
    ((value, bound),) = bounded(jax.make_jaxpr(f)(*args), *args, precision=PRECISIONS[precision])
    return value, bound


SMALL = np.array([1e-4, 2e-4, 3e-4])
C = np.array([300.0, 301.0, 299.0])
A = normal(3, 40, seed=1)


def _reordered(move):
    """A product whose order may lose digits to underflow: see `rounding.products`."""
    return lambda x: move(x * x) * 50.0


def _fused(move):
    """A sum that is a term of another one: see `rounding.fused`."""
    return lambda a: C + move(jnp.sum(a, 1))


def _scaled(move):
    """Constants that float16 has not: see `rounding.scales`."""
    return lambda x: move(1e6 * x) / 1e6


FOLLOWED = [
    pytest.param(_reordered, SMALL, id="reordered"),
    pytest.param(_fused, A, id="fused"),
    pytest.param(_scaled, C, id="scaled"),
]


@pytest.mark.parametrize(("program", "x"), FOLLOWED)
def test_what_moves_numbers_is_followed_because_its_record_says_so(program, x):
    primitive("turned", **AS_TURNED)(turned_rule)
    value, bound = bound_of(program(turned_p.bind), [x])
    expected_value, expected = bound_of(program(lambda a: lax.rev(a, (0,))), [x])
    np.testing.assert_array_equal(value, expected_value)
    np.testing.assert_array_equal(bound, expected)


def test_a_record_is_forgotten_after_its_block():
    """And so is what was planned by it for a program."""
    closed = jax.make_jaxpr(turned_p.bind)(SMALL)
    with scoped_records():
        primitive("turned", **AS_TURNED)(turned_rule)
        bounded(closed, SMALL, precision=PRECISIONS["float32"])
    with pytest.raises(NoRule, match="'turned'"):
        bounded(closed, SMALL, precision=PRECISIONS["float32"])


@pytest.mark.parametrize(("program", "x"), FOLLOWED)
def test_without_its_kind_it_is_not_followed(program, x):
    primitive("turned", complex=BY_MODULUS)(turned_rule)
    _, bound = bound_of(program(turned_p.bind), [x])
    _, expected = bound_of(program(lambda a: lax.rev(a, (0,))), [x])
    assert not np.array_equal(bound, expected)


def test_complex_numbers_go_by_the_record():
    z = normal(3) + 1j * normal(3, seed=1)
    with scoped_records():
        primitive("turned", kinds=MOVES)(turned_rule)
        with pytest.raises(NoRule, match=r"'turned \(of complex numbers\)'"):
            bound_of(turned_p.bind, [z], "float32")
    primitive("turned", **AS_TURNED)(turned_rule)
    _, bound = bound_of(turned_p.bind, [z], "float32")
    np.testing.assert_array_equal(bound, bound_of(lambda a: lax.rev(a, (0,)), [z], "float32")[1])


@pytest.mark.parametrize(("kinds", "is_exact"), [(SUM, True), (Kind(0), False)], ids=["a sum", "of no kind"])
def test_a_sum_of_integers_is_exact(kinds, is_exact):
    primitive("total", kinds=kinds)(total_rule)
    args = [np.arange(5.0)]
    ((_, bound),) = bounded(jax.make_jaxpr(total_p.bind)(*args), *args, precision=PRECISIONS["float32"], inputs=0)
    assert (bound == 0) == is_exact


def test_the_terms_of_a_sum_are_added_to_those_of_another():
    def added(a):
        return 1e3 + total_p.bind(a)

    with scoped_records():
        primitive("total", kinds=SUM)(total_rule)
        _, apart = bound_of(added, [A], "float32")
    primitive("total", **AS_TOTAL)(total_rule)
    _, together = bound_of(added, [A], "float32")
    assert (together > 1.5 * apart).all()


def test_the_terms_of_a_result_are_found_through_it():
    x, y = normal(3), normal(3, seed=1)
    closed = jax.make_jaxpr(lambda x, y: turned_p.bind(x * y + y))(x, y)
    primitive("turned", **AS_TURNED)(turned_rule)
    ((first, second),) = addends(closed, [x, y], ["x", "y"])
    assert [first.text, second.text] == ["x * y", "y"]
    np.testing.assert_array_equal(first.value, (x * y)[::-1])
    np.testing.assert_array_equal(second.value, y[::-1])


SPEC = OpSpec("turned cube", primal=lambda x: turned_p.bind(x * x * x), inputs=(normal(5),))


def test_an_operator_that_uses_it_is_judged():
    row = judged(lambda x: (x**3).flip(0), SPEC, "vjp", "float32")
    assert row.verdict is not Verdict.PASS
    assert "'turned'; add one record to parity_tests/harness/primitives/elementary.py" in row.reason
    primitive("turned", **AS_TURNED)(turned_rule)
    for check in ("forward", "vjp"):
        row = judged(lambda x: (x**3).flip(0), SPEC, check, "float32")
        assert row.verdict is Verdict.PASS, row.reason
        row = judged(lambda x: x**3, SPEC, check, "float32")
        assert row.verdict is Verdict.MISMATCH, check


def test_a_second_record_is_refused():
    primitive("turned", **AS_TURNED)(turned_rule)
    with pytest.raises(ValueError, match=r"'turned' has a record already, with the rule .*turned_rule; .* one record"):
        primitive("turned")(total_rule)
    with pytest.raises(ValueError, match=r"'add' has a record already, with the rule parity_tests\..*arithmetic"):
        primitive("add")(total_rule)
    assert kind_of("turned") == MOVES


def test_terms_are_of_sums():
    with pytest.raises(ValueError, match=r"'total' has terms but its kinds lack Kind\.SUM"):
        primitive("total", terms=AS_TOTAL["terms"])(total_rule)


def _cube(x):
    return x * x * x


cubed_p = _made("cubed", functools.partial(_cube))  # whose function is nobody's, so that a field takes its rule
IN_NUMPY = Counter[str]()


def cube_in_numpy(x):
    IN_NUMPY["cubed"] += 1
    return _cube(x)


def cubed_rule(eqn, x, e, y, p):
    return 3 * x[0] ** 2 * e[0] + 3 * np.abs(x[0]) * e[0] ** 2 + e[0] ** 3 + 2 * p.u * np.abs(y)


AS_CUBED = {
    "kinds": Kind.FUNCTION | Kind.MONOTONE,
    "value": of_reals(cube_in_numpy),
    "exact": of_numbers(lambda mp, x: x**3),
    "field": entrywise(lambda field, x: field.power(x, 3)),
}


def test_one_record_serves_every_number_system():
    primitive(cubed_p, **AS_CUBED)(cubed_rule)
    x = SMALL + 1 / 3
    program = jax.make_jaxpr(cubed_p.bind)(x)
    before = IN_NUMPY["cubed"]
    np.testing.assert_array_equal(evaluate(program, x)[0], x * x * x)
    assert IN_NUMPY["cubed"] == before + 1  # and not JAX
    value, bound = bound_of(cubed_p.bind, [x], "float32")
    rounded = _cube(x.astype(np.float32))
    assert (np.abs(rounded - value) <= bound).all()
    assert (bound < 20 * PRECISIONS["float32"].u * value).all()
    mp = MPContext()
    mp.prec = 300
    assert [*exact_values(program, [x])[0]] == [mp.mpf(a) ** 3 for a in x]
    assert sameness(program, jax.make_jaxpr(lambda x: x**3)(x), [x]).proved
    assert not sameness(program, jax.make_jaxpr(lambda x: x**3 + x / 2**60)(x), [x]).proved


@pytest.mark.parametrize(
    ("column", "columns", "ask", "rule"),
    [
        ("exact", (), lambda program, x: exact_values(program, [x]), "exact value"),
        ("field", ("exact",), lambda program, x: sameness(program, program, [x]), "rule in finite fields"),
    ],
    ids=["exact", "field"],
)
def test_a_rule_that_a_record_lacks_is_told_alike(column, columns, ask, rule):
    program = jax.make_jaxpr(cubed_p.bind)(SMALL)
    primitive(cubed_p, **{column: AS_CUBED[column] for column in columns})(cubed_rule)
    with pytest.raises(NotImplementedError) as caught:
        ask(program, SMALL)
    assert str(caught.value) == (
        f"no {rule} for the JAX primitive 'cubed'; add '{column}' to its record in "
        "parity_tests/harness/primitives/elementary.py, as CONTRIBUTING.md says under 'A primitive'"
    )


@pytest.mark.parametrize("column", ["bound", "exact", "field"])
def test_a_primitive_without_a_record_is_told_alike(column):
    assert re.fullmatch(
        r"no [a-z -]+ for the JAX primitive 'cubed'; add one record to parity_tests/harness/primitives/elementary\.py, "
        r"as CONTRIBUTING\.md says under 'A primitive'",
        str(NoRule("cubed", column)),
    )
