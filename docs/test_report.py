"""A row of found.md becomes a report in the form of its project, with what its repro prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from make_report import TEMPLATES, report, section

TABLE = """| [7](found/x.md#7-sine-of-1) | 2 | {project}: sine of 1 | `sin(1)` | 0 | 0.84 | mpmath | none |
"""
PAGE = """# A page

## 7. sine of 1

```python
given, right = 0, 0.84
print("gives", given, "right", right)
```

**Report**, not sent.

- Title: Sine of 1 is 0.
- Repro: the block above.
- Actual: 0.
- Expected: 0.84, by
  mpmath.
- Documentation: `sin` says nothing of 1.
- Likely cause: Unknown.
- Suggestion: None.
- Versions: 1.0.

## 8. another
"""


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    (tmp_path / "found").mkdir()
    (tmp_path / "found" / "x.md").write_text(PAGE)
    return tmp_path


@pytest.mark.parametrize("project", [*TEMPLATES, "somebody's package", "PyTorch, JAX"])
def test_a_report(docs: Path, project: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (docs / "found.md").write_text(TABLE.format(project=project))
    text = report(section(7, docs))
    assert text.startswith("Sine of 1 is 0.\n\n")
    template = TEMPLATES.get(project.split(",")[0])
    assert template is None or (template.problem in text and template.system in text)
    assert "It prints:\n\n```\ngives 0 right 0.84\n```" in text
    assert "Expected: 0.84, by mpmath." in text
    assert "Sine" not in text.partition("Suggestion")[2]
    assert "A tool found this" in text
    assert len(text.rpartition("```\n")[0].rpartition("```\n")[2]) > 3  # the versions


def test_a_row_without_a_report(docs: Path) -> None:
    (docs / "found.md").write_text(TABLE.format(project="JAX"))
    with pytest.raises(LookupError, match=r"docs/found\.md has no row 9"):
        section(9, docs)


def test_a_report_to_mlx_is_for_people_to_write(docs: Path) -> None:
    (docs / "found.md").write_text(TABLE.format(project="MLX"))
    text = report(section(7, docs))
    assert "in your own words" in text
    assert "given, right = 0, 0.84" in text
    assert "Sine" not in text
