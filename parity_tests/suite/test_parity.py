"""Every implementation of attn x check x dtype x device agrees with the oracle; and no seed raises a false alarm."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from parity_tests.catalog.attn import NAMES
from parity_tests.catalog.attn import candidate as attn_candidate
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.checks import CHECKS
from parity_tests.harness.findings import Verdict
from parity_tests.harness.numbers.devices import missing
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.report.report import Report
from parity_tests.harness.report.results import ORACLE, Row
from parity_tests.harness.report.text import as_text
from parity_tests.suite.conftest import run_attn
from parity_tests.suite.rotation import rotating

CUDA_MISSING = missing("cuda")
DEVICES = ("cpu",) if CUDA_MISSING else ("cpu", "cuda")
EXPLICIT = ("attn_function", "attn_native")
# Of the explicit formulas in float64 these take two thirds of the time; test_agrees has them.
LONG = ("compile", "determinism", "digits", "points_second_order", "vmap")


@pytest.fixture(scope="module")
def report_of_explicit() -> Callable[[str], Report]:
    """The two implementations with formulas of their own in float64, judged once on each device."""
    explicit = [attn_candidate(name) for name in EXPLICIT]
    return functools.cache(lambda device: run_attn(explicit, SHORT_CHECKS, ["float64"], device))


@pytest.fixture(scope="module")
def report() -> Callable[[str, str], Report]:
    """An implementation's checks and dtypes on a device, judged once."""
    return functools.cache(lambda device, name: run_attn([attn_candidate(name)], device=device))


def _expected(candidate: Candidate, check: str, device: str) -> Verdict:
    if candidate.framework == "NumPy":
        if CHECKS[check].inapplicable_to("NumPy"):
            return Verdict.SKIPPED
        return Verdict.UNSUPPORTED if check == "vmap" or device != "cpu" else Verdict.PASS
    if check == "opcheck" and "native" not in candidate.name:
        return Verdict.SKIPPED  # no operator of torch.ops
    if check == "mixed_dtypes":
        return Verdict.SKIPPED  # q, k and v must share one dtype, and they say so
    if check == "captured":
        return Verdict.SKIPPED  # all their tensors are inputs
    return Verdict.UNSUPPORTED if check in (candidate.limits or {}) else Verdict.PASS


def _row(report: Report, candidate: str, check: str, dtype: str) -> Row:
    (row,) = (r for r in report.rows if (r.candidate, r.check, r.dtype) == (candidate, check, dtype))
    return row


CHECK_NAMES = [check.name for check in CHECKS.values() if not check.on_request]
SHORT_CHECKS = [name for name in CHECK_NAMES if name not in LONG and not CHECKS[name].only_short]


def _assert_as_expected(row: Row, candidate: Candidate, device: str) -> None:
    assert row.verdict is _expected(candidate, row.check, device), as_text(Report({}, [row]))
    assert row.comparisons > 0 or row.verdict in (Verdict.UNSUPPORTED, Verdict.SKIPPED)


@pytest.mark.parametrize("check", SHORT_CHECKS)
@pytest.mark.parametrize("candidate", EXPLICIT, indirect=True)
@pytest.mark.parametrize("device", DEVICES)
def test_the_explicit_formulas_agree(
    report_of_explicit: Callable[[str], Report], candidate: Candidate, check: str, device: str
) -> None:
    """In float64; test_agrees is every implementation in every format."""
    _assert_as_expected(_row(report_of_explicit(device), candidate.name, check, "float64"), candidate, device)


@pytest.mark.slow
@rotating(3, by="candidate")
@pytest.mark.parametrize("check", CHECK_NAMES)
@pytest.mark.parametrize("candidate", NAMES, indirect=True)
@pytest.mark.parametrize("device", DEVICES)
def test_agrees(
    report: Callable[[str, str], Report], candidate: Candidate, check: str, device: str, subtests: pytest.Subtests
) -> None:
    short = [name for name, precision in PRECISIONS.items() if precision.u != precision.u_acc]
    dtypes = ["float64"] if CHECKS[check].one_dtype else short if CHECKS[check].only_short else list(PRECISIONS)
    for dtype in dtypes:
        with subtests.test(dtype=dtype):
            _assert_as_expected(_row(report(device, candidate.name), candidate.name, check, dtype), candidate, device)


@pytest.mark.slow
def test_third_order_agrees() -> None:
    report = run_attn([attn_candidate(name) for name in NAMES], ["third_order"])
    assert report.passed, as_text(report)


@pytest.mark.skipif(CUDA_MISSING is not None, reason=f"the CUDA rows: {CUDA_MISSING}")
def test_cuda_is_judged() -> None:
    assert "cuda" in DEVICES


@pytest.mark.parametrize("device", DEVICES)
def test_the_oracle_has_every_certificate(report_of_explicit: Callable[[str], Report], device: str) -> None:
    certificates = {row.check: row.verdict for row in report_of_explicit(device).rows if row.candidate == ORACLE}
    assert set(certificates) == {"vjp", "jvp", "vjp_of_vjp", "jvp_of_vjp", "vjp_of_jvp", "jvp_of_jvp"}
    assert set(certificates.values()) == {Verdict.PASS}


@pytest.mark.soak
def test_no_false_alarm_at_another_seed() -> None:
    """`python -m benchmarks.seeds attn` judges five."""
    report = run_attn([attn_candidate(name) for name in NAMES], seed=1)
    assert report.passed, as_text(report)


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.slow if seed == 1 else pytest.mark.soak) for seed in range(1, 6)]
)
def test_no_false_alarm_in_numbers(seed: int) -> None:
    """What is compared differs from seed to seed; how it is run (in threads, in batches) does not.

    With the slow tests one seed in the narrowest and the widest format, of the two implementations with formulas of
    their own; the others, and test_no_false_alarm_at_another_seed, are soak.
    """
    checks = [check.name for check in CHECKS.values() if not check.costly and not check.on_request]
    names, dtypes = (EXPLICIT, ["float64", "bfloat16"]) if seed == 1 else (NAMES, None)
    report = run_attn([attn_candidate(name) for name in names], checks, dtypes, seed=seed)
    assert report.passed, as_text(report)
