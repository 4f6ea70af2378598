"""Specs that cannot be used: one line that names the field, what it holds and how to write it; exit code 2."""

from __future__ import annotations

import re

import jax.numpy as jnp
import numpy as np
import pytest

from parity_tests import OpSpec
from parity_tests.harness.spec_kinds import MOST_ENTRIES
from parity_tests.suite.faults._run import check

FORM = '; write the axes of each input and output by name, such as "(n,d),(m,d)->(n,m)", with "()" for a scalar'


@pytest.mark.parametrize(
    ("signature", "character", "mistake"),
    [
        ("(n)→(n)", 4, "write \"->\" for '→'"),
        ("(n)=>(n)", 4, "write \"->\" for '=>'"),
        ("(n)-(n)", 4, "write \"->\" for '-'"),
        ("(n)—>(n)", 4, "write \"->\" for '—>'"),
        ("(n)-->(n)", 4, "write \"->\" for '-->'"),
        ("(n)", 4, 'there is no "->" between inputs and outputs'),
        ("(n)->(n)->(n)", 9, 'there is a second "->"'),
        ("->(n)", 1, "there is no input"),
        ("(n)->", 6, "there is no output"),
        ("n->(n)", 1, 'write parentheses around the axes of an argument, "(n)"'),
        ("(n)->n", 6, 'write parentheses around the axes of an argument, "(n)"'),
        ("[n]->[n]", 1, "write \"(\" for '['"),
        ("(n->(n)", 1, "this parenthesis is not closed"),
        ("(n)->(n", 6, "this parenthesis is not closed"),
        ("(n)(d)->(n)", 4, "write a comma between two arguments"),
        ("(n),->(n)", 4, "there is no argument after this comma"),
        ("(n d)->(n)", 2, "write a comma between the axes 'n d'"),
        ("(n,)->(n)", 4, "there is a comma without an axis"),
        ("(...,n)->(n)", 2, "the number of axes must be known: name each of them instead of '...'"),
        ("(n)->(2n)", 7, "'2n' is neither a name nor a number; name the axis, and say how long it is by OpSpec(sizes="),
        ("(n-1)->(n)", 2, "'n-1' is neither a name nor a number; name the axis, and say how long it is by OpSpec("),
        ("(²)->(²)", 2, "'²' is neither a name nor a number"),
        ("(99999999999999)->(n)", 2, "an axis of size 99999999999999 fits no memory"),
    ],
)
def test_the_mistake_in_a_signature_is_pointed_at(signature, character, mistake):
    with pytest.raises(ValueError, match="is not a gufunc signature") as refusal:
        OpSpec("op", primal=jnp.sin, signature=signature)
    start = f"signature {signature!r} is not a gufunc signature, at character {character}: {mistake}"
    assert str(refusal.value).startswith(start)
    assert str(refusal.value).endswith(FORM)


def test_a_long_signature_is_cut():
    text = ",".join(["(n)"] * 300) + "->(2n)"
    with pytest.raises(ValueError, match="is not a gufunc signature, at character 1203: '2n'") as refusal:
        OpSpec("op", primal=jnp.sin, signature=text)
    assert len(str(refusal.value)) < 400
    assert " ... " in str(refusal.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"signature": 3}, 'signature must be text, such as "(n,d)->(n)", got 3'),
        ({"sizes": 3}, 'sizes must be text, such as "n <= m", got 3'),
        ({"domains": "positive"}, 'domains must be a dictionary, such as {"x": "positive"}, got \'positive\''),
        ({"domains": {3: "positive"}}, 'the keys of domains must be names, such as {"x": "positive"}, got 3'),
        ({"params": 3}, 'params must be a dictionary, such as {"eps": 1e-5}, got 3'),
        ({"kinks": {"x": "a"}}, "kinks[\"x\"] must be a sequence of numbers, such as (-1.0, 1.0), got 'a'"),
        ({"kinks": {"x": ("a",)}}, "kinks[\"x\"] must be a sequence of numbers, such as (-1.0, 1.0), got ('a',)"),
        ({"kinks": {"x": 1.0}}, 'kinks["x"] must be a sequence of numbers, such as (-1.0, 1.0), got 1.0'),
        ({"conventions": ["x"]}, 'conventions must be a dictionary, such as {"x": "the reason"}, got [\'x\']'),
        ({"conventions": {"x": 3}}, 'conventions["x"] must be text, got 3'),
        ({"equations": 3}, 'equations must be a dictionary, such as {"x_bar": "equation (3)"}, got 3'),
        ({"constants": "x"}, "constants must be a sequence of names; write constants=('x',)"),
        ({"constants": 3}, 'constants must be a sequence of names, such as ("mask",), got 3'),
        ({"input_names": "x"}, "input_names must be a sequence of names; write input_names=('x',)"),
        ({"input_names": (3,)}, 'input_names must be a sequence of names, such as ("x", "y"); 3 is none'),
        ({"dtypes": 3}, 'dtypes must be a sequence of names, such as ("float64",), got 3'),
        ({"signature": None, "inputs": 3}, "inputs must be a sequence of arrays; write inputs=(x,), got int"),
        (
            {"signature": None, "inputs": np.ones(3)},
            "inputs must be a sequence of arrays; write inputs=(x,), got ndarray",
        ),
    ],
    ids=repr,
)
def test_a_field_of_a_wrong_kind(fields, message):
    with pytest.raises(TypeError, match="^" + re.escape(f"OpSpec op: {message}") + "$"):
        OpSpec(**{"name": "op", "primal": jnp.sin, "signature": "(n)->(n)", **fields})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"signature": "(a,b,c,d,e,f,g,h,i)->()"},
            "its signature has 9 named axes, and at most 8 can be told apart by their sizes; write a number",
        ),
        (
            {"signature": "(9999999999)->()"},
            "input 0 has the shape (9999999999,), which is 74.5 GiB of float64; at most",
        ),
        ({"signature": "(n),(n,m)->()", "sizes": "m = 10**9"}, None),
        (
            {"signature": "(n),(n,m)->()", "sizes": "m = 1000000000"},
            "input 1 has the shape (4, 1000000000), which is 29.8",
        ),
    ],
    ids=["axes", "a size", "no rule", "a rule"],
)
def test_more_than_can_be_judged_is_refused_before_memory_is_asked_for(fields, message):
    with pytest.raises(ValueError, match=re.escape(f"OpSpec op: {message}" if message else "10**9")):
        OpSpec("op", primal=lambda *x: jnp.sum(x[0]), **fields)


def test_an_output_beyond_memory_is_refused_before_it_is_asked_for(tmp_path):
    text = "spec = OpSpec('op', lambda x: jnp.zeros(10**12) + x[0], '(n)->(m)')\ncandidate = torch.sin\n"
    ran = check(tmp_path, text)
    assert ran.code == 2
    told = "op: of inputs of shapes (4,) the primal makes an array of 1,000,000,000,000 entries, which is 7,451 GiB"
    assert told.replace("7,451", "7.45e+03") in ran.printed


def test_as_much_as_can_be_judged_is_accepted():
    assert OpSpec("op", primal=jnp.sum, signature=f"({MOST_ENTRIES})->()").count == 1


@pytest.mark.parametrize(
    "fields",
    ["signature=3", "signature='(n)→(n)'", "signature='(n)->(n)', kinks={'x': 'a'}", "signature='(9999999999)->()'"],
)
def test_on_the_command_line_it_is_one_line_and_exit_code_2(tmp_path, fields):
    ran = check(tmp_path, f"spec = OpSpec('op', jnp.sin, {fields})\ncandidate = torch.sin\n")
    assert ran.code == 2
    (line,) = ran.printed.splitlines()
    assert line.startswith(f"gradparity: {tmp_path}/case.py, line 8: ")
