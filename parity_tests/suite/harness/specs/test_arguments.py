"""What an operator takes: dictionaries, lists and named tuples of arrays."""

from __future__ import annotations

import subprocess
import sys
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from parity_tests import JaxCandidate, OpSpec, Verdict, crosscheck
from parity_tests.cli.app import app
from parity_tests.harness.specs.arguments import as_code, leaves, mapped
from parity_tests.suite.harness._ops import judged
from parity_tests.suite.marks import fast

CHECKS = ["forward", "vjp", "jvp", "vjp_of_vjp", "input_subsets", "vmap", "fake", "compile"]


class Layer(NamedTuple):
    """The parameters of a linear layer."""

    weight: object
    bias: object


def affine(x, layer):
    return x @ layer.weight + layer.bias


def from_dictionary(x, layer):
    return x @ layer["weight"] + layer["bias"]


def swapped(x, layer):
    """The bias' gradient is doubled."""
    return from_dictionary(x, layer) + (layer["bias"] - layer["bias"].detach())


NESTED = OpSpec("affine", from_dictionary, "(n,d),(d,e),(e)->(n,e)", arguments=("x", {"weight": "w", "bias": "b"}))
TUPLE = OpSpec("affine", affine, "(n,d),(d,e),(e)->(n,e)", arguments=("x", Layer("w", "b")))
RNG = np.random.default_rng(0)
GIVEN = {"weight": RNG.standard_normal((3, 2)), "bias": RNG.standard_normal(2)}


@fast("dictionary")
@pytest.mark.parametrize(("spec", "call"), [(NESTED, from_dictionary), (TUPLE, affine)], ids=["dictionary", "tuple"])
def test_a_right_candidate(spec, call):
    report = crosscheck(call, spec, checks=["forward", "vjp", "jvp"], dtypes=["float64"])
    assert {row.verdict for row in report.rows} == {Verdict.PASS}, str(report)


@pytest.mark.slow
def test_a_right_candidate_under_every_check():
    report = crosscheck(from_dictionary, NESTED)
    assert report.passed, str(report)
    assert all(row.passed for row in report.rows if row.check in CHECKS), str(report)


@pytest.mark.slow
def test_a_wrong_gradient_is_named_by_its_input():
    row = judged(swapped, NESTED, "vjp")
    assert row.verdict is Verdict.MISMATCH
    assert row.failure is not None
    assert [wrong.label for wrong in row.failure.wrong] == ["b_bar"]


def test_the_inputs_are_in_the_order_in_which_they_are_written():
    assert NESTED.names == TUPLE.names == ("x", "w", "b")


def test_nested_inputs_say_it_themselves():
    spec = OpSpec("affine", from_dictionary, inputs=(RNG.standard_normal((4, 3)), GIVEN))
    assert spec.names == ("x", "layer.weight", "layer.bias")
    assert spec.arguments == ("x", {"weight": "layer.weight", "bias": "layer.bias"})
    report = crosscheck(from_dictionary, spec, checks=["forward", "vjp"], dtypes=["float64"])
    assert {row.verdict for row in report.rows} == {Verdict.PASS}, str(report)
    row = judged(swapped, spec, "vjp")
    assert row.failure is not None
    assert row.failure.wrong[0].label == "layer.bias_bar"


@pytest.mark.slow
def test_a_formula_is_about_the_inputs():
    def vjp(x, w, b, g):
        return g @ w.T, x.T @ g, g.sum(0)

    spec = OpSpec("affine", from_dictionary, NESTED.signature, arguments=NESTED.arguments, vjp=vjp)
    assert judged(from_dictionary, spec, "vjp").verdict is Verdict.PASS
    assert judged(swapped, spec, "vjp").verdict is Verdict.MISMATCH


@pytest.mark.slow
def test_a_candidate_in_jax():
    report = crosscheck(JaxCandidate(from_dictionary), NESTED, checks=["forward", "vjp"], dtypes=["float64"])
    assert {row.verdict for row in report.rows} == {Verdict.PASS}, str(report)


def test_integers_among_them():
    def picked(table):
        return table["rows"][table["index"]]

    rows = RNG.standard_normal((5, 3))
    spec = OpSpec("picked", picked, inputs=({"rows": rows, "index": np.array([0, 2, 2])},))
    report = crosscheck(picked, spec, checks=["forward", "vjp"], dtypes=["float64"])
    assert {row.verdict for row in report.rows} == {Verdict.PASS}, str(report)


@pytest.mark.slow
def test_a_list_of_tensors_for_an_operator_of_torch():
    spec = OpSpec("stack", lambda parts: jnp.stack(parts), "(n),(n)->(2,n)", arguments=(["x", "y"],))
    report = crosscheck(torch.ops.aten.stack.default, spec, checks=["forward", "vjp", "opcheck"], dtypes=["float64"])
    assert all(row.passed for row in report.rows), str(report)


@pytest.mark.slow
@pytest.mark.usefixtures("shrinking")
def test_the_reproducer_calls_it_so(tmp_path):
    path = tmp_path / "case.py"
    path.write_text(
        "from typing import NamedTuple\n"
        "from parity_tests import OpSpec\n"
        "class Layer(NamedTuple):\n    weight: object\n    bias: object\n"
        "spec = OpSpec('affine', lambda x, layer: x @ layer.weight + layer.bias, '(n,d),(d,e),(e)->(n,e)',\n"
        "              arguments=('x', Layer('w', 'b')))\n"
        "candidate = lambda x, layer: x @ layer.weight + 2 * layer.bias - layer.bias.detach()\n"
    )
    only = ("--only", "vjp", "--dtype", "float64", "--no-isolate")
    CliRunner().invoke(app, ["check", str(path), *only, "--failures", str(tmp_path / "out")])
    (script,) = (tmp_path / "out").glob("*.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "namedtuple('Layer', ['weight', 'bias'])(w, b)" in script.read_text()
    assert "b_bar: they differ" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param("x", "arguments must be a tuple", id="no tuple"),
        pytest.param(("x", {"weight": "w"}), "once, and has 'b' 0 times", id="one is missing"),
        pytest.param(("x", ["w", "b", "w"]), "once, and has 'w' 2 times", id="one is there twice"),
        pytest.param(("x", ["w", "b", "c"]), "names 'c'; the inputs are x, w, b", id="an unknown one"),
        pytest.param(("x", ["w", 3]), "has 3 where the name of an input is expected", id="a number"),
    ],
)
def test_arguments_that_cannot_be_used(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        OpSpec("affine", affine, "(n,d),(d,e),(e)->(n,e)", arguments=arguments, input_names=("x", "w", "b"))


def test_nested_inputs_and_arguments_are_too_much():
    with pytest.raises(ValueError, match="inputs are nested, so that arguments follow from them; omit these"):
        OpSpec("affine", from_dictionary, inputs=(np.ones((4, 3)), GIVEN), arguments=("x", ["w", "b"]))


def test_a_tree_as_code():
    tree = ("x", {"a": ["y"], "b": ("z",)}, Layer("u", "v"))
    names = {name: name.upper() for _, name in leaves(tree)}
    code = [as_code(part, names) for part in tree]
    assert code == ["X", "{'a': [Y], 'b': (Z,)}", "namedtuple('Layer', ['weight', 'bias'])(U, V)"]
    assert mapped(str.upper, tree) == ("X", {"a": ["Y"], "b": ("Z",)}, Layer("U", "V"))
