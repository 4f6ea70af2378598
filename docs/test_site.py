"""The navigation: the changelog is a page of the site, and the repository is linked where its address is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import site_hooks
from mkdocs.config import load_config

ROOT = Path(__file__).resolve().parent.parent
ADDRESS = "https://host.invalid/owner/gradparity"


def section(title: str) -> list[Any]:
    """The pages of a section of the navigation, as the hooks fill it."""
    config = site_hooks.on_config(load_config(str(ROOT / "mkdocs.yml")))
    (found,) = (each[title] for each in config.nav or [] if title in each)
    return found


def test_the_changelog_is_a_page_and_not_a_copy():
    assert {"Changelog": "changelog.md"} in section("Project")
    assert "CHANGELOG.md" in site_hooks._sources()
    assert site_hooks._place("CHANGELOG.md") == "changelog.md"
    assert not (ROOT / "docs/changelog.md").exists()


def test_the_repository_its_versions_and_issues_are_linked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GRADPARITY_REPOSITORY", ADDRESS)
    assert load_config(str(ROOT / "mkdocs.yml")).repo_url == ADDRESS  # in the header
    links = {name: to for each in section("Project") for name, to in each.items() if "://" in to}
    assert links == {"Repository": ADDRESS, "Versions": f"{ADDRESS}/releases", "Issues": f"{ADDRESS}/issues"}


def test_there_is_no_dead_link_where_the_address_is_not_known(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("GRADPARITY_REPOSITORY", raising=False)
    assert not load_config(str(ROOT / "mkdocs.yml")).repo_url
    assert [to for each in section("Project") for to in each.values()] == ["changelog.md", "contributing.md"]


def test_each_page_says_of_which_version_it_is():
    config = site_hooks.on_config(load_config(str(ROOT / "mkdocs.yml")))
    assert (config.copyright or "").startswith(f"gradparity {site_hooks._version()},")


def test_a_family_of_what_was_found_is_named_without_the_words_that_all_begin_with():
    names = [name for each in section("Found") if isinstance(each, dict) for name in each]
    assert len(names) > 10
    assert not [name for name in names if name.startswith("What was found") or name[0].islower()]


def test_long_code_in_a_table_may_wrap_and_short_code_in_a_text_does_not():
    long = "<td><code>torch.func.jacrev(f, 0.5)</code></td>"
    content = site_hooks.on_page_content(f"<p><code>--html</code></p>{long}", None, None, None)  # type: ignore[arg-type]
    assert '<code class="short">--html</code>' in content
    assert "<td><code>torch.<wbr>func.<wbr>jacrev(<wbr>f, 0.5)</code></td>" in content
