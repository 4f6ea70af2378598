"""Arithmetic contracts: bounds of float32 inside, of stored intermediates, and what is refused."""

from __future__ import annotations

import pickle
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax.ad_checkpoint import checkpoint_name

import gradparity
from gradparity import (
    Arithmetic,
    ArrayCandidate,
    Candidate,
    JaxCandidate,
    OpSpec,
    OracleError,
    Verdict,
    crosscheck,
)
from parity_tests.catalog.engine_candidate import EngineCandidate
from parity_tests.cli.case_file import CaseError, load_case
from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.isolation.by_name import pickled
from parity_tests.harness.judging.plan import Plan
from parity_tests.harness.language.values import evaluate
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.rounding.analysis import bounded
from parity_tests.harness.rounding.stored import stored

SHORT = [PRECISIONS["bfloat16"], PRECISIONS["float16"]]
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


@pytest.mark.parametrize("p", SHORT, ids=lambda p: p.name)
def test_a_stored_number_is_between_the_roundings_of_both_ends(p):
    x = np.array([1.0, 1.0 + p.u, 1.0 + 1.9 * p.u, 3.0, 0.0, np.inf])
    e = np.array([0.0, 0.0, 0.0, 1e-9, 0.0, 0.0])
    _, bound = stored((x, e), p)
    assert bound[0] == bound[3] == bound[4] == bound[5] == 0.0  # exact in the format, and 3 +- 1e-9 rounds to 3
    assert bound[1] == p.u  # halfway between two numbers
    assert 0 < bound[2] < 0.2 * p.u


@pytest.mark.parametrize("p", SHORT, ids=lambda p: p.name)
def test_what_underflows_may_be_lost(p):
    _, bound = stored((np.array([p.smallest, 0.0]), np.zeros(2)), p)
    assert bound[0] >= p.tiny
    assert bound[1] == 0.0


def test_what_may_overflow_has_no_bound_and_raises_no_warning():
    """As the derivatives of a loop of many steps, of which float32 knows nothing any more."""
    _, bound = stored((np.array([1.0, 1.0]), np.array([1e30, 0.0])), PRECISIONS["float16"])
    assert bound[0] == np.inf
    assert bound[1] == 0.0


def _attn(q, k, v):
    attn = checkpoint_name(jnp.tanh(q @ k.T), "scores")
    return attn @ v, attn


def _vjp(q, k, v, output_bar, attn_bar):
    return jax.vjp(_attn, q, k, v)[1]((output_bar, attn_bar))


def _in_float32(p, keeps=False, takes=False):
    """attn's VJP in float32, results rounded; also attn before it is used again, or the operands of products."""

    def rounded(x, rounds):
        return p.rounded(np.asarray(x, np.float64)).astype(np.float32) if rounds else x

    def product(a, b):
        return rounded(a, takes) @ rounded(b, takes)

    def backward(*args):
        q, k, v, output_bar, attn_bar = (np.asarray(x, np.float32) for x in args)
        attn = rounded(np.tanh(q @ k.T), keeps)
        P = (1 - attn * attn) * (attn_bar + output_bar @ v.T)
        return [
            rounded(x, True).astype(np.float64) for x in (product(P, k), product(P.T, q), product(attn.T, output_bar))
        ]

    return backward


def _is_within(results, bounds):
    return all((np.abs(y - x) <= e).all() for y, (x, e) in zip(results, bounds, strict=True))


@pytest.mark.parametrize("p", SHORT, ids=lambda p: p.name)
def test_each_contract_bounds_its_own_arithmetic_and_is_tighter_than_the_next(p):
    rng = np.random.default_rng(0)
    args = [p.rounded(rng.standard_normal(shape)) for shape in [(40, 16), (40, 16), (40, 16), (40, 16), (40, 40)]]
    kept = Arithmetic("float32", stored=("scores",))
    contracts = Arithmetic("float32"), kept, replace(kept, operands=True), Arithmetic("format")
    with pinned():
        closed = jax.make_jaxpr(_vjp)(*args)
        values = {"attn": evaluate(jax.make_jaxpr(_attn)(*args[:3]), *args[:3])[1]}
        found = [bounded(closed, *args, precision=p.under(contract), values=values) for contract in contracts]
        by_value = bounded(closed, *args, precision=p.under(Arithmetic("float32", ("attn",))), values=values)
    for bounds, rounds in zip(found, ({}, {"keeps": True}, {"takes": True}), strict=False):
        results = _in_float32(p, **rounds)(*args)
        assert _is_within(results, bounds)
        assert _is_within(results, found[0]) is not bool(rounds)
    for bounds in zip(*found, strict=True):
        sums = [e.sum() for _, e in bounds]
        assert sums == sorted(sums)
        assert len({*sums}) == len(sums)
    for (_, a), (_, b) in zip(found[1], by_value, strict=True):
        np.testing.assert_array_equal(a, b)


class _Slight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.float().tanh().to(x.dtype)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        y = x.float().tanh()
        return (g.float() * (1 - y * y) * 1.01).to(g.dtype)


def _rounded_once(x):
    return x.float().tanh().to(x.dtype)


SPEC = OpSpec("tanh", jnp.tanh, "(n)->(n)", dtypes=["bfloat16"])
INSIDE = Arithmetic("float32")
CANDIDATES = {"right": _rounded_once, "slight": _Slight.apply}
HELD = {"right": Candidate(_rounded_once, arithmetic=INSIDE), "slight": Candidate(_Slight.apply, arithmetic=INSIDE)}


def _deprecated(arithmetic):
    """A specification by the alias, which warns of this line."""
    with pytest.warns(DeprecationWarning, match=r"OpSpec tanh: .* give crosscheck\(\.\.\., arithmetic=") as warned:
        spec = OpSpec("tanh", jnp.tanh, "(n)->(n)", dtypes=["bfloat16"], arithmetic=arithmetic)
    assert [warning.filename for warning in warned] == [__file__]
    return spec


def _verdicts(candidates, spec=SPEC, **options):
    report = crosscheck(candidates, spec, checks=["forward", "vjp"], progress=False, **options)
    return {(row.candidate, row.check): row.verdict for row in report.rows if row.candidate in CANDIDATES}


CONVICTED = {
    ("right", "forward"): Verdict.PASS,
    ("right", "vjp"): Verdict.PASS,
    ("slight", "forward"): Verdict.PASS,
    ("slight", "vjp"): Verdict.MISMATCH,
}
LENIENT = dict.fromkeys(CONVICTED, Verdict.PASS)


@pytest.mark.slow
def test_a_stated_contract_convicts():
    assert _verdicts(CANDIDATES) == LENIENT
    assert _verdicts(CANDIDATES, arithmetic=INSIDE) == CONVICTED
    assert _verdicts(HELD) == CONVICTED
    assert _verdicts(CANDIDATES | {"right": HELD["right"]}) == LENIENT


@pytest.mark.slow
def test_what_a_candidate_states_counts_before_what_is_stated_of_all():
    own = {"slight": Candidate(_Slight.apply, arithmetic=Arithmetic("format")), "right": _rounded_once}
    assert _verdicts(own, arithmetic=INSIDE) == LENIENT


@pytest.mark.slow
def test_the_alias_of_a_specification_warns_and_judges_alike():
    assert _verdicts(CANDIDATES, _deprecated(INSIDE)) == CONVICTED
    assert _verdicts(CANDIDATES, _deprecated({"right": INSIDE})) == LENIENT
    assert _verdicts(CANDIDATES, _deprecated({"slight": INSIDE})) == CONVICTED


def test_the_alias_becomes_the_arithmetic_of_each_candidate_in_a_plan():
    """A candidate that the alias does not name may round every operation, as before."""
    spec = _deprecated({"right": INSIDE})
    candidates = [Candidate(call, name) for name, call in CANDIDATES.items()]
    candidates += [HELD["slight"].named("own", None), NotBuilt("absent", "why")]
    plan = Plan(spec, candidates, [], [], "cpu", 0, lambda row: "")
    stated = [candidate.arithmetic for candidate in plan.present]
    assert stated == [INSIDE, Arithmetic("format"), INSIDE]
    assert [candidate.name for candidate in plan.candidates] == ["right", "slight", "own", "absent"]
    assert replace(plan, seed=1).candidates == plan.candidates


def test_the_alias_warns_where_a_specification_is_made_and_not_of_its_copies():
    spec = _deprecated(INSIDE)
    assert replace(spec, name="copy").arithmetic == pickle.loads(pickled(spec, []))[0].arithmetic == INSIDE
    with pytest.warns(DeprecationWarning, match="OpSpec tanh: arithmetic is deprecated here") as warned:
        OpSpec.from_torch(torch.tanh, "(n)->(n)", arithmetic=INSIDE)
    assert [warning.filename for warning in warned] == [__file__]


def _jax(x):
    return jnp.tanh(x)


@pytest.mark.parametrize(
    "candidate",
    [
        Candidate(torch.tanh, arithmetic=INSIDE),
        JaxCandidate(_jax, arithmetic=INSIDE),
        ArrayCandidate(np.tanh, arithmetic=INSIDE),
        EngineCandidate(_jax, "engine", arithmetic=INSIDE),
    ],
    ids=lambda candidate: type(candidate).__name__,
)
def test_every_candidate_keeps_its_arithmetic(candidate):
    other = Arithmetic("format")
    assert candidate.bound({}, {}).arithmetic == candidate.named("other", None).arithmetic == INSIDE
    assert candidate.with_constants({}).arithmetic == INSIDE
    assert candidate.named("other", None, other).arithmetic == other
    (sent,) = pickle.loads(pickled(SPEC, [candidate]))[1]
    assert sent.arithmetic == INSIDE


@pytest.mark.parametrize(("kind", "library"), [("MLXCandidate", "mlx.core"), ("WarpCandidate", "warp")])
def test_every_candidate_of_an_extra_keeps_its_arithmetic(kind, library):
    pytest.importorskip(library)
    candidate = getattr(gradparity, kind)(_jax, arithmetic=INSIDE)
    assert candidate.bound({}, {}).arithmetic == candidate.named("other", None).arithmetic == INSIDE
    with pytest.raises(TypeError, match=f"{kind} mine: arithmetic must be an Arithmetic"):
        getattr(gradparity, kind)(_jax, "mine", arithmetic="float32")


def test_a_case_file_states_an_arithmetic(tmp_path):
    path = tmp_path / "case.py"
    text = "import torch, jax.numpy as jnp\nfrom gradparity import Arithmetic, Candidate, OpSpec\n"
    text += 'spec = OpSpec("tanh", jnp.tanh, "(n)->(n)")\n'
    text += 'candidates = {"plain": torch.tanh, "own": Candidate(torch.tanh, arithmetic=Arithmetic("format"))}\n'
    path.write_text(text + 'arithmetic = Arithmetic("float32")\n')
    _, candidates = load_case(path)
    assert [candidate.arithmetic for candidate in candidates] == [INSIDE, Arithmetic("format")]
    path.write_text(text + 'arithmetic = "float32"\n')
    with pytest.raises(CaseError, match=r"case.py: every candidate: arithmetic must be an Arithmetic, such as Arith"):
        load_case(path)


def test_a_contract_that_cannot_be_used():
    with pytest.raises(ValueError, match='inside must be "float32" or "format", got 32'):
        Arithmetic(32)
    with pytest.raises(TypeError, match="stored must be a sequence of names"):
        Arithmetic(stored="attn")
    with pytest.raises(ValueError, match="omit stored"):
        Arithmetic("format", stored=("attn",))
    with pytest.raises(ValueError, match="omit operands"):
        Arithmetic("format", operands=True)


@pytest.mark.parametrize("kind", [Candidate, JaxCandidate, ArrayCandidate])
def test_what_is_no_contract_is_refused_by_the_candidate(kind):
    message = (
        rf'^{kind.__name__} mine: arithmetic must be an Arithmetic, such as Arithmetic\("float32"\), got \'float32\'$'
    )
    with pytest.raises(TypeError, match=message):
        kind(_jax, name="mine", arithmetic="float32")


def test_what_is_no_contract_of_all_candidates_is_refused():
    with pytest.raises(TypeError, match=r"every candidate: arithmetic must be an Arithmetic, such as"):
        crosscheck(torch.tanh, SPEC, arithmetic="float32", progress=False)
    with pytest.raises(TypeError, match=r"must be one Arithmetic, of every candidate; give each its own: "):
        crosscheck(CANDIDATES, SPEC, arithmetic={"right": INSIDE}, progress=False)


def test_a_contract_that_stores_what_nothing_is_named():
    stored = Arithmetic(stored=("attn",))
    candidates = {"right": torch.tanh, "mine": Candidate(torch.tanh, arithmetic=stored)}
    message = r"^candidate 'mine': arithmetic names 'attn' as stored; the outputs and named .* of tanh are output \("
    with pytest.raises(OracleError, match=message):
        crosscheck(candidates, SPEC, progress=False)


def test_an_alias_that_cannot_be_used():
    with pytest.raises(TypeError, match=r"OpSpec tanh: arithmetic must be an Arithmetic, .* the candidate's: give"):
        OpSpec("tanh", jnp.tanh, "(n)->(n)", arithmetic="float32")
    with pytest.raises(ValueError, match="arithmetic names the candidate 'other'; the candidates are mine"):
        crosscheck({"mine": torch.tanh}, _deprecated({"other": Arithmetic()}), progress=False)
