"""The pytest plugin: --gradparity-html and --gradparity-json write one report of every `assert_parity` of a run.

--gradparity-quick and --gradparity-budget are the options `quick` and `budget` of every call that has not its own.
Works under xdist, whose workers send what they found to the controller.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from parity_tests.harness.report.report import Report

_SENT = "gradparity"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, in a group of their own."""
    group = parser.getgroup("gradparity", "gradparity: derivatives judged by a JAX oracle")
    group.addoption("--gradparity-html", type=Path, metavar="FILE", help="write one page about every assert_parity")
    group.addoption("--gradparity-json", type=Path, metavar="FILE", help="the same as data")
    group.addoption("--gradparity-quick", action="store_true", help="every assert_parity judges at a few samples")
    group.addoption("--gradparity-budget", type=float, metavar="SECONDS", help="a limit on the time of each of them")


def pytest_configure(config: pytest.Config) -> None:
    """Import the harness, which takes seconds, only if an option needs it."""
    for option in ("--gradparity-html", "--gradparity-json"):
        path = config.getoption(option)
        if path is not None and not path.resolve().parent.is_dir():
            raise pytest.UsageError(f"{option} {path}: there is no folder {path.parent}")
    quick, budget = config.getoption("--gradparity-quick"), config.getoption("--gradparity-budget")
    options = ({"quick": True} if quick else {}) | ({} if budget is None else {"budget": budget})
    receive = None
    if config.getoption("--gradparity-html") or config.getoption("--gradparity-json"):
        collector = _Collector(config)
        config.pluginmanager.register(collector, "gradparity-collector")
        receive = collector.reports.append
    if options or receive is not None:
        from parity_tests.harness.crosscheck import asserting

        stack = contextlib.ExitStack()
        stack.enter_context(asserting(receive, **options))
        config.add_cleanup(stack.close)


class _Collector:
    """Gathers the reports of one process; in xdist's controller, those of every worker."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.reports: list[Report] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """A worker of xdist has ended: take what it sent."""
        from parity_tests.harness.report.report import Report

        for data in json.loads(getattr(node, "workeroutput", {}).get(_SENT, "[]")):
            self.reports.append(Report.from_dict(data))

    def pytest_sessionfinish(self) -> None:
        from parity_tests.harness.report.report import Report

        sent = getattr(self.config, "workeroutput", None)  # only a worker of xdist has it
        if sent is not None:
            sent[_SENT] = json.dumps([report.as_dict() for report in self.reports])
            return
        merged = Report.merged(self.reports)
        if path := self.config.getoption("--gradparity-html"):
            merged.to_html(path)
        if path := self.config.getoption("--gradparity-json"):
            merged.to_json(path)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say where the report is."""
        for option in ("--gradparity-html", "--gradparity-json"):
            if path := self.config.getoption(option):
                terminalreporter.write_line(f"gradparity: {len(self.reports)} reports in {path}")
