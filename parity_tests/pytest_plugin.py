"""The pytest plugin: --gradparity-html and --gradparity-json write one report of every `assert_parity` of a run.

--gradparity-quick and --gradparity-budget are the options `quick` and `budget` of every call that has not its own.
Works under xdist, whose workers send what they found to the controller.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from parity_tests.cli.report_files import ReportFile

if TYPE_CHECKING:
    from parity_tests.harness.report.report import Report

_SENT = "gradparity"
_FILES = ("--gradparity-html", "--gradparity-json")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, in a group of their own."""
    group = parser.getgroup("gradparity", "gradparity: derivatives judged by a JAX oracle")
    group.addoption("--gradparity-html", type=Path, metavar="FILE", help="write one page about every assert_parity")
    group.addoption("--gradparity-json", type=Path, metavar="FILE", help="the same as data")
    group.addoption("--gradparity-quick", action="store_true", help="every assert_parity judges at a few samples")
    group.addoption("--gradparity-budget", type=float, metavar="SECONDS", help="a limit on the time of each of them")


def pytest_configure(config: pytest.Config) -> None:
    """Import the harness, which takes seconds, only if an option needs it."""
    try:
        files = [file for option in _FILES if (file := ReportFile.of(option, config.getoption(option))) is not None]
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    quick, budget = config.getoption("--gradparity-quick"), config.getoption("--gradparity-budget")
    options = ({"quick": True} if quick else {}) | ({} if budget is None else {"budget": budget})
    receive = None
    if files:
        collector = _Collector(config, files)
        config.pluginmanager.register(collector, "gradparity-collector")
        receive = collector.reports.append
    if options or receive is not None:
        from parity_tests.harness.crosscheck import asserting

        stack = contextlib.ExitStack()
        stack.enter_context(asserting(receive, **options))
        config.add_cleanup(stack.close)


class _Collector:
    """Gathers the reports of one process; in xdist's controller, those of every worker.

    A worker sends them with the report of the test that made them, so that its end loses none of those before.
    """

    def __init__(self, config: pytest.Config, files: Sequence[ReportFile]) -> None:
        self.config, self.files = config, files
        self.reports: list[Report] = []
        self.lost: list[str] = []  # lines about what is not in the files, or not written

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Send what a test of a worker has found."""
        test_report = yield
        if self._is_worker and self.reports:
            setattr(test_report, _SENT, json.dumps([report.as_dict() for report in self.reports]))
            self.reports.clear()
        return test_report

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take what a worker has sent."""
        if not self._is_worker:
            self._take(vars(report).pop(_SENT, "[]"))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """A worker of xdist has ended: take what it sent, or say that it could not."""
        sent = getattr(node, "workeroutput", {}).get(_SENT)
        if sent is None:
            name = getattr(getattr(node, "gateway", None), "id", "a worker")
            self.lost.append(
                f"worker {name} ended while a test ran, whose reports are lost; give that test isolate=True"
            )
        self._take(sent or "[]")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the files; what cannot be written is told, and the run does not pass."""
        if self._is_worker:
            output: Any = self.config
            output.workeroutput[_SENT] = json.dumps([report.as_dict() for report in self.reports])
            return
        from parity_tests.harness.report import html
        from parity_tests.harness.report.report import Report

        merged = Report.merged(self.reports)
        merged.error = "; ".join(filter(None, (merged.error, *self.lost))) or None
        forms = {"--gradparity-html": html.as_html, "--gradparity-json": Report.as_json}
        for file in self.files:
            try:
                file.write(forms[file.option](merged))
            except OSError as error:
                self.lost.append(f"{file.option} {file.given} cannot be written: {error.strerror or error}")
        if self.lost and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say where the report is, and what is not in it."""
        for file in self.files:
            terminalreporter.write_line(f"gradparity: {len(self.reports)} reports in {file.given}")
        for line in self.lost:
            terminalreporter.write_line(f"gradparity: {line}", red=True)

    @property
    def _is_worker(self) -> bool:
        return hasattr(self.config, "workeroutput")  # only a worker of xdist has it

    def _take(self, sent: str) -> None:
        from parity_tests.harness.report.report import Report

        self.reports.extend(map(Report.from_dict, json.loads(sent)))
