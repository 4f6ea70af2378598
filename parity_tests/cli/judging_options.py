"""The options of all commands that judge, as Typer shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from parity_tests.cli.options import Options
from parity_tests.harness.isolation.budget import TRIAL_SECONDS
from parity_tests.harness.specs.seeds import HiddenSeed

FAILURES = Path("gradparity-failures")

_CHOICE = "What is checked"
_AGAIN = "What runs again"
_OUTPUT = "What is shown and written"
_RUN = "How it runs"


def _option(*names: str, panel: str, shown: str | None = None, least: float | None = None, text: str) -> Any:
    """An option of a group of the help; `shown`: its value in the help, in place of the type's name."""
    return typer.Option(*names, rich_help_panel=panel, metavar=shown, min=least, help=text)


OnlyOption = Annotated[
    list[str] | None,
    _option("--only", panel=_CHOICE, shown="CHECK,...", text="Run only these checks: --only vjp,jvp_of_vjp."),
]
MatchOption = Annotated[
    str | None,
    _option("-k", panel=_CHOICE, shown="EXPR", text='Run checks with matching names: -k "vjp and not partial".'),
]
QuickOption = Annotated[
    bool, _option("--quick", panel=_CHOICE, text="A few samples, float64 and bfloat16, no costly checks.")
]
DtypeOption = Annotated[
    list[str] | None, _option("--dtype", panel=_CHOICE, shown="DTYPE", text="Check this dtype only; repeat for more.")
]
DeviceOption = Annotated[
    list[str] | None,
    _option(
        "--device", panel=_CHOICE, shown="DEVICE", text="cpu, cuda:1, mps, ...; default: cpu, and cuda if present."
    ),
]
SeedOption = Annotated[
    int, _option("--seed", panel=_CHOICE, shown="N", least=0, text="Seed of inputs, cotangents and tangents.")
]
HiddenOption = Annotated[
    bool, _option("--hidden-seed", panel=_CHOICE, text="Draw the seed, and show it nowhere: to train by the verdict.")
]
SuspectOption = Annotated[
    bool, _option("--allow-suspect", panel=_CHOICE, text="Let SUSPECT pass: 16-bit errors unlike rounding.")
]
FirstOption = Annotated[
    bool, _option("-x", "--exitfirst", panel=_AGAIN, text="Stop at the first row that does not pass.")
]
LastFailedOption = Annotated[
    bool, _option("--last-failed", "--lf", panel=_AGAIN, text="Run only the last failures; all if there are none.")
]
FailedFirstOption = Annotated[
    bool, _option("--failed-first", "--ff", panel=_AGAIN, text="Run the last failures first, then all else.")
]
WatchOption = Annotated[
    bool,
    typer.Option(
        "--watch/--no-watch",
        rich_help_panel=_AGAIN,
        help="Run again whenever a file changes.",
        show_default=False,
    ),
]
QuietOption = Annotated[bool, _option("-q", "--quiet", panel=_OUTPUT, text="Show only failures and the verdict.")]
VerboseOption = Annotated[
    bool, _option("-v", "--verbose", panel=_OUTPUT, text="Show every row, reason and failure in full.")
]
JsonOption = Annotated[
    Path | None, _option("--json", panel=_OUTPUT, shown="FILE", text="Write the report to this file, as data.")
]
HtmlOption = Annotated[
    Path | None, _option("--html", panel=_OUTPUT, shown="FILE", text="The same, as a page to look at.")
]
MarkdownOption = Annotated[
    Path | None, _option("--markdown", panel=_OUTPUT, shown="FILE", text="The same, as text for an issue.")
]
JunitOption = Annotated[
    Path | None, _option("--junit", panel=_OUTPUT, shown="FILE", text="The same, as JUnit XML for CI.")
]
FailuresOption = Annotated[
    Path, _option("--failures", panel=_OUTPUT, shown="FOLDER", text="Where failures are kept for replay.")
]
JobsOption = Annotated[
    int, _option("-j", "--jobs", panel=_RUN, shown="N", text="Run up to N processes, one candidate each.")
]
IsolateOption = Annotated[
    bool,
    typer.Option(
        "--isolate/--no-isolate",
        rich_help_panel=_RUN,
        help="A process of its own survives crashes and hangs; --no-isolate is for a debugger.",
        show_default=False,
    ),
]
TrialOption = Annotated[
    float, _option("--trial-timeout", panel=_RUN, shown="SECONDS", least=0, text="The longest time for one sample.")
]
BudgetOption = Annotated[
    float | None,
    _option("--budget", panel=_RUN, shown="SECONDS", least=0, text="Stop then; unfinished checks are reported."),
]


def judging_options(
    *,
    only: OnlyOption = None,
    match: MatchOption = None,
    exit_first: FirstOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    last_failed: LastFailedOption = False,
    failed_first: FailedFirstOption = False,
    watch: WatchOption = False,
    quick: QuickOption = False,
    dtype: DtypeOption = None,
    device: DeviceOption = None,
    seed: SeedOption = 0,
    hidden_seed: HiddenOption = False,
    json: JsonOption = None,
    html: HtmlOption = None,
    markdown: MarkdownOption = None,
    junit: JunitOption = None,
    failures: FailuresOption = FAILURES,
    seconds: BudgetOption = None,
    jobs: JobsOption = 1,
    isolate: IsolateOption = True,
    trial_timeout: TrialOption = TRIAL_SECONDS,
    allow_suspect: SuspectOption = False,
) -> Options:
    """The options of every command that judges."""
    return Options(
        only=tuple(names_of(only)),
        match=match,
        exit_first=exit_first,
        quiet=quiet and not verbose,  # both cancel each other, as in pytest
        verbose=verbose and not quiet,
        last_failed=last_failed,
        failed_first=failed_first,
        watch=watch,
        dtypes=tuple(dtype or ()),
        devices=tuple(dict.fromkeys(device or ())),
        quick=quick,
        seed=HiddenSeed.drawn() if hidden_seed else seed,
        json=json,
        html=html,
        markdown=markdown,
        junit=junit,
        failures=failures,
        budget=seconds,
        jobs=jobs,
        isolate=isolate,
        trial_seconds=trial_timeout,
        allow_suspect=allow_suspect,
    )


def names_of(only: list[str] | None) -> list[str]:
    """The names of a repeated option, each of which may be several with commas between."""
    return [name.strip() for names in only or () for name in names.split(",")]
