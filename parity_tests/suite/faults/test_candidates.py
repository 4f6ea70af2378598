"""Candidates and limits: none is lost because it has another's name; what is none is refused with the remedy."""

from __future__ import annotations

import functools

import jax.numpy as jnp
import pytest
import torch

from parity_tests import OpSpec, crosscheck
from parity_tests.harness.report import ORACLE
from parity_tests.suite.faults._run import SINE, check

SPEC = OpSpec("sine", primal=jnp.sin, signature="(n)->(n)")


class Scaled(torch.nn.Module):
    """k sin(x)."""

    def __init__(self, k: float) -> None:
        super().__init__()
        self.k = k

    def forward(self, x):
        """The operator."""
        return self.k * torch.sin(x)


def scaled(x, k):
    """The same."""
    return k * torch.sin(x)


def _lambdas(k):
    return [lambda x: k * torch.sin(x), lambda x: torch.sin(x)]


OF_ONE_NAME = [
    pytest.param("lambda", _lambdas(2.0), id="lambdas"),
    pytest.param("Scaled", [Scaled(2.0), Scaled(1.0)], id="modules"),
    pytest.param("partial", [functools.partial(scaled, k=2.0), functools.partial(scaled, k=1.0)], id="partials"),
]
IN_A_FILE = [
    ("lambda", "candidates = [lambda x: torch.cos(x), lambda x: torch.sin(x)]"),
    (
        "Scaled",
        "class Scaled(torch.nn.Module):\n"
        "    def __init__(self, k):\n        super().__init__()\n        self.k = k\n"
        "    def forward(self, x):\n        return self.k * torch.sin(x)\n"
        "candidates = (Scaled(2.0), Scaled(1.0))",
    ),
    (
        "partial",
        "def scaled(x, k):\n    return k * torch.sin(x)\n"
        "candidates = [functools.partial(scaled, k=2.0), functools.partial(scaled, k=1.0)]",
    ),
]


@pytest.mark.parametrize(("name", "candidates"), OF_ONE_NAME)
@pytest.mark.parametrize("kind", [list, tuple])
def test_candidates_of_one_name_are_numbered(name, candidates, kind):
    report = crosscheck(kind(candidates), SPEC, checks=["forward"], dtypes=["float64"])
    found = {row.candidate: str(row.verdict) for row in report.rows if row.candidate != ORACLE}
    assert found == {name: "MISMATCH", f"{name}#2": "PASS"}
    assert report.exit_code == 1


@pytest.mark.parametrize(("name", "text"), IN_A_FILE, ids=[name for name, _ in IN_A_FILE])
def test_in_a_case_file_too(tmp_path, name, text):
    ran = check(tmp_path, SINE + text, only="forward")
    assert ran.code == 1
    assert ran.verdicts == {(name, "forward"): "MISMATCH", (f"{name}#2", "forward"): "PASS"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'candidates = {1: torch.sin, "1": torch.cos}',
            'the keys of candidates must be their names, such as {"mine": f}, got 1',
        ),
        ('candidates = {"": torch.sin}', "the keys of candidates must be their names, such as {\"mine\": f}, got ''"),
        ("candidates = {}", "no candidate is given, so nothing would be judged"),
        ("candidates = []", "no candidate is given, so nothing would be judged"),
        ("candidates = 3", "`candidates` must be a list, or a dictionary with names, got 3"),
        ('candidates = {"oracle": torch.sin}', "candidate 'oracle': the rows of the oracle itself have this name"),
        ("candidate = 3", "candidate 'int' must be callable on tensors, got int"),
        ("candidates = [torch.sin, 3]", "candidate 'int' must be callable on tensors, got int"),
        (
            "class Sine(torch.autograd.Function): pass\ncandidate = Sine",
            "candidate 'Sine' is the autograd.Function itself; give its apply: Sine.apply",
        ),
        ("candidate = jnp.sin", "candidate 'sin' is a function of JAX arrays; wrap it: JaxCandidate(sin)"),
        (
            'candidate = torch.sin\nlimits = ["jvp"]',
            'limits must be a dictionary of checks with the reasons, {"jvp": "why"}, got [\'jvp\']',
        ),
        (
            'candidate = torch.sin\nlimits = "jvp"',
            'limits must be a dictionary of checks with the reasons, {"jvp": "why"}, got \'jvp\'',
        ),
        ('candidate = torch.sin\nlimits = {"jvp": 3}', 'limits["jvp"] must be the reason, as text, got 3'),
        ('candidate = torch.sin\nlimits = {"vpj": "why"}', "unknown check 'vpj' (did you mean 'vjp'?)"),
    ],
    ids=lambda x: x if "=" in x else "",
)
def test_what_is_no_candidate_is_refused_in_one_line(tmp_path, text, message):
    ran = check(tmp_path, SINE + text)
    assert ran.code == 2
    (line,) = ran.printed.splitlines()
    assert line.startswith(f"gradparity: {tmp_path}/case.py: {message}")


@pytest.mark.parametrize(
    ("candidate", "limits", "message"),
    [
        ({1: torch.sin}, None, 'the keys of candidates must be their names, such as {"mine": f}, got 1'),
        (torch.sin, ["jvp"], 'limits must be a dictionary of checks with the reasons, {"jvp": "why"}, got ["jvp"]'),
        (torch.sin, {"jvp": None}, 'limits["jvp"] must be the reason, as text, got None'),
    ],
)
def test_crosscheck_refuses_it_too(candidate, limits, message):
    with pytest.raises(TypeError) as refusal:
        crosscheck(candidate, SPEC, limits=limits)
    assert str(refusal.value).replace("'", '"') == message


def test_no_limit_is_said_to_be_listed_where_none_is(tmp_path):
    """What the author of a Function has not written is declared by that."""
    text = (
        "class Sine(torch.autograd.Function):\n"
        "    @staticmethod\n    def forward(x):\n        return torch.sin(x)\n"
        "    @staticmethod\n    def setup_context(ctx, inputs, output):\n        ctx.save_for_backward(*inputs)\n"
        "    @staticmethod\n    def backward(ctx, w):\n        return w * torch.cos(*ctx.saved_tensors)\n"
        "candidate = Sine.apply"
    )
    ran = check(tmp_path, SINE + text, only="forward,jvp")
    assert ran.code == 0
    assert ran.printed.splitlines()[-1].endswith("comparisons, 1 declared limits")
