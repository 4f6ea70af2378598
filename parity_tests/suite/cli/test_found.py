"""`gradparity found`: the rows of docs/found.md that have some words, in a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity_tests.cli.commands import found as command
from parity_tests.cli.commands.found import SEVERITIES, Entry, entries, page
from parity_tests.suite.cli._square import gradparity

ROW = (
    "| [7](found/x.md#7-f-g) | 2 | JAX: `f` of `g` | `f(1)` | 0 | **1** | a count "
    "| [jax#5](https://github.com/jax-ml/jax/issues/5), right in 0.12 |\n"
)


def test_a_row_is_read():
    (entry,) = entries(f"| | severity |\n|---|---|\n{ROW}| [8](found/x.md) | 2 |\n")
    upstream = "https://github.com/jax-ml/jax/issues/5, right in 0.12"
    assert entry == Entry(7, "found/x.md", "7-f-g", 2, "JAX: `f` of `g`", "`f(1)`", "0", "1", "a count", upstream)


def test_the_words_may_be_parts_in_any_order_and_case():
    (entry,) = entries(ROW)
    assert all(entry.has(words) for words in ([], ["jax"], ["G", "f(1)"]))
    assert not entry.has(["jax", "torch"])


def test_the_severities_are_those_of_the_page():
    said = " ".join(page().split())
    assert all(f" {number}. wrong at" in said or f" {number}. {text}" in said for number, text in SEVERITIES.items())


def test_what_is_printed():
    result = gradparity("found", "KRON", "transposed")
    assert result.exit_code == 0
    first, *lines, last = result.output.splitlines()
    assert first == "25. PyTorch: `kron` of a transposed matrix"
    assert "    repro     docs/found/products.md, section 25" in lines
    assert last.startswith("seen with PyTorch 2.13.0 (CPU), JAX 0.10.2")
    assert len(gradparity("found").output.splitlines()) == len(entries(page())) + 1


def test_nothing_is_told_as_such():
    result = gradparity("found", "kron", "nosuch")
    assert (result.exit_code, result.output) == (1, "no entry has kron and nosuch; gradparity found lists all\n")


def test_an_installation_reads_its_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    copy = tmp_path / "found.md"
    copy.write_text(f"PyTorch 1.0 (CPU), JAX 0.1 (CPU). And so on.\n\n{ROW}")
    monkeypatch.setattr(command, "_PAGES", (copy, *command._PAGES))
    assert gradparity("found").output == "  7  JAX: `f` of `g`\nseen with PyTorch 1.0 (CPU), JAX 0.1 (CPU)\n"
