"""The options of all commands that judge, as Typer shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from parity_tests.cli.options import Options
from parity_tests.harness.isolation.budget import TRIAL_SECONDS

FAILURES = Path("gradparity-failures")

OnlyOption = Annotated[list[str] | None, typer.Option("--only", help="Only these checks: --only vjp,jvp_of_vjp.")]
QuickOption = Annotated[
    bool, typer.Option("--quick", help="The most telling samples, float64 and bfloat16, no costly checks.")
]
DtypeOption = Annotated[list[str] | None, typer.Option("--dtype", help="Only this dtype; repeat for more.")]
DeviceOption = Annotated[
    list[str] | None,
    typer.Option("--device", help="Any of PyTorch's: cpu, cuda:1, mps, xpu; by default cpu, and cuda if it is there."),
]
SeedOption = Annotated[
    int,
    typer.Option(
        "--seed",
        min=0,
        help="Of the random inputs, cotangents and tangents; drawn where somebody else's solutions are judged.",
    ),
]
JsonOption = Annotated[Path | None, typer.Option("--json", help="Also write the report to this file, as data.")]
HtmlOption = Annotated[Path | None, typer.Option("--html", help="Also write it to this file, as a page to look at.")]
FailuresOption = Annotated[
    Path, typer.Option("--failures", help="The folder for reproducers of failures, which is made if there are any.")
]
JobsOption = Annotated[
    int, typer.Option("-j", "--jobs", help="At most so many processes, each judging one candidate at a time.")
]
IsolateOption = Annotated[
    bool,
    typer.Option(
        help="Judge in another process, so that a candidate that crashes or hangs costs its own row; --no-isolate for "
        "a debugger.",
    ),
]
TrialOption = Annotated[
    float,
    typer.Option(
        "--trial-timeout",
        min=0,
        help="Seconds for one sample; what takes longer hangs. To load a case may take 600 in any case.",
    ),
]
SuspectOption = Annotated[
    bool,
    typer.Option("--allow-suspect", help="SUSPECT, an error in 16 bits that does not look like rounding, may pass."),
]
BudgetOption = Annotated[
    float | None,
    typer.Option(
        "--budget",
        min=0,
        help="Seconds; what is not judged by then counts as not judged. With --no-isolate a call that keeps the "
        "interpreter's lock, as a regular expression does, cannot be ended: it holds after it.",
    ),
]
MatchOption = Annotated[
    str | None, typer.Option("-k", help='Only checks with these parts in their names: -k "vjp and not partial".')
]
FirstOption = Annotated[bool, typer.Option("-x", "--exitfirst", help="Stop at the first row that does not pass.")]
QuietOption = Annotated[bool, typer.Option("-q", "--quiet", help="Show failures and the verdict only.")]
VerboseOption = Annotated[
    bool,
    typer.Option(
        "-v",
        "--verbose",
        help="Show each row with its numbers, its time and its whole reason, and every failure in full.",
    ),
]
LastFailedOption = Annotated[
    bool,
    typer.Option(
        "--last-failed", "--lf", help="Only what failed in the last run of the same case; if nothing did, all of it."
    ),
]
FailedFirstOption = Annotated[
    bool, typer.Option("--failed-first", "--ff", help="What failed in the last run first, then all else.")
]
WatchOption = Annotated[
    bool,
    typer.Option(
        "--watch/--no-watch",
        help="Judge again when a file changes that is judged, or that it imports or names in its folder; the last "
        "failures first.",
    ),
]
MarkdownOption = Annotated[
    Path | None, typer.Option("--markdown", help="Also write it to this file, as text for an issue.")
]
JunitOption = Annotated[Path | None, typer.Option("--junit", help="Also write it to this file, as JUnit XML for CI.")]


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
        start=Path.cwd(),
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
        seed=seed,
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
