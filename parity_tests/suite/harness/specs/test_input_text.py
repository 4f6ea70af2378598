"""Inputs in one line of text."""

from __future__ import annotations

import numpy as np
import pytest

from parity_tests.harness.specs.domains import Domain
from parity_tests.harness.specs.input_text import Inputs


def test_names_axes_and_domains() -> None:
    inputs = Inputs.parse(
        "x: (n, d),w:(d) positive, t: (n) integer(-1, c), mask: (n,3) boolean, bias: (), y.z: (...,d)"
    )
    assert inputs.names == ("x", "w", "t", "mask", "bias", "y.z")
    assert inputs.signature.replace(" ", "") == "(n,d),(d),(n),(n,3),(),(...,d)"
    assert inputs.domains["w"] == "positive"
    assert inputs.domains["mask"] == "boolean"
    integers = inputs.domains["t"]
    assert isinstance(integers, Domain)
    assert {*integers.draw(np.random.default_rng(0), (200,), {"c": 2}).tolist()} == {-1, 0, 1}
    assert {*inputs.domains} == {"w", "t", "mask"}
    assert [*inputs.constants] == []


def test_constants() -> None:
    inputs = Inputs.parse(
        "x: (n), t: (n) constant, p: (n) probabilities constant, q: (n) constant positive, i: (n) integer(0,c) constant"
    )
    assert inputs.names == ("x", "t", "p", "q", "i")
    assert [*inputs.constants] == ["t", "p", "q", "i"]
    assert {name: domain for name, domain in inputs.domains.items() if name != "i"} == {
        "p": "probabilities",
        "q": "positive",
    }


def test_parameters_come_after() -> None:
    inputs = Inputs.parse("x: (n,3), weight: (5,3)").followed_by({"weight": (5, 3), "bias": (5,), "scale": ()})
    assert dict(inputs.axes) == {"x": "(n,3)", "weight": "(5,3)", "bias": "(5)", "scale": "()"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"cannot be read from '' on: write the name"),
        ("(n,d)", r"cannot be read from '\(n,d\)' on"),
        ("x: (n), w (d)", r"cannot be read from 'w \(d\)' on"),
        ("x: (n,d", r"cannot be read from"),
        ("x: (n,d), w: (d,) constant", r'leave out the last comma: "w: \(d\)"'),
        ("x: (n, d ,)", r'leave out the last comma: "x: \(n, d\)"'),
        ("x: (n), x: (d)", r"has 'x' twice"),
        ("x: (n) posittive", r"'posittive' is no domain; there are integer\(low,high\), boolean, real"),
        ("x: (n) constants", r"'constants' is no domain; .*; constant, beside one or by itself, says that an input is"),
        ("x: (n) constant constant", r"'constant' is no domain"),
    ],
)
def test_what_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Inputs.parse(text)
