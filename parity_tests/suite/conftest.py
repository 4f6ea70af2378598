"""What the suite's tests share: one run of the whole court on each device."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

import pytest

from parity_tests.harness import shrink
from parity_tests.harness.candidate import Candidate, NotBuilt
from parity_tests.harness.court import Court
from parity_tests.harness.crosscheck import select_checks, select_precisions
from parity_tests.harness.judge import Docket, judge
from parity_tests.harness.report import Report
from parity_tests.suite.attn import NAMES, SPEC
from parity_tests.suite.attn import candidate as attn_candidate


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_shrunk() -> Iterator[None]:
    """Hundreds of mistakes are judged in this suite, and of most of them the verdict is all that is asked for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shrink, "SECONDS", 0.0)
        yield


@pytest.fixture
def shrinking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failures are shrunk in this test, with time enough on a busy machine."""
    monkeypatch.setattr(shrink, "SECONDS", 60.0)


_court = functools.lru_cache(maxsize=1)(functools.partial(Court, SPEC))  # certified once, for a hundred mistakes


def run_attn(
    candidates: Sequence[Candidate | NotBuilt],
    checks: Sequence[str] | None = None,
    dtypes: Sequence[str] | None = None,
    device: str = "cpu",
    seed: int = 0,
) -> Report:
    """Judge implementations of attn, in this process."""
    docket = Docket(
        SPEC,
        candidates,
        select_checks(checks),
        select_precisions(dtypes, SPEC),
        device,
        seed,
        lambda row: "",
        court=_court(device, seed),
    )
    report = Report({})
    for _ in judge(docket, report):
        pass
    return report


@pytest.fixture(scope="session")
def report() -> Callable[[str], Report]:
    """Every implementation x check x dtype on a device, judged once."""
    return functools.cache(lambda device: run_attn([attn_candidate(name) for name in NAMES], device=device))


@pytest.fixture
def candidate(request: pytest.FixtureRequest) -> Candidate:
    """The implementation of attn that the test's parameter names; skips where it cannot be compiled."""
    found = attn_candidate(request.param)
    if isinstance(found, NotBuilt):
        assert found.expected, found.reason
        pytest.skip(found.reason)
    return found
