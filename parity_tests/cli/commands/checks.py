"""The commands `gradparity checks` and `gradparity explain`: what the checks catch, and how to fix it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from parity_tests.cli.exit_codes import COULD_NOT_RUN
from parity_tests.cli.terminal import Output, complain
from parity_tests.harness.names import CHECKS, one_of

if TYPE_CHECKING:
    from parity_tests.harness.checks import Check


def checks() -> None:
    """List the checks, and what each is there to catch."""
    from rich.table import Table

    from parity_tests.harness.checks import CHECKS

    def described(check: Check) -> str:
        return check.catches + (f"\n(on request: --only {check.name})" if check.on_request else "")

    grid = Table("check", "catches")
    for item in CHECKS.values():
        grid.add_row(item.name, described(item))
    Output().show(grid)


def explain(
    check: Annotated[str, typer.Argument(help="The name of a check, as in the first column of the table.")],
) -> None:
    """Say what a check catches, with an example that it catches, and how to fix it.

    The example is a case file: `gradparity check` judges it. Exit codes: 0, and 2 for a name that no check has.
    """
    try:
        one_of("check", check, CHECKS)
    except ValueError as error:
        complain(str(error))
        raise typer.Exit(COULD_NOT_RUN) from error
    from parity_tests.cli.whole_code import WithWholeCode
    from parity_tests.harness.checks import CHECKS as CHECKS_THEMSELVES
    from parity_tests.harness.checks.explanations import as_markdown

    Output().show(WithWholeCode(as_markdown(CHECKS_THEMSELVES[check])), crop=False)
