"""Where cases come from, one file each: every source of cases is a command that judges them."""

from parity_tests.cli.sources import case_files, catalog, evaluate
from parity_tests.cli.sources.source import SourceCommand

SOURCES: tuple[SourceCommand, ...] = (
    catalog.COMMAND,
    case_files.COMMAND,
    evaluate.COMMAND,
)
