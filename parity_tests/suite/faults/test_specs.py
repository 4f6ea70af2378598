"""Specs that cannot be used: one line that names the field, what it holds and how to write it; exit code 2."""

from __future__ import annotations

import re

import jax.numpy as jnp
import pytest

from parity_tests import OpSpec
from parity_tests.harness.specs.spec_kinds import MOST_ENTRIES
from parity_tests.suite.faults._run import check


def test_a_long_signature_is_cut():
    text = ",".join(["(n)"] * 300) + "->(2n)"
    with pytest.raises(ValueError, match="is not a gufunc signature, at character 1203: '2n'") as refusal:
        OpSpec("op", primal=jnp.sin, signature=text)
    assert len(str(refusal.value)) < 400
    assert " ... " in str(refusal.value)


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
