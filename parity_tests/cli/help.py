"""The help of a command for a terminal of 80 columns: options in groups, with as much room as there is for text."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

_COLUMN = 26  # characters for an option and its value; the text of a longer one begins in the next line


class GroupedCommand(TyperCommand):
    """A command whose help has a group for each `rich_help_panel` of its options."""

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the whole summary, which is wrapped; Click cuts it."""
        return " ".join((self.help or "").partition("\n\n")[0].split())

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, the command's own options, and each group of shared ones; `--help` is in the last."""
        groups: dict[str, list[tuple[str, str]]] = {}
        title = "Options"
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            if "--help" not in parameter.opts or title == "Arguments":
                usual = "Arguments" if parameter.param_type_name == "argument" else "Options"
                title = getattr(parameter, "rich_help_panel", None) or usual
            groups.setdefault(title, []).append(record)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records, col_max=_COLUMN)
