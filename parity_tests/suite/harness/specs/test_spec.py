"""OpSpec: what it refuses, in which words, and the names that it gives."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch

from parity_tests import OpSpec
from parity_tests.harness.specs.spec import FORMULAS

X = np.ones(3)


def f(x, y):
    return x * y


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        pytest.param({"name": ""}, TypeError, "OpSpec: name must be a non-empty string, got ''", id="empty name"),
        pytest.param({"name": 3}, TypeError, "OpSpec: name must be a non-empty string, got 3", id="number as name"),
        pytest.param({"primal": "f"}, TypeError, "OpSpec op: primal must be a JAX function, got str", id="primal"),
        pytest.param(
            {"primal": None}, TypeError, "OpSpec op: primal must be a JAX function, got NoneType", id="no primal"
        ),
        pytest.param(
            {"signature": None},
            ValueError,
            "OpSpec op: give either a signature, such as '(n,d),(m,d)->(n,m)', or inputs, not neither",
            id="neither",
        ),
        pytest.param(
            {"inputs": (X, X)},
            ValueError,
            "OpSpec op: give either a signature, such as '(n,d),(m,d)->(n,m)', or inputs, not both",
            id="both",
        ),
        pytest.param(
            {"signature": None, "inputs": ()},
            ValueError,
            "OpSpec op: inputs is empty; an operator without inputs has no derivative",
            id="no inputs",
        ),
        pytest.param(
            {"input_names": ("x",)}, ValueError, "OpSpec op: 1 input_names for 2 inputs", id="too few input names"
        ),
        pytest.param(
            {"signature": None, "inputs": (X * 1j, X), "dtypes": ("complex64", "float64")},
            ValueError,
            "OpSpec op: the given inputs are complex, so it cannot be judged in float64; "
            "dtypes are complex128 and complex64",
            id="complex",
        ),
        pytest.param(
            {"signature": None, "inputs": (X, [1.0, 2.0])},
            TypeError,
            "OpSpec op: the input y.0 is float; give arrays of float64, float32, bfloat16, float16, complex128, "
            "complex64 or of integers, and close over anything else: primal=lambda x: f(x, index)",
            id="a list",
        ),
        pytest.param(
            {"given_size": (X, X)},
            ValueError,
            "OpSpec op: given_size is about inputs that are given, and there is a signature instead",
            id="the given size of a signature",
        ),
        pytest.param(
            {"signature": None, "inputs": (X, X), "given_size": (X,)},
            ValueError,
            "OpSpec op: given_size has 1 arrays for 2 inputs; give all of them",
            id="the given size of one input",
        ),
        pytest.param(
            {"signature": None, "inputs": (X, X), "given_size": (X[:1], X)},
            ValueError,
            f"OpSpec op: input 0 has the shape {X.shape}, which is no part of {X[:1].shape}, the shape that given_size "
            "has; inputs must be a part of given_size",
            id="a given size that is smaller",
        ),
    ],
)
def test_a_field_that_cannot_be_used(fields: dict[str, Any], error, text):
    with pytest.raises(error) as refusal:
        OpSpec(**({"name": "op", "primal": f, "signature": "(n),(n)->(n)"} | fields))
    assert str(refusal.value) == text


@pytest.mark.parametrize("role", FORMULAS)
def test_a_formula_must_be_callable(role):
    with pytest.raises(TypeError, match=f"^OpSpec op: {role} must be a JAX function, got str$"):
        OpSpec("op", primal=f, signature="(n),(n)->(n)", **{role: "formula"})


def test_a_malformed_signature_is_refused_at_once():
    with pytest.raises(ValueError, match="is not a gufunc signature"):
        OpSpec("op", primal=f, signature="(n),(n)")


@pytest.mark.parametrize(
    "index", [np.arange(3), torch.ones(3, dtype=torch.int32), X > 0], ids=["int64", "int32", "bool"]
)
def test_integers_are_accepted_and_not_differentiated(index):
    spec = OpSpec("op", primal=f, inputs=(X, index))
    assert [domain.differentiable for domain in spec.drawn_from] == [True, False]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_inputs_of_every_float_dtype(dtype):
    spec = OpSpec("op", primal=f, inputs=(X.astype(dtype), X.astype(dtype)))
    assert spec.parsed is None


@pytest.mark.parametrize(
    ("primal", "names"),
    [
        pytest.param(f, ("x", "y"), id="parameters"),
        pytest.param(lambda a, b, c=1: a * b * c, ("a", "b"), id="a default that is not an input"),
        pytest.param(lambda *xs: xs[0] * xs[1], ("input0", "input1"), id="star"),
        pytest.param(lambda x, *rest: x * rest[0], ("input0", "input1"), id="one name and a star"),
        pytest.param(jnp.multiply, ("input0", "input1"), id="a ufunc"),
        pytest.param(max, ("input0", "input1"), id="a builtin without a signature"),
    ],
)
def test_inputs_go_by_the_parameters_names(primal, names):
    assert OpSpec("op", primal=primal, signature="(n),(n)->(n)").names == names


def test_given_names_take_precedence():
    spec = OpSpec("op", primal=f, signature="(n),(n)->(n)", input_names=("q", "k"), output_names=("out",))
    assert spec.names == ("q", "k")
    assert spec.names_of_outputs(1) == ("out",)


def test_names_of_outputs():
    spec = OpSpec("op", primal=f, signature="(n),(n)->(n)")
    assert spec.names_of_outputs(1) == ("output",)
    assert spec.names_of_outputs(2) == ("output0", "output1")


def test_a_spec_is_a_value_that_cannot_be_changed():
    spec = OpSpec("op", primal=f, signature="(n),(n)->(n)")
    with pytest.raises(AttributeError):
        spec.name = "other"  # type: ignore[misc]
