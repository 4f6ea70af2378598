"""Run the notebook and write what it shows into it: `python docs/make_notebook.py`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import nbclient
import nbformat

NOTEBOOK = Path(__file__).with_name("try_it.ipynb")


def executed(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Run a copy of a notebook, from the first cell to the last, in the folder of the repository.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell raises.
    """
    copy = nbformat.from_dict(notebook)
    for cell in copy.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    asyncio.run(nbclient.NotebookClient(copy, timeout=300).async_execute())
    for cell in copy.cells:
        cell.metadata.pop("execution", None)  # when it was run
        for data in (output.get("data", {}) for output in cell.get("outputs", ())):
            if "text/html" in data:  # but for the machine and the date
                data["text/html"] = re.sub(r"<h2>Environment</h2>.*?</dl>", "", data["text/html"], flags=re.DOTALL)
    copy.metadata.pop("language_info", None)  # by which Python
    return copy


def verdicts(notebook: nbformat.NotebookNode) -> Iterator[str]:
    """What the notebook shows that is the same on every machine: of each report the verdict and the failures."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            page, _, _ = output.get("data", {}).get("text/html", "").partition("<h2>What the checks catch</h2>")
            yield from re.findall(r'<p class="verdict.*?</p>|<pre>.*?</pre>', page, re.DOTALL)


def main() -> None:
    """Run it and write it."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.write(executed(notebook), NOTEBOOK)


if __name__ == "__main__":
    main()
