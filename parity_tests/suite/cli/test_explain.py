"""gradparity explain: every check has a page, whose example it catches, and whose remedy passes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from parity_tests.cli.app import app
from parity_tests.cli.case_file import load_case
from parity_tests.harness.checks import CHECKS
from parity_tests.harness.checks.explanations import as_markdown
from parity_tests.harness.crosscheck import crosscheck
from parity_tests.harness.findings import AGREE, Verdict
from parity_tests.suite.marks import fast
from parity_tests.suite.rotation import rotating

SUSPECTED = {"low_precision"}  # a statistic accuses; a bound would convict


def blocks(check: str) -> Sequence[str]:
    return re.findall(r"```python\n(.*?)```", as_markdown(CHECKS[check]), re.DOTALL)


def verdict(path: str, check: str) -> Verdict:
    """The candidate's verdict under a check, in the first dtype that it judges."""
    spec, (candidate,) = load_case(Path(path))
    dtype = spec.dtypes[0] if spec.dtypes and check in SUSPECTED else "float64"
    report = crosscheck(candidate, spec, checks=[check], dtypes=[dtype], device="cpu", quick=True)
    (row,) = (row for row in report.rows if row.candidate != "oracle")
    return row.verdict


@rotating(3)
@fast("vjp", "vjp_partial", "purity")
@pytest.mark.parametrize("check", CHECKS)
def test_the_example_is_caught_and_the_mended_one_passes(check: str, case: Callable[..., str]):
    example, mended = blocks(check)
    expected = Verdict.SUSPECT if check in SUSPECTED else Verdict.MISMATCH
    assert verdict(case(example, "wrong.py"), check) is expected
    assert verdict(case(f"{example}\n\n{mended}", "mended.py"), check) in AGREE


def test_every_page_has_an_example_and_a_remedy(subtests: pytest.Subtests):
    for check in CHECKS:
        with subtests.test(check=check):
            _check_page(check)


def _check_page(check: str):
    page = as_markdown(CHECKS[check])
    assert page.startswith(f"# {check}\n\n**It catches** {CHECKS[check].catches}.\n\n- ")
    assert page.count("\n## How to fix it\n") == 1
    example, mended = blocks(check)
    assert "spec = OpSpec" in example
    assert "candidate" in example
    assert mended
    assert len(page.splitlines()) < 120


def test_the_command_prints_the_page():
    result = CliRunner(env={"COLUMNS": "100"}).invoke(app, ["explain", "vjp_partial"], catch_exceptions=False)
    assert result.exit_code == 0
    assert "It catches a cotangent that is dropped" in result.stdout
    assert "class Polar(torch.autograd.Function):" in result.stdout
    assert "How to fix it" in result.stdout


def test_a_check_that_does_not_exist():
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["explain", "vjp_partal"], catch_exceptions=False)
    assert result.exit_code == 2
    assert "unknown check 'vjp_partal' (did you mean 'vjp_partial'?)" in result.stderr


def test_lines_of_code_are_whole_on_a_narrow_terminal():
    result = CliRunner(env={"COLUMNS": "60"}).invoke(app, ["explain", "vjp"], catch_exceptions=False)
    code = [line for block in blocks("vjp") for line in block.splitlines()]
    assert max(map(len, code)) > 60
    assert set(code) <= {line.rstrip() for line in result.output.splitlines()}
