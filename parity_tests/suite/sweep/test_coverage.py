"""docs/aten.md is what `jax_ref.aten` has, and of the core nothing is missing without a reason."""

from __future__ import annotations

import inspect
from pathlib import Path

from jax_ref.aten import OPERATORS
from parity_tests.sweep.coverage import MISSING, as_markdown, core, packets

ROOT = Path(__file__).parents[3]


def test_the_page_is_up_to_date():
    """`python -c "from parity_tests.sweep.coverage import as_markdown; print(as_markdown(), end='')" > docs/aten.md`"""
    assert (ROOT / "docs/aten.md").read_text(encoding="utf-8") == as_markdown()


def test_what_is_missing_of_the_core_has_its_reason():
    assert core() - packets() == set(MISSING)
    assert len(packets()) > 400


def test_every_function_is_typed_and_documented():
    """For `help()`; a lambda in a table is neither."""
    for name, function in OPERATORS.items():
        signature = inspect.signature(function)
        types = [signature.return_annotation, *(p.annotation for p in signature.parameters.values())]
        assert inspect.getdoc(function), name
        assert inspect.Signature.empty not in types, name
