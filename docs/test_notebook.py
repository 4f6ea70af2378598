"""The notebook runs, and what it shows is what it says."""

from __future__ import annotations

import nbclient
import nbformat
import pytest
from make_notebook import NOTEBOOK, executed, verdicts


def test_it_runs_and_shows_what_is_written_in_it():
    written = nbformat.read(NOTEBOOK, as_version=4)
    shown = [*verdicts(written)]
    assert ["All agree" in text for text in shown] == [
        False,
        False,
        False,
        True,
    ]  # the verdict, two failures, the other
    assert "looks like  x_bar lacks the term dot(output_bar * output, w)" in shown[1]
    assert [*verdicts(executed(written))] == shown


def test_a_cell_that_raises_would_be_noticed():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "code"][-1:]  # without what defines `report`
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="name 'report' is not defined"):
        executed(notebook)
