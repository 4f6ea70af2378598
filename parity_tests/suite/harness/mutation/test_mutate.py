"""The kill matrix: honest about what it kills, what survives, and what is no mistake at all."""

from __future__ import annotations

import json
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

from parity_tests import OpSpec
from parity_tests.catalog.attn import SPEC
from parity_tests.cli.app import app
from parity_tests.harness.candidates import jax_programs
from parity_tests.harness.checks import CHECKS
from parity_tests.harness.crosscheck import select_checks
from parity_tests.harness.maps import derivative_map
from parity_tests.harness.mutation.kill_matrix import Fate, KillMatrix
from parity_tests.harness.mutation.mutate import Mutation, flattened, mutated, mutations
from parity_tests.operators.catalogue import COLLECTION
from parity_tests.suite.harness._ops import normal

# Neither derivative is linear in the inputs, and its product of two arrays of one shape may be swapped.
SPEC_OF_TWO = OpSpec("op", primal=lambda x, y: jnp.sin(x) * y, inputs=(normal(3, 3), normal(3, 3, seed=1)))


@pytest.fixture(scope="module")
def fates_under_every_check() -> dict[tuple[str, str, str], tuple[Fate, str]]:
    return _fates(KillMatrix(SPEC_OF_TWO, list(CHECKS.values())))


def _fates(matrix: KillMatrix) -> dict[tuple[str, str, str], tuple[Fate, str]]:
    return {(o.mutation.map, o.mutation.kind, o.mutation.where): (o.fate, o.check) for o in matrix.outcomes()}


@pytest.mark.slow
def test_every_mutant_that_is_one_is_killed(fates_under_every_check):
    fates = fates_under_every_check
    assert {fate for fate, _ in fates.values()} == {Fate.KILLED, Fate.EQUIVALENT}
    by_kind = {}
    for (name, kind, _), fate in fates.items():
        by_kind.setdefault((name, kind), set()).add(fate)
    assert by_kind["vjp", "swap operands"] == {(Fate.EQUIVALENT, "")}
    assert by_kind["vjp", "rows from 32 on are 0"] == {(Fate.EQUIVALENT, "")}  # there are three
    assert by_kind["vjp", "clamp a cotangent"] == {(Fate.KILLED, "vjp")}
    assert by_kind["vjp", "doubled in bfloat16 only"] == {(Fate.KILLED, "vjp")}
    assert (Fate.KILLED, "vjp_of_vjp") in by_kind["vjp", "detach a residual"]
    assert by_kind["vjp", "transpose"] <= {(Fate.KILLED, "vjp"), (Fate.EQUIVALENT, "")}


@pytest.mark.slow
def test_what_no_check_looks_at_survives(fates_under_every_check):
    matrix = KillMatrix(SPEC_OF_TWO, select_checks(["forward"]))
    fates = _fates(matrix)
    assert {fate for fate, _ in fates.values()} == {Fate.SURVIVED, Fate.EQUIVALENT}
    assert {m for m, (fate, _) in fates.items() if fate is Fate.SURVIVED} == {
        m for m, (fate, _) in fates_under_every_check.items() if fate is Fate.KILLED
    }


@pytest.mark.slow
def test_first_order_does_not_see_a_detached_residual():
    matrix = KillMatrix(SPEC_OF_TWO, select_checks(["forward", "vjp", "jvp", "adjoint"]))
    matrix.mutations = [m for m in matrix.mutations if m.map == "vjp"]
    fates = _fates(matrix)
    assert {kind for (_, kind, _), (fate, _) in fates.items() if fate is Fate.SURVIVED} == {"detach a residual"}
    assert (Fate.KILLED, "vjp") in fates.values()


@pytest.mark.parametrize(("sound", "fate"), [(True, Fate.KILLED), (False, Fate.SURVIVED)])
def test_a_check_that_fails_without_the_mutation_kills_nobody(monkeypatch, sound, fate):
    matrix = KillMatrix(SPEC_OF_TWO, select_checks(["vjp"]))
    matrix.mutations = [m for m in matrix.mutations if (m.map, m.kind) == ("vjp", "ignore a direction")]
    as_it_is = KillMatrix._holds

    def holds(self, check, mutation, sample, planted=True):
        return as_it_is(self, check, mutation, sample, planted) if planted else sound

    monkeypatch.setattr(KillMatrix, "_holds", holds)
    assert {outcome.fate for outcome in matrix.outcomes()} == {fate}


def test_a_mutant_that_raises_is_neither_killed_nor_a_survivor():
    def raises(x):
        raise ZeroDivisionError("at once")

    matrix = KillMatrix(SPEC_OF_TWO, select_checks(["vjp"]))
    matrix.mutations = [Mutation("vjp", "raise", "x", ("argument", 0), raises)]
    ((fate, reason),) = ((o.fate, o.reason) for o in matrix.outcomes())
    assert (fate, reason) == (Fate.BROKEN, "ZeroDivisionError: at once")


def test_mutants_share_what_is_compiled():
    """They differ in one operation. Compiled anew for each, `gradparity mutate` took eight times as long."""
    matrix = KillMatrix(SPEC_OF_TWO, select_checks(["forward", "vjp"]))
    (mutation,) = (m for m in matrix.mutations if (m.map, m.kind) == ("vjp", "clamp a cotangent"))
    compiled = []
    jit = jax.jit

    def counted(call, *args, **kwargs):
        compiled.append(call)
        return jit(call, *args, **kwargs)

    with mock.patch.object(jax_programs.jax, "jit", counted):
        matrix.mutations = [mutation]
        first_fates = _fates(matrix)
        after_one = len(compiled)
        matrix.mutations = [mutation] * 3
        fates = _fates(matrix)
    assert after_one
    assert len(compiled) == after_one
    assert fates == first_fates == {(mutation.map, mutation.kind, mutation.where): (Fate.KILLED, "vjp")}


# The mutations themselves.


def _f(x, w):
    return [jnp.sin(x) * w + jax.jit(jnp.cos)(x)]


def _mutations() -> list[Mutation]:
    shape = jax.ShapeDtypeStruct((4,), jnp.float32)
    return list(mutations(derivative_map("vjp", ("x",), ("y",)), _f, shape, shape))


@pytest.mark.slow
def test_each_changes_what_it_says():
    x, w = jnp.arange(1, 5, dtype=jnp.float32), jnp.arange(-1, 3, dtype=jnp.float32)
    expected = {
        "ignore a direction": jnp.cos(x),
        "clamp a cotangent": jnp.sin(x) * jnp.clip(w, -1, 1) + jnp.cos(x),
        "drop the first term": jnp.cos(x),
        "drop the second term": jnp.sin(x) * w,
        "flip a sign": jnp.sin(x) * w - jnp.cos(x),
        "swap operands": _f(x, w)[0],
        "detach a residual": _f(x, w)[0],
        "rows from 32 on are 0": _f(x, w)[0],
        "doubled in bfloat16 only": _f(x, w)[0],
    }
    found = _mutations()
    assert {m.kind for m in found} == set(expected)
    for mutation in found:
        np.testing.assert_allclose(mutated(_f, mutation)(x, w)[0], expected[mutation.kind], rtol=1e-6)
    np.testing.assert_array_equal(mutated(_f, None)(x, w)[0], _f(x, w)[0])


def test_a_detached_residual_has_no_derivative():
    x = w = jnp.arange(1, 5, dtype=jnp.float32)
    (sine,) = (m for m in _mutations() if m.kind == "detach a residual" and "= sin x" in m.where)
    _, tangent = jax.jvp(mutated(_f, sine), (x, w), (jnp.ones(4), jnp.zeros(4)))
    np.testing.assert_allclose(tangent[0], -jnp.sin(x), rtol=1e-6)


def test_where_it_is_is_said():
    assert "%2: float32[4] = cos x" in {m.where for m in _mutations()}
    assert "%3: float32[4] = add %1 %2" in {m.where for m in _mutations()}


def test_only_what_the_results_depend_on_is_mutated():
    def f(x, w):
        jnp.exp(x)
        return [x * w]

    shape = jax.ShapeDtypeStruct((4,), jnp.float32)
    found = mutations(derivative_map("vjp", ("x",), ("y",)), f, shape, shape)
    assert not [m for m in found if "exp" in m.where]
    assert "exp" in str(flattened(f, shape, shape))


# The command.

CASE = """
import jax.numpy as jnp
from parity_tests import OpSpec
spec = OpSpec("op", primal=lambda x, y: jnp.sin(x) * y, inputs=(jnp.ones((2,)) / 3, jnp.ones((2,)) / 7))
"""


def _mutate(*args):
    return CliRunner().invoke(app, ["mutate", *args], catch_exceptions=False)


@pytest.mark.slow
def test_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    path, data = tmp_path / "case.py", tmp_path / "matrix.json"
    path.write_text(CASE)
    result = _mutate(str(path), "--json", str(data))
    assert result.exit_code == 0, result.output
    assert "0 survived" in result.output
    mutants = json.loads(data.read_text())["mutants"]
    assert {m["fate"] for m in mutants} == {"killed", "equivalent"}
    assert f"{len(mutants)} mutants" in result.output

    result = _mutate(str(path), "--only", "forward")
    assert result.exit_code == 1
    assert "survived: vjp, detach a residual, at x (float64)" in result.output


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        pytest.param("spec = 3", (), "`spec` is a int", id="no spec"),
        pytest.param("x = (", (), "SyntaxError", id="syntax"),
        pytest.param(CASE, ("--only", "vpj"), "unknown check 'vpj'", id="check"),
        pytest.param(CASE, ("--json", "/nowhere/x.json"), "there is no folder /nowhere", id="json"),
        pytest.param(CASE.replace("jnp.sin(x)", "x.nope"), (), "primal fails on inputs", id="oracle"),
    ],
)
def test_what_cannot_run(tmp_path, text, options, message):
    path = tmp_path / "case.py"
    path.write_text(text)
    result = _mutate(str(path), *options)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.soak
@pytest.mark.parametrize(
    "spec", [SPEC, *(COLLECTION[op].spec for op in ("gather", "huber", "logsumexp"))], ids=lambda spec: spec.name
)
def test_no_mutant_survives(spec):
    """The slow tests say it of an operator of two inputs: test_every_mutant_that_is_one_is_killed."""
    outcomes = list(KillMatrix(spec, list(CHECKS.values())).outcomes())
    assert not [o for o in outcomes if o.fate is Fate.SURVIVED]
    assert sum(o.fate is Fate.KILLED for o in outcomes) > len(outcomes) / 2
