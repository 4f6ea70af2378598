"""What the suite's tests share: one run of the whole court on each device."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import pytest

from parity_tests.catalog.attn import SPEC
from parity_tests.catalog.attn import candidate as attn_candidate
from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.crosscheck import select_checks, select_precisions
from parity_tests.harness.judging import kept_certificates
from parity_tests.harness.judging.certified import Oracles
from parity_tests.harness.judging.judge import Plan, judge
from parity_tests.harness.judging.plan import shrinking_for
from parity_tests.harness.report.report import Report
from parity_tests.operators.operator import Operator


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_shrunk() -> Iterator[None]:
    """Hundreds of mistakes are judged in this suite, and of most of them the verdict is all that is asked for."""
    with shrinking_for(0.0):
        yield


@pytest.fixture(scope="module", autouse=True)
def _no_certificate_is_kept() -> Iterator[None]:
    """A test that replaces a rule of the harness must neither find certificates in JAX's cache nor leave any there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_certificates, "folder", lambda: None)
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of each operator of the collection follow one another: it is traced and certified once for all."""
    of_cases = [i for i, item in enumerate(items) if _case_of(item) is not None]
    first: dict[int, int] = {}
    for i in of_cases:
        first.setdefault(id(_case_of(items[i])), i)
    ordered = sorted((items[i] for i in of_cases), key=lambda item: first[id(_case_of(item))])
    for i, item in zip(of_cases, ordered, strict=True):
        items[i] = item


def _case_of(item: pytest.Item) -> Operator | None:
    """The operator of the collection that a test is parametrized by."""
    case = item.callspec.params.get("case") if isinstance(item, pytest.Function) and hasattr(item, "callspec") else None
    return case if isinstance(case, Operator) else None


@pytest.fixture
def shrinking() -> Iterator[None]:
    """Failures are shrunk in this test, with time enough on a busy machine."""
    with shrinking_for(60.0):
        yield


_first_oracles = functools.lru_cache(maxsize=1)(lambda device: Oracles(SPEC, device, 0))


@functools.lru_cache(maxsize=1)  # certified once, for a hundred mistakes and for all seeds
def _oracles(device: str, seed: int) -> Oracles:
    return _first_oracles(device) if seed == 0 else _first_oracles(device).at_seed(seed)


def run_attn(
    candidates: Sequence[Candidate | NotBuilt],
    checks: Sequence[str] | None = None,
    dtypes: Sequence[str] | None = None,
    device: str = "cpu",
    seed: int = 0,
) -> Report:
    """Judge implementations of attn, in this process."""
    plan = Plan(
        SPEC,
        candidates,
        select_checks(checks),
        select_precisions(dtypes, SPEC),
        device,
        seed,
        lambda row: "",
        oracles=_oracles(device, seed),
    )
    report = Report({})
    for _ in report.collect(judge(plan)):
        pass
    return report


@pytest.fixture
def candidate(request: pytest.FixtureRequest) -> Candidate:
    """The implementation of attn that the test's parameter names; skips where it cannot be compiled."""
    found = attn_candidate(request.param)
    if isinstance(found, NotBuilt):
        assert found.expected, found.reason
        pytest.skip(found.reason)
    return found
