"""docs/aten.md is what `jax_ref.aten` has, and of the core nothing is missing without a reason."""

from __future__ import annotations

from pathlib import Path

from parity_tests.sweep.coverage import MISSING, as_markdown, core, packets

ROOT = Path(__file__).parents[3]


def test_the_page_is_up_to_date():
    """`python -c "from parity_tests.sweep.coverage import as_markdown; print(as_markdown(), end='')" > docs/aten.md`"""
    assert (ROOT / "docs/aten.md").read_text(encoding="utf-8") == as_markdown()


def test_what_is_missing_of_the_core_has_its_reason():
    assert core() - packets() == set(MISSING)
    assert len(packets()) > 400
