"""Print the report of a row of found.md in the form of its project's template: `python docs/make_report.py 16`.

The repro runs here and now, in the installed versions, so that the report has what it prints on this machine.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

DOCS = Path(__file__).parent
BY_A_TOOL = (
    "A tool found this: gradparity, which compares derivatives of frameworks. I have run the lines above, and read "
    "what I send."
)
PARTS = ("Title", "Repro", "Actual", "Expected", "Documentation", "Likely cause", "Suggestion", "Versions")


@dataclass(frozen=True)
class Section:
    """A row of found.md with its section.

    Attributes:
        project: as the row names it: PyTorch, JAX, MLX or a package; of two frameworks the first.
        repro: a program.
        parts: the text of the report, by `PARTS`.
    """

    project: str
    repro: str
    parts: dict[str, str]


@dataclass(frozen=True)
class Template:
    """The form of a project's issues.

    Attributes:
        problem: the heading of the description.
        system: the heading of the versions.
        environment: a program that prints them.
    """

    problem: str
    system: str
    environment: str


TEMPLATES = {
    "PyTorch": Template(
        "### 🐛 Describe the bug", "### Versions", "from torch.utils import collect_env; collect_env.main()"
    ),
    "JAX": Template(
        "### Description",
        "### System info (python version, jaxlib version, accelerator, etc.)",
        "import jax; jax.print_environment_info()",
    ),
}
IN_YOUR_OWN_WORDS = (
    "MLX's rules for contributions do not let a tool write an issue. Run the repro, and say in your own words what it "
    "shows:"
)
OF_A_PACKAGE = Template(
    "### Description",
    "### Environment",
    "import platform, torch, jax; print(platform.platform(), 'Python', platform.python_version(), 'torch', "
    "torch.__version__, 'jax', jax.__version__)",
)


def section(number: int, docs: Path = DOCS) -> Section:
    """The section of a row.

    Raises:
        LookupError: there is no such row.
    """
    table = (docs / "found.md").read_text(encoding="utf-8")
    row = re.search(rf"^\| \[{number}\]\(found/([\w-]+\.md)#[^)]*\) \| [1-4] \| ([^:|]*):", table, re.MULTILINE)
    if row is None:
        raise LookupError(f"docs/found.md has no row {number}")
    text = (docs / "found" / row[1]).read_text(encoding="utf-8")
    body = re.split(r"^## ", text.partition(f"\n## {number}. ")[2], maxsplit=1, flags=re.MULTILINE)[0]
    repro = "\n\n".join(re.findall(r"^```python\n(.*?)^```", body, re.MULTILINE | re.DOTALL))
    report = body.rpartition("**Report**")[2]
    parts = {part: re.search(rf"^- {part}: ((?:.*\n?)(?:  .*\n?)*)", report, re.MULTILINE) for part in PARTS}
    return Section(
        row[2].split(",")[0].strip(),
        repro,
        {part: " ".join(found[1].split()) for part, found in parts.items() if found},
    )


def printed(program: str) -> str:
    """What a program prints, on both streams."""
    command = [sys.executable, "-W", "ignore", "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def report(of: Section) -> str:
    """The text of an issue, title first; of MLX the repro only."""
    if of.project == "MLX":
        return f"{IN_YOUR_OWN_WORDS}\n\n```python\n{of.repro.strip()}\n```"
    template, parts = TEMPLATES.get(of.project, OF_A_PACKAGE), of.parts
    told = [f"{part}: {parts[part]}" for part in ("Actual", "Expected", "Documentation", "Likely cause", "Suggestion")]
    return "\n\n".join(
        [
            parts["Title"],
            template.problem,
            f"```python\n{of.repro.strip()}\n```",
            f"It prints:\n\n```\n{printed(of.repro)}\n```",
            *told,
            f"Seen with: {parts['Versions']}",
            BY_A_TOOL,
            template.system,
            f"```\n{printed(template.environment)}\n```",
        ]
    )


def main(number: Annotated[int, typer.Argument(help="Of the row in docs/found.md.")]) -> None:
    """Print the report of a row."""
    try:
        typer.echo(report(section(number)))
    except LookupError as error:
        raise typer.BadParameter(str(error)) from error


if __name__ == "__main__":
    typer.run(main)
