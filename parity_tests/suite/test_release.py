"""A release: its metadata, its addresses, and the packages that the wheel installs at top level."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = "https://host.example/owner/gradparity"


def _release():
    spec = importlib.util.spec_from_file_location("release", ROOT / ".github" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_readme_of_a_release_has_absolute_links_to_files_that_exist() -> None:
    text = _release().absolute(_text("README.md"), REPOSITORY, "v1")
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert len(targets) > 20
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []
    paths = [re.sub(r"^.*?/(?:blob|raw)/v1/|#.*$", "", target) for target in targets if target.startswith(REPOSITORY)]
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert f"({REPOSITORY}/raw/v1/docs/pictures/verdict.svg)" in text


def test_the_metadata_of_a_release_has_addresses() -> None:
    project = tomllib.loads(_release().with_urls(_text("pyproject.toml"), REPOSITORY))["project"]
    assert project["urls"] == {
        "Repository": REPOSITORY,
        "Issues": f"{REPOSITORY}/issues",
        "Changelog": f"{REPOSITORY}/blob/HEAD/CHANGELOG.md",
    }
    assert project["authors"]
    assert project["scripts"] == {"gradparity": "gradparity.__main__:main"}


def test_a_tag_needs_the_version_in_three_files(tmp_path: Path) -> None:
    version = tomllib.loads(_text("pyproject.toml"))["project"]["version"]
    for name in ("pyproject.toml", "CHANGELOG.md", "CITATION.cff"):
        (tmp_path / name).write_text(_text(name), encoding="utf-8")
    faults = _release().faults
    assert faults(tmp_path, f"v{version}") == []
    assert [line.partition(" ")[0] for line in faults(tmp_path, "v9.9.9")] == [
        "pyproject.toml",
        "CHANGELOG.md",
        "CITATION.cff",
    ]


def test_the_forms_are_yaml() -> None:
    forms = [*ROOT.glob(".github/**/*.yml"), ROOT / "CITATION.cff"]
    assert len(forms) >= 5
    assert all(isinstance(yaml.safe_load(form.read_text(encoding="utf-8")), dict) for form in forms)


def test_the_documentation_names_the_packages_of_the_wheel() -> None:
    packages = tomllib.loads(_text("pyproject.toml"))["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    (paragraph,) = (part for part in _text("CONTRIBUTING.md").split("\n\n") if part.startswith("The wheel installs"))
    assert [name for name in packages if f"`{name}`" not in paragraph] == []
    checked = tomllib.loads(_text("pyproject.toml"))["tool"]["check-wheel-contents"]["toplevel"]
    assert sorted(checked) == sorted(packages)
