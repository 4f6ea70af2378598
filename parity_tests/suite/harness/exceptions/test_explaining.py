"""Whatever only explains a failure may raise: the verdict stands, and a line names what could not be explained."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import pytest
import torch
from typer.testing import CliRunner

from parity_tests import OpSpec, Report, Verdict, crosscheck
from parity_tests.cli.app import app
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.crosscheck import select_checks, select_precisions
from parity_tests.harness.diagnosis import diagnosis, failures
from parity_tests.harness.exceptions.explaining import explain, unexplained
from parity_tests.harness.judging import failing_rows, judge, reproducer
from parity_tests.harness.report import html
from parity_tests.suite.harness._ops import rows, unary_function
from parity_tests.suite.marks import fast

SQUARE = OpSpec("square", primal=lambda x: x * x, signature="(n)->(n)")


def _raises(*args: object, **kwargs: object) -> None:
    raise LookupError("no such thing")


def _exits(*args: object, **kwargs: object) -> None:
    raise SystemExit(0)


def _report(**options) -> Report:
    half = unary_function(lambda x: x * x, lambda x, g: x * g)
    return crosscheck(half, SQUARE, checks=["forward", "vjp"], dtypes=["float64"], **options)


EXPLANATIONS = [
    pytest.param(failing_rows, "fails_at", "shrinking", id="shrinking"),
    pytest.param(failures, "entries", "shrinking", id="the entries of the smallest input"),
    pytest.param(failing_rows, "Reproducer", "the reproducer", id="the reproducer"),
    pytest.param(failing_rows, "explained", "the diagnosis", id="the diagnosis"),
    pytest.param(failures, "arbitrate", "the third witness", id="the third witness"),
    pytest.param(failures, "_heat", "the heat map of x_bar", id="the heat map"),
    pytest.param(diagnosis, "pattern", "the pattern of x_bar", id="the pattern"),
    pytest.param(diagnosis, "looks_like", "what x_bar looks like", id="what it looks like"),
]


@fast("*-_raises")
@pytest.mark.parametrize("error", [_raises, _exits])
@pytest.mark.parametrize(("module", "name", "explanation"), EXPLANATIONS)
@pytest.mark.usefixtures("shrinking")
def test_an_explanation_that_raises_leaves_the_verdict(monkeypatch, module, name, explanation, error):
    monkeypatch.setattr(module, name, error)
    report = _report()
    assert [row.verdict for row in rows(report)] == [Verdict.PASS, Verdict.MISMATCH]
    assert report.exit_code == 1
    assert len(report.failures) == 1
    what = "LookupError: no such thing" if error is _raises else "SystemExit: 0"
    (line,) = [line for line in str(report).splitlines() if "not explained" in line]
    assert line.startswith(f"  not explained  {explanation} failed: {what} (at test_explaining.py:")
    assert Report.from_dict(report.as_dict()).failures == report.failures
    assert "x_bar" in str(report)


@pytest.mark.usefixtures("shrinking")
def test_nothing_is_unexplained_otherwise():
    report = _report()
    assert report.failures[0].unexplained == ()
    assert "not explained" not in str(report)


def test_the_reason_of_a_gradient_of_zero(monkeypatch):
    monkeypatch.setattr(failures, "why_zero", _raises)
    report = crosscheck(lambda x: (x * x).detach(), SQUARE, checks=["vjp"], dtypes=["float64"])
    assert report.exit_code == 1
    assert report.failures[0].wrong[0].looks_like == "x_bar = 0"
    assert "  not explained  why x_bar is 0 failed: LookupError: no such thing" in str(report)


def test_how_to_replay_it(monkeypatch):
    monkeypatch.setattr("parity_tests.harness.crosscheck.replay_line", _raises)
    report = _report()
    assert report.exit_code == 1
    assert "  not explained  how to replay it failed: LookupError: no such thing" in str(report)


def test_the_pattern_of_a_certificate(monkeypatch):
    """The oracle's own failures are explained, too."""
    monkeypatch.setattr(diagnosis, "pattern", _raises)
    spec = OpSpec("square", primal=lambda x: x * x, vjp=lambda x, g: (x * g,), signature="(n)->(n)")
    report = crosscheck(torch.square, spec, checks=["vjp"], dtypes=["float64"])
    assert report.rows[0].verdict is Verdict.MISMATCH
    assert "  not explained  the pattern of x_bar failed: LookupError: no such thing" in str(report)


@pytest.mark.usefixtures("shrinking")
def test_the_files_of_a_reproducer(monkeypatch, tmp_path):
    """Each failure by itself: that of which no reproducer can be made is not in the way of the next."""
    facts = reproducer.Reproducer._facts

    def of_the_second(self, call):
        return _raises() if self.candidate.name == "first" else facts(self, call)

    monkeypatch.setattr(reproducer.Reproducer, "_facts", of_the_second)
    report = Report.merged([_report(name="first"), _report(name="second")])
    report.save_failures(tmp_path)
    first, second = report.failures
    assert first.script is None
    assert first.unexplained[0].startswith("the reproducer failed: LookupError: no such thing (at test_explaining.py:")
    assert Path(second.script or "").is_file()
    assert report.exit_code == 1
    report.save_failures(tmp_path)  # which does not try again
    assert len(report.failures[0].unexplained) == 1


CASE = """
import jax.numpy as jnp
from parity_tests import OpSpec
spec = OpSpec("square", primal=lambda x: x * x, signature="(n)->(n)")
def candidate(x):
    return 2 * x * x
"""


def test_the_page(monkeypatch, tmp_path):
    monkeypatch.setattr(html, "as_html", _raises)
    (tmp_path / "case.py").write_text(CASE)
    options = ["--only", "forward", "--dtype", "float64", "--device", "cpu", "--failures", str(tmp_path / "failures")]
    command = ["check", str(tmp_path / "case.py"), "--html", str(tmp_path / "page.html"), "--no-isolate"]
    ran = CliRunner().invoke(app, [*command, *options], env={"COLUMNS": "300"})
    assert ran.exit_code == 2, ran.output
    assert "square: candidate disagrees with the oracle" in ran.output
    assert f"gradparity: --html {tmp_path}/page.html cannot be made: LookupError: no such thing (" in ran.output


# What the guard itself does.


def test_an_interrupt_passes_through():
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        explain("it", interrupted)


def test_the_same_line_is_told_once():
    parts = [explain("it", what) for what in (_raises, _raises, lambda: 3)]
    assert [part.value for part in parts] == [None, None, 3]
    assert len(unexplained(*parts)) == 1


def test_an_error_without_a_message():
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    def mute():
        raise Mute

    (line,) = explain("it", mute).unexplained
    assert line.startswith("it failed: Mute: its message cannot be printed (at test_explaining.py:")


# An operator whose sizes have no names: there is none to shrink.


@pytest.mark.parametrize(
    ("spec", "call", "check"),
    [
        pytest.param(OpSpec("triple", lambda x: 3 * x, "()->()"), lambda x: 2 * x, "forward", id="a scalar"),
        pytest.param(
            OpSpec("parts", lambda x: (x[:5] * 3, jnp.sin(x[:2])), "(8)->(5),(2)"),
            lambda x: (x[:5] * 3, x[:2].cos()),
            "vjp",
            id="numbers only",
        ),
    ],
)
@pytest.mark.usefixtures("shrinking")
def test_sizes_without_names_are_not_shrunk(spec, call, check):
    report = crosscheck(call, spec, checks=[check], dtypes=["float64"])
    assert report.exit_code == 1
    (failure,) = report.failures
    assert failure.unexplained == ()
    assert failure.smallest is not None
    assert failure.smallest.sizes == {}


@pytest.mark.usefixtures("shrinking")
def test_an_error_at_sizes_without_names():
    report = crosscheck(lambda x: 1 / 0, OpSpec("t", lambda x: 3 * x, "()->()"), checks=["forward"], dtypes=["float64"])
    assert "ZeroDivisionError: division by zero" in str(report)
    assert "max()" not in str(report)


# Who judges in another process must know where it is.


def test_the_trial_is_told_before_the_candidate_is_called():
    told: list[tuple[str, Verdict, int, int]] = []
    called: list[int] = []

    def candidate(x):
        called.append(len(x))
        return x * x

    plan = judge.Plan(
        SQUARE,
        [Candidate(candidate, "square")],
        select_checks(["vjp"]),
        select_precisions(["float64"]),
        "cpu",
        0,
        lambda row: "",
        on_trial=lambda row, sample: told.append((row.check, row.verdict, sample.sizes["n"], len(called))),
    )
    *_, row = Report({}).collect(judge.judge(plan))
    assert row.verdict is Verdict.PASS
    assert told[0] == ("forward", Verdict.PASS, 0, 0)  # is an empty axis accepted?
    assert told[1] == ("vjp", Verdict.PASS, 4, 1)
    assert [n for _, _, n, _ in told] == called
    assert [count for *_, count in told] == list(range(len(called)))
