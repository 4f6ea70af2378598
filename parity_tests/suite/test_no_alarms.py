"""No alarm on a right version, whatever the seed: numbers alone, in every format, at seeds that have raised one."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.crosscheck import select_checks, select_precisions
from parity_tests.harness.judging.certified import Oracles
from parity_tests.harness.judging.judge import Plan, judge
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.report.report import Report
from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators.catalogue import COLLECTION
from parity_tests.operators.operator import Operator, function
from parity_tests.suite.rotation import rotating
from parity_tests.suite.test_collection import ALARMS

FIRST_ORDER = ["forward", "vjp", "jvp", "adjoint", "linearity"]
CHECKS = [*FIRST_ORDER, "vjp_of_vjp", "jvp_of_vjp", "vjp_of_jvp", "jvp_of_jvp", "points", "exact", "layouts"]
FAR = -60000.0  # a mask that every format has


def _masked(rng, shape):
    return rng.integers(0, 2, shape)


def _masked_lse(x, mask):
    return jax.nn.logsumexp(jnp.where(mask > 0, x, FAR), axis=-1)


def _masked_lse_torch(x, mask):
    return torch.logsumexp(torch.where(mask > 0, x, FAR), -1)


def _by_the_logarithm(x, mask, w):
    """As fused attention has it, with the logarithm that it has stored."""
    y = _masked_lse_torch(x, mask)
    return w[:, None] * torch.exp(torch.where(mask > 0, x - y[:, None], -math.inf)), None


masked_lse = Operator(
    OpSpec("masked_logsumexp", _masked_lse, "(n,d),(n,d)->(n)", domains={"mask": _masked}, constants=["mask"]),
    function(_masked_lse_torch, _by_the_logarithm),
)
# PyTorch's own product, which multiplies in an order of its own; of its second derivatives see `collection.reductions`.
product = Operator(COLLECTION["product"].spec, lambda x: x.prod(-1))

# A right version, its checks, and seeds: the first one raised an alarm that was false.
CASES = {
    "product": (product, FIRST_ORDER, (26, 100, 101)),  # underflow in another order than the oracle's
    "masked_lse": (masked_lse, FIRST_ORDER, (9, 11, 100)),  # the rounding of a stored logarithm
    "nuclear_norm": (COLLECTION["nuclear_norm"], CHECKS, (0, 100)),  # the singular values of an infinite matrix
    "focal": (COLLECTION["focal"], CHECKS, (0, 100)),  # its right version had another slope at 0
    "softmax": (COLLECTION["softmax"], CHECKS, (100, 101)),
}


@pytest.mark.slow
@rotating(5)
@pytest.mark.parametrize("op", CASES)
def test_a_right_version_raises_no_alarm_at_a_seed_that_has_raised_one(op):
    _raises_no_alarm(op, slice(1))


@pytest.mark.soak
@pytest.mark.parametrize("op", CASES)
def test_a_right_version_raises_no_alarm_at_other_seeds(op):
    _raises_no_alarm(op, slice(1, None))


def _raises_no_alarm(op: str, some: slice) -> None:
    case, checks, every = CASES[op]
    seeds = every[some]
    first = Oracles(case.spec, "cpu", seeds[0])
    for seed in seeds:
        oracles = first if seed == seeds[0] else first.at_seed(seed)
        candidates, formats = [Candidate(case.right, "right")], select_precisions(list(PRECISIONS))
        plan = Plan(case.spec, candidates, select_checks(checks), formats, "cpu", seed, lambda row: "", oracles=oracles)
        report = Report({})
        for _ in report.collect(judge(plan)):
            pass
        assert not [row for row in report.rows if row.verdict in ALARMS], f"seed {seed}\n{report}"


def test_a_court_at_another_seed_judges_by_what_it_draws_there():
    case = COLLECTION["softmax"]
    oracles = Oracles(case.spec, "cpu", 0)
    format_ = PRECISIONS["float64"]
    one, again, new = (
        oracles.certified_oracle(format_),
        oracles.at_seed(1).certified_oracle(format_),
        Oracles(case.spec, "cpu", 1).certified_oracle(format_),
    )
    (at_0, _), (at_1, ask_1), (of_new, ask_new) = (
        (certified_oracle.cases[0].primals(certified_oracle.oracle.inputs), certified_oracle.oracle.ask)
        for certified_oracle in (one, again, new)
    )
    assert not np.array_equal(at_0[0], at_1[0])
    np.testing.assert_array_equal(at_1[0], of_new[0])
    with pinned():
        pairs = zip(ask_1("forward", at_1, format_), ask_new("forward", of_new, format_), strict=True)
    for result, result_new in pairs:
        np.testing.assert_array_equal(result.value, result_new.value)
        np.testing.assert_array_equal(result.bound, result_new.bound)
