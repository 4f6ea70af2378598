"""Input and Output: what they say is what the fields of OpSpec say, which are keyed by names."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest
import torch

from parity_tests import Input, OpSpec, Output, assert_parity, crosscheck, integer


def log_of_a_part(x, w, mask, i, bias=None):
    y = jnp.log(x) * jax.lax.stop_gradient(w) * mask + jnp.maximum(w, 1) * i
    return y if bias is None else y + bias


FIELDS = {
    "domains": {"x": "positive", "i": integer(0, 3)},
    "constants": ("mask",),
    "detached": ("bias",),
    "optional": ("bias",),
    "kinks": {"w": (1.0,)},
    "conventions": {"w": "as in the paper", "y": "so, too"},
}
NAMES = ("x", "w", "mask", "i", "bias")
RECORDS = [
    Input("x", "positive"),
    Input("w", kinks=(1.0,), convention="as in the paper"),
    Input("mask", constant=True),
    Input("i", FIELDS["domains"]["i"]),
    Input("bias", detached=True, optional=True),
]
SIGNATURE = "(n),(n),(n),(n),(n)->(n)"


def test_records_are_the_fields() -> None:
    by_fields = OpSpec("f", log_of_a_part, SIGNATURE, input_names=NAMES, output_names=("y",), **FIELDS)
    records = OpSpec("f", log_of_a_part, SIGNATURE, input_names=RECORDS, output_names=[Output("y", "so, too")])
    assert records == by_fields
    assert dataclasses.replace(records, domains={"x": "unit"}).domains == {"x": "unit"}


@pytest.mark.parametrize("part", [part.name for part in dataclasses.fields(Input) if part.name != "name"])
def test_each_part_is_read(part: str) -> None:
    """Without one part the spec is another one."""
    default = next(x.default for x in dataclasses.fields(Input) if x.name == part)
    less = [dataclasses.replace(record, **{part: default}) for record in RECORDS]
    given = {"output_names": ("y",)}
    assert OpSpec("f", log_of_a_part, SIGNATURE, input_names=less, **given) != OpSpec(
        "f", log_of_a_part, SIGNATURE, input_names=RECORDS, **given
    )


@pytest.mark.parametrize(
    ("names", "fields", "error", "text"),
    [
        (
            [Input("x", "positive"), "w"],
            {"domains": {"x": "unit"}},
            ValueError,
            "OpSpec mul: domains and Input('x', ...) both say it of x; say it once",
        ),
        (
            [Input("x", constant=True), "w"],
            {"constants": ["x"]},
            ValueError,
            "OpSpec mul: constants and Input('x', ...) both say it of x; say it once",
        ),
        (
            [Output("x"), "w"],
            {},
            TypeError,
            'OpSpec mul: input_names must be a sequence of names, such as ("x", "y"); Output(name=\'x\', '
            "convention=None) is none",
        ),
        (
            [Input("x", "postive"), "w"],
            {},
            ValueError,
            "OpSpec mul: unknown domain 'postive'; there are real, extended, positive",
        ),
        (
            [Input("x", kinks=(float("inf"),)), "w"],
            {},
            ValueError,
            'OpSpec mul: kinks["x"] must be places of finite numb',
        ),
        ([Input("x"), Input("x")], {}, ValueError, "OpSpec mul: input_names has 'x' twice; the names must differ"),
    ],
)
def test_what_cannot_be_used(names: list, fields: dict, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as raised:
        OpSpec("mul", lambda x, w: x * w, "(n),(n)->(n)", input_names=names, **fields)
    assert str(raised.value).startswith(text)


@pytest.mark.parametrize("record", [Input, Output])
def test_a_name_is_text(record: type) -> None:
    with pytest.raises(
        TypeError, match=f'{record.__name__}: name must be text, such as {record.__name__}\\("x"\\), got 1'
    ):
        record(1)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Input("x", constant="yes"), "Input x: constant must be True or False, got 'yes'"),
        (lambda: Input("x", optional=1), "Input x: optional must be True or False, got 1"),
        (lambda: Output("y", convention=""), "Output y: convention must be the reason, as text, got ''"),
    ],
    ids=["a word", "a number", "no reason"],
)
def test_parts_of_a_wrong_kind_are_told(make: Callable, text: str) -> None:
    with pytest.raises(TypeError) as raised:
        make()
    assert str(raised.value) == text


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"constants": "mask"}, "OpSpec mul: constants must be a sequence of names, got 'mask'"),
        ({"optional": 5}, "OpSpec mul: optional must be a sequence of names, got 5"),
        ({"domains": ["real"]}, "OpSpec mul: domains must be a dictionary, got ['real']"),
    ],
    ids=["a word", "a number", "a list"],
)
def test_fields_of_a_wrong_kind_are_told_beside_a_record(fields: dict, text: str) -> None:
    with pytest.raises(TypeError) as raised:
        OpSpec("mul", lambda x, w: x * w, "(n),(n)->(n)", input_names=[Input("x", "positive"), "w"], **fields)
    assert str(raised.value) == text


@pytest.mark.slow
def test_they_are_judged_by() -> None:
    """Of a constant no gradient is asked, of another input it is: a candidate without it is found."""
    names = [Input("x", "positive"), Input("w", constant=True)]
    spec = OpSpec("log", lambda x, w: jnp.log(x) * w, "(n),(n)->(n)", input_names=names)

    def without_gradient_of_w(x, w):
        return x.log() * w.detach()

    assert_parity(without_gradient_of_w, spec, quick=True)
    moving = dataclasses.replace(spec, constants=())
    report = crosscheck(without_gradient_of_w, moving, checks=["vjp"], dtypes=["float64"])
    assert [row.verdict.name for row in report.rows if row.candidate != "oracle"] == ["MISMATCH"]


def test_they_name_the_inputs_of_a_pytorch_reference() -> None:
    names = [Input("x", "positive"), Input("w", constant=True)]
    spec = OpSpec.from_torch(lambda x, w: torch.log(x) * w, "(n),(n)->(n)", input_names=names)
    assert (spec.names, spec.domains, spec.constants) == (("x", "w"), {"x": "positive"}, ("w",))
