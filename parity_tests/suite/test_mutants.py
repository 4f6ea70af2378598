"""Every planted mistake is caught by the check that is meant for it, by name; and right implementations by none."""

from __future__ import annotations

import pytest

from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.checks import CHECKS
from parity_tests.harness.findings import Verdict
from parity_tests.suite.conftest import run_attn
from parity_tests.suite.marks import marks
from parity_tests.suite.mutants import MUTANTS as ONE_CALL_MUTANTS
from parity_tests.suite.protocol_mutants import PROTOCOL_MUTANTS
from parity_tests.suite.shape_mutants import SHAPE_MUTANTS
from parity_tests.suite.transform_mutants import TRANSFORM_MUTANTS

KINDS = (ONE_CALL_MUTANTS, PROTOCOL_MUTANTS, SHAPE_MUTANTS, TRANSFORM_MUTANTS)
MUTANTS = {name: mutant for kind in KINDS for name, mutant in kind.items()}


SLOW = ("detached_at_third_order",)  # it differentiates what is differentiated twice, and compiles it


@pytest.mark.parametrize("name", marks({*MUTANTS} - {*SLOW}, MUTANTS))
def test_mutant_is_caught(name: str) -> None:
    mutant = MUTANTS[name]
    report = run_attn([Candidate(mutant.call, name)], [mutant.caught_by, *mutant.passes], [mutant.dtype])
    verdicts = {row.check: row.verdict for row in report.rows if row.candidate == name}
    assert verdicts.pop(mutant.caught_by) is Verdict.MISMATCH, str(report)
    assert set(verdicts.values()) <= {Verdict.PASS}, str(report)
    assert report.exit_code == 1


def test_every_mutant_has_a_name_of_its_own() -> None:
    assert len(MUTANTS) == sum(map(len, KINDS))


def test_every_check_has_a_mutant() -> None:
    assert {mutant.caught_by for mutant in MUTANTS.values()} == set(CHECKS)


def test_the_low_precision_mutant_is_right_in_float64() -> None:
    report = run_attn([Candidate(MUTANTS["narrow_accumulator"].call, "narrow")], ["vjp"], ["float64"])
    assert report.passed, str(report)


@pytest.mark.parametrize(
    ("name", "check", "text"),
    [
        ("attn_bar_dropped", "vjp", "ignores the cotangent of attn"),
        ("halved", "vjp", "k_bar = 0.5 * oracle"),
        ("sign_flipped", "vjp", "k_bar = -oracle (the sign)"),
        ("tail_rows_left_out", "vjp", "all in rows 32"),
        ("pair_of_queries", "vjp", "two_n (n=2, d=3, m=5, e=4)"),
        ("whole_blocks", "vjp", "blocks_m (n=4, d=3, m=128, e=2)"),
        ("tangents_taken_for_contiguous", "layouts", "inputs and tangents transposed"),
        ("gaps_between_rows", "layouts", "cotangents with gaps between rows"),
        ("cotangent_written", "purity", "attn_bar  (after the backward)  was written to"),
        ("saved_intermediate", "vjp_of_vjp", "the oracle is right"),
        ("saved_intermediate", "vjp_of_vjp", "SavedIntermediate  keeps a tensor of shape (4, 5) that is neither"),
        ("clipped", "linearity", "the cotangents times -2^10, against the gradient times -2^10"),
        ("stack_on_the_class", "interleaved", "first in, first out, backward of call 1"),
        ("saved_tensors_read_twice", "checkpoint", "refused by PyTorch: torch.utils.checkpoint: Unpack is being"),
        ("saved_past_the_version_counter", "in_place", "q edited in place before the backward"),
        ("shared_workspace", "determinism", "from several threads"),
        ("output_kept_on_ctx", "leaks", "live tensors  grows by"),
        ("transposed_without_values", "fake", "with values it is torch.float64 of shape (4, 5) where its inputs are"),
        (
            "half_under_autocast",
            "autocast",
            "is torch.float16, neither the inputs' float32 nor the bfloat16 of autocast",
        ),
        ("traced_path", "make_fx", "(traced at other inputs)"),
        ("in_one_piece", "opcheck", "test_schema  fails: RuntimeError: Outputs 0 and 1 alias unexpectedly"),
        ("second_order_mixes_examples", "functorch", "(vmap of vjp of vjp, per sample, example 0)"),
        ("wrong_power", "vjp", "equation (10) in derivation/attn.md"),
    ],
)
def test_the_message_says_what_is_wrong(name: str, check: str, text: str) -> None:
    assert text in str(run_attn([Candidate(MUTANTS[name].call, name)], [check], ["float64"]))
