"""No mistake of the collection is proved whose formula is another at the sample; and right versions are proved."""

from __future__ import annotations

import pytest

from parity_tests.harness.findings import Verdict
from parity_tests.operators.catalogue import COLLECTION as CASES
from parity_tests.operators.operator import Operator
from parity_tests.suite.mistakes import judged, verdicts
from parity_tests.suite.rotation import rotating

# Mistakes whose formula is the oracle's at the sample, which the check proves, and why other checks are needed.
ROUNDED = {  # it is computed in other steps, or in fewer digits
    "bump: divided_by_an_exponential", "cumsum: 16_bit_accumulator", "log1mexp: cancelling_backward", "log1mexp: plain",
    "log1mexp: plain_in_low_precision", "logsumexp: overflows", "mean: 16_bit_accumulator",
    "quotient: squared_in_bfloat16", "quotient: squared_in_float16", "quotient: squared_in_float32",
    "softplus_wide: overflows",
}  # fmt: skip
ELSEWHERE = {  # it is wrong at other numbers, sizes or absent inputs
    "attention_head: bias_bar_averaged", "attention_head: bias_bar_of_one_row", "binarize: mask_without_its_ends",
    "bump: nan_from_the_other_branch", "clip_by_norm: the_factor_is_detached",
    "focal: kinks_that_cancel_in_the_value_only",
    "gated_scores: k_bar_never_assigned_without_gate", "gated_scores: twice_without_gate",
    "largest_of_twelve: all_of_the_largest",
    "mean_logit: a_mask_is_multiplied_by_zero", "normalize_held: projected_below_the_eps",
    "scaled_rows: nan_for_no_rows", "sine: large_cotangents_clipped", "softplus_wide: nan_at_minus_infinity",
    "softplus: threshold_too_low", "softplus_twice: curvature_lost_at_zero",
}  # fmt: skip
PROTOCOL = {  # it is right when it is called as a trace calls it
    "attention: undefined_cotangent_dereferenced", "einsum: first_of_the_batch_under_vmap", "linear: cotangent_viewed",
    "linear: input_viewed", "linear: mask_of_another_input", "mish: pointer_to_the_cotangent",
    "scaled_rows: raises_without_a_cotangent", "scatter_add: target_written", "silu: contiguous_buffer",
    "silu: vmap_along_the_first_axis",
    "sine: output_on_ctx", "sine: saved_past_the_version_counter", "sine: saved_tensors_read_twice",
}  # fmt: skip
THE_SAME = ROUNDED | ELSEWHERE | PROTOCOL


def verdict(call: object, case: Operator) -> Verdict:
    return verdicts(judged(call, case.spec, ["proof"], ["float64"]))["proof"]  # type: ignore[arg-type]


@pytest.mark.slow
@rotating(5, by="case")
@pytest.mark.parametrize(
    ("case", "name"),
    [
        pytest.param(case, f"{op}: {name}", id=f"{op}-{name}")
        for op, case in CASES.items()
        for name in case.mistakes
        if name not in case.faults  # for these see benchmarks/test_proof_faults.py
    ],
)
def test_a_mistake_is_proved_only_where_its_formula_is_right(case: Operator, name: str) -> None:
    found = verdict(case.mistakes[name.partition(": ")[2]].call, case)
    assert (found is Verdict.PROVED) == (name in THE_SAME)
    assert found not in (Verdict.PASS, Verdict.ERROR)


# Right versions whose operations are not modelled; of one a constant may be rounded.
NOT_TOLD = frozenset(
    {
        "batch_norm",
        "eigenvalues",
        "expm",
        "focal",
        "gated_unit",
        "matrix_root",
        "max_pool",
        "nuclear_norm",
        "power_spectrum",
        "relative_entropy",
        "rfft",
        "router",
        "solve",
        "top_k_places",
        "weighted_signal",
    }
)


@pytest.mark.slow
@rotating(5)
@pytest.mark.parametrize("op", CASES)
def test_right_versions_are_proved(op: str) -> None:
    assert verdict(CASES[op].right, CASES[op]) is (Verdict.SKIPPED if op in NOT_TOLD else Verdict.PROVED)


def test_the_lists_name_mistakes() -> None:
    assert {f"{op}: {name}" for op, case in CASES.items() for name in case.mistakes} >= THE_SAME
    assert CASES.keys() >= NOT_TOLD
