"""Attention for models: every implementation agrees with the oracle, and every planted mistake is caught by name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence

import jax
import jax.numpy as jnp
import pytest

from jax_ref import _blockwise, dot_product_attention
from parity_tests.catalog import model
from parity_tests.catalog.model import BLOCK, IN_JAX, SPECS, as_unbatched
from parity_tests.harness.candidates.jax_candidate import JaxCandidate
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.crosscheck import select_checks, select_precisions
from parity_tests.harness.findings import Verdict
from parity_tests.harness.judging.certified import Oracles
from parity_tests.harness.judging.judge import Plan, judge
from parity_tests.harness.report.report import Report
from parity_tests.harness.report.results import ORACLE
from parity_tests.harness.specs.samples import Sample, samples
from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators import model as planted
from parity_tests.operators.catalogue import operators_of
from parity_tests.suite.marks import fast, marks
from parity_tests.suite.rotation import rotating

FIRST_ORDER = ("forward", "vjp", "jvp")
SECOND_ORDER = ("vjp_of_vjp", "jvp_of_vjp", "vjp_of_jvp", "jvp_of_jvp")
FEW = ("all_axes_differ", "zero_m", "zero_s", "broadcast_n_of_bias", "broadcast_m_of_bias", "broadcast_t_of_bias")


SOME = ("all_axes_differ", "broadcast_t_of_bias")  # JAX compiles every map at every one of them


def _these(names: tuple[str, ...]) -> Callable[[OpSpec, int], Iterable[Sample]]:
    return lambda spec, seed: [sample for sample in samples(spec, seed) if sample.name in names]


_oracles = functools.cache(lambda op, names: Oracles(SPECS[op], "cpu", 0, _these(names)))  # certified once


def judged(
    op: str,
    candidates: Sequence[Candidate | JaxCandidate],
    checks: Sequence[str],
    dtypes: Sequence[str],
    names: tuple[str, ...] = FEW,
) -> Report:
    """The rows of the candidates, at the samples of these names."""
    spec, which, oracles = SPECS[op], _these(names), _oracles(op, names)
    chosen, precisions = select_checks(checks), select_precisions(dtypes, spec)
    plan = Plan(spec, candidates, chosen, precisions, "cpu", 0, lambda row: "", samples=which, oracles=oracles)
    report = Report({})
    for _ in report.collect(judge(plan)):
        pass
    return report


@pytest.mark.parametrize("op", marks([], SPECS))
def test_the_composite_agrees(op: str) -> None:
    report = judged(op, [model.candidate(op, "attention_composite")], FIRST_ORDER, ["float64"])
    assert report.passed, str(report)


@rotating(4)
@pytest.mark.parametrize("name", marks([], IN_JAX))
def test_the_jax_faces_agree(name: str) -> None:
    checks = ("forward", "vjp", "jvp") if name.endswith("ad") else ("forward", "vjp")
    report = judged("attention_unbatched", [model.candidate("attention_unbatched", name)], checks, ["float64"])
    assert report.passed, str(report)


# Which JAX refuses on a custom_vjp.
FORWARD_FIRST = {"jvp", "vjp_of_jvp", "jvp_of_jvp"}
ALARMS = (Verdict.MISMATCH, Verdict.SUSPECT, Verdict.ERROR)


@pytest.mark.parametrize(
    "op", [pytest.param(op, marks=pytest.mark.slow if op == "attention_head" else pytest.mark.soak) for op in SPECS]
)
def test_every_implementation_agrees(op: str) -> None:
    """Of the JAX faces under vmap, and of their second order, see `jax_ref/test_dot_product_attention.py`, too."""
    composite, *faces = [model.candidate(op, name) for name in model.names(op)]
    of_torch = [*FIRST_ORDER, *SECOND_ORDER, "vjp_partial", "input_subsets", "vmap"]
    report = judged(op, [composite], of_torch, ["float64", "bfloat16"], SOME)
    assert not [row for row in report.rows if row.verdict in (*ALARMS, Verdict.UNSUPPORTED)], str(report)
    report = judged(op, faces, [*FIRST_ORDER, *SECOND_ORDER], ["float64"], SOME)
    assert not [row for row in report.rows if row.verdict in ALARMS], str(report)
    refused = {row.check for row in report.rows if row.verdict is Verdict.UNSUPPORTED}
    assert refused <= FORWARD_FIRST, str(report)


@pytest.mark.slow
def test_the_oracle_certifies_its_formulas() -> None:
    report = judged("attention_head", [], [*FIRST_ORDER, *SECOND_ORDER], ["float64"])
    certificates = {row.check: row.verdict for row in report.rows if row.candidate == ORACLE}
    assert set(certificates) == {"vjp", "jvp", *SECOND_ORDER}
    assert set(certificates.values()) == {Verdict.PASS}


MISTAKES = [
    pytest.param(op, mistake, id=f"{op}-{name}")
    for op, case in operators_of(planted).items()
    for name, mistake in case.mistakes.items()
]


@fast("attention_causal-scaled_by_all_heads")
@pytest.mark.parametrize(("op", "mistake"), MISTAKES)
def test_a_mistake_is_caught(op: str, mistake) -> None:
    report = judged(op, [Candidate(mistake.call, "wrong")], [mistake.caught_by, *mistake.passes], ["float64"])
    verdicts = {row.check: row.verdict for row in report.rows if row.candidate == "wrong"}
    assert verdicts.pop(mistake.caught_by) is Verdict.MISMATCH, str(report)
    assert set(verdicts.values()) <= {Verdict.PASS}, str(report)


# Mistakes in the blocks.


def _last_block_left_out(f: Callable, carry, count: int, size: int):
    """Whole blocks only; what has no block is zero."""
    whole = count // size * size
    if whole == count or not whole:
        return _fold(f, carry, count, size)
    carry, ys = _fold(f, carry, whole, size)
    return carry, jax.tree.map(lambda y: jnp.pad(y, [(0, count - whole)] + [(0, 0)] * (y.ndim - 1)), ys)


def _carry_of_the_last_block(f: Callable, carry, count: int, size: int):
    """The sums begin anew in each block."""
    return _fold(lambda _, block: f(carry, block), carry, count, size)


def _mask_of_the_first_block(self, static, rows, columns):
    *others, _ = _part(self, static, rows, columns)
    return *others, _part(self, static, rows._replace(start=0), columns._replace(start=0))[-1]


_fold, _part = _blockwise._fold, _blockwise.Head.part
BLOCK_MISTAKES = {
    "last_block_left_out": (_blockwise, "_fold", _last_block_left_out, "forward"),
    "sums_begin_anew": (_blockwise, "_fold", _carry_of_the_last_block, "vjp"),
    "mask_of_the_first_block": (_blockwise.Head, "part", _mask_of_the_first_block, "forward"),
}


@fast("last_block_left_out")
@pytest.mark.parametrize("name", marks(["last_block_left_out", "mask_of_the_first_block"], BLOCK_MISTAKES))
def test_a_mistake_in_the_blocks_is_caught(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    where, attribute, wrong, caught_by = BLOCK_MISTAKES[name]
    monkeypatch.setattr(where, attribute, wrong)
    blockwise = functools.partial(dot_product_attention, implementation="blockwise", block_size=BLOCK)
    candidate = JaxCandidate(as_unbatched(blockwise), name)
    report = judged("attention_unbatched", [candidate], [caught_by], ["float64"])
    (row,) = (row for row in report.rows if row.candidate == name)
    assert row.verdict is Verdict.MISMATCH, str(report)
