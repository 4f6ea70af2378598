"""The pytest plugin: assert_parity in a user's own suite, and one report of a whole run."""

from __future__ import annotations

import json
from importlib.metadata import entry_points

import pytest

pytest_plugins = ["pytester"]

INSTALLED = any(entry.name == "gradparity" for entry in entry_points(group="pytest11"))
PLUGIN = [] if INSTALLED else ["-p", "parity_tests.pytest_plugin"]

SUITE = """
import torch
from parity_tests import OpSpec, assert_parity

class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return x * g

spec = OpSpec("square", primal=lambda x: x * x, signature="(n,m)->(n,m)")
quick = {"checks": ["forward", "vjp"], "dtypes": ["float64"]}

def test_right():
    assert assert_parity(torch.square, spec, **quick).passed

def test_wrong():
    assert_parity(Wrong.apply, spec, name="wrong", **quick)
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(SUITE)
    return pytester


@pytest.mark.slow
@pytest.mark.parametrize("options", [pytest.param([], id="one process"), pytest.param(["-n", "2"], id="xdist")])
def test_one_report_of_the_run(suite, options):
    """And the message of a test that fails is its own."""
    files = ["--gradparity-html", "report.html", "--gradparity-json", "report.json"]
    result = suite.runpytest_subprocess(*PLUGIN, *options, *files)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*square: wrong disagrees with the oracle*", "*looks like  x_bar = 0.5 * oracle*"])
    result.stdout.fnmatch_lines(["gradparity: 2 reports in report.html", "gradparity: 2 reports in report.json"])
    data = json.loads((suite.path / "report.json").read_text(encoding="utf-8"))
    verdicts = {
        (row["candidate"], row["check"]): row["verdict"] for row in data["rows"] if row["candidate"] != "oracle"
    }
    assert verdicts == {
        ("square", "forward"): "PASS",
        ("square", "vjp"): "PASS",
        ("wrong", "forward"): "PASS",
        ("wrong", "vjp"): "MISMATCH",
    }
    assert not data["passed"]
    assert data["failures"][0]["wrong"][0]["looks_like"] == "x_bar = 0.5 * oracle"
    assert "x_bar = 0.5 * oracle" in (suite.path / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_quick_runs_with_a_budget(pytester: pytest.Pytester):
    """The options are those of every call, unless it says otherwise."""
    pytester.makepyfile("""
        from parity_tests.harness.crosscheck import assertions
        def test(): assert assertions().options == {"quick": True, "budget": 60.0}
    """)
    pytester.runpytest_subprocess(*PLUGIN, "--gradparity-quick", "--gradparity-budget", "60").assert_outcomes(passed=1)


@pytest.mark.slow
def test_a_folder_that_is_not_there_is_an_error_before_any_test(suite):
    result = suite.runpytest_subprocess(*PLUGIN, "--gradparity-html", "nowhere/report.html")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--gradparity-html nowhere/report.html: there is no folder nowhere*"])


@pytest.mark.slow
def test_pytest_alone_does_not_import_the_frameworks(pytester: pytest.Pytester):
    pytester.makepyfile("import sys\ndef test(): assert not {'jax', 'torch'} & set(sys.modules)")
    pytester.runpytest_subprocess(*PLUGIN, "-p", "no:hypothesispytest").assert_outcomes(passed=1)


CRASHING = """
import os

def test_a_crash():
    os.kill(os.getpid(), 11)
"""


@pytest.mark.slow
def test_a_worker_that_dies_loses_no_earlier_report_and_does_not_pass(suite):
    suite.makepyfile(test_crash=SUITE.split("def test_wrong")[0] + CRASHING)
    options = ["-n", "1", "--max-worker-restart", "0", "--gradparity-json", "report.json"]
    result = suite.runpytest_subprocess(*PLUGIN, *options, "test_crash.py")
    result.stdout.fnmatch_lines(["*gradparity: worker gw0 ended while a test ran*"])
    data = json.loads((suite.path / "report.json").read_text(encoding="utf-8"))
    assert {row["check"] for row in data["rows"] if row["candidate"] != "oracle"} == {"forward", "vjp"}
    assert not data["passed"]
    assert "worker gw0 ended" in data["error"]


@pytest.mark.slow
def test_a_file_that_is_no_report_is_kept(suite):
    (suite.path / "precious.py").write_text("x = 1\n")
    result = suite.runpytest_subprocess(*PLUGIN, "--gradparity-json", "precious.py")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--gradparity-json precious.py: already exists and is not a report*"])
    assert (suite.path / "precious.py").read_text() == "x = 1\n"


@pytest.mark.slow
def test_a_file_that_cannot_be_written_hides_no_failure(suite):
    result = suite.runpytest_subprocess(*PLUGIN, "--gradparity-json", "/dev/full")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*= FAILURES =*", "*gradparity: --gradparity-json /dev/full cannot be written*"])
    result = suite.runpytest_subprocess(*PLUGIN, "--gradparity-json", "/dev/full", "-k", "right")
    result.assert_outcomes(passed=1, deselected=1)
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR
