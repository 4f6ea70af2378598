"""The command `gradparity report`: reports of earlier runs, shown, merged and compared."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parity_tests.cli.exit_codes import COULD_NOT_RUN
from parity_tests.cli.report_files import ReportFiles, report_files
from parity_tests.cli.terminal import Output, complain

if TYPE_CHECKING:
    from parity_tests.harness.report.report import Report


def _show_schema(wanted: bool) -> None:
    if wanted:
        from json import dumps

        from parity_tests.harness.report.schema import report_schema

        typer.echo(dumps(report_schema(), indent=1))
        raise typer.Exit


def report(
    files: Annotated[list[Path], typer.Argument(help="Reports that --json has written, the earliest first.")],
    *,
    json: Annotated[Path | None, typer.Option("--json", help="Write the merged report to this file, as data.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write it as a page to look at.")] = None,
    markdown: Annotated[Path | None, typer.Option("--markdown", help="Write it as text for an issue.")] = None,
    junit: Annotated[Path | None, typer.Option("--junit", help="Write it as JUnit XML for CI.")] = None,
    schema: Annotated[
        bool,
        typer.Option("--schema", callback=_show_schema, is_eager=True, help="Print the JSON Schema of such data."),
    ] = False,
) -> None:
    """Show the report of an earlier run; or merge several, and say what is new and what is fixed in the last.

    In the merged report a row that several have is that of the last. Exit codes: of one report as of its run; of
    several 0 if nothing is new, 1 if something is, or if a row that passed or failed is skipped or refused now, 2 if a
    report cannot be read or written, a run ended early, or the last one has judged nothing.
    """
    try:
        written = report_files(json, html, markdown, junit)
        reports = [_read(file) for file in files]
    except (OSError, ValueError) as error:
        complain(str(error))
        raise typer.Exit(COULD_NOT_RUN) from error
    from parity_tests.harness.report.comparison import as_lines, compare, merged
    from parity_tests.harness.report.table import table
    from parity_tests.harness.report.text import details

    whole = merged(reports)
    output = Output(stderr=any(file is not None and file.path is None for file in written))
    output.show(table(whole), details(whole), sep="\n", soft_wrap=True, highlight=False)
    code = whole.exit_code
    if len(reports) > 1:
        comparison = compare(merged(reports[:-1]), reports[-1])
        output.show("", *as_lines(comparison), sep="\n", soft_wrap=True, highlight=False)
        last = reports[-1]
        nothing = last.exit_code == COULD_NOT_RUN and not last.failed
        code = COULD_NOT_RUN if whole.error or nothing else int(bool(comparison.new or comparison.lost))
    raise typer.Exit(code if _write(whole, written) else COULD_NOT_RUN)


def _read(file: Path) -> Report:
    """The report of a file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no report.
    """
    from parity_tests.harness.data_files import Malformed, read_json
    from parity_tests.harness.report.report import Report

    what = "a report that `gradparity check --json` has written"
    data = read_json(file, what)
    try:
        return Report.from_dict(data)
    except Malformed as error:
        raise Malformed(f"{file}: not {what}: {error}") from error


def _write(whole: Report, files: ReportFiles) -> bool:
    """Write the report in every form that is asked for; returns whether all could be written."""
    from parity_tests.harness.report.html import as_html
    from parity_tests.harness.report.junit import as_junit
    from parity_tests.harness.report.markdown import as_markdown
    from parity_tests.harness.report.report import Report

    written = True
    for file, text in zip(files, (Report.as_json, as_html, as_markdown, as_junit), strict=True):
        if file is None:
            continue
        try:
            file.write(text(whole))
        except OSError as error:
            complain(f"{file.option} {file.given} cannot be written: {error.strerror or error}")
            written = False
    return written
