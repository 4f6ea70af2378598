"""Makes the metadata of a release: the addresses of a repository, in which README.md and pyproject.toml have none.

    python .github/release.py https://HOST/OWNER/NAME v0.1.0

A package index shows README.md without the files beside it, so its links and pictures become absolute, at the tag. The
tag must be the version of pyproject.toml, which CHANGELOG.md must have as a section, and CITATION.cff as its version.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_LINK = re.compile(r"(!?)(\[[^\]]*\])\((?!https?:|#)([^)]+)\)")


def absolute(readme: str, repository: str, tag: str) -> str:
    """Return the text with absolute links: of pages as they are shown, of pictures as files."""

    def address(match: re.Match[str]) -> str:
        picture, label, path = match.groups()
        return f"{picture}{label}({repository}/{'raw' if picture else 'blob'}/{tag}/{path})"

    return _LINK.sub(address, readme)


def with_urls(pyproject: str, repository: str) -> str:
    """Return the text with `[project.urls]`."""
    urls = {"Repository": "", "Issues": "/issues", "Changelog": "/blob/HEAD/CHANGELOG.md"}
    lines = "".join(f'{name} = "{repository}{path}"\n' for name, path in urls.items())
    return pyproject.replace("[project.scripts]\n", f"[project.urls]\n{lines}\n[project.scripts]\n", 1)


def faults(root: Path, tag: str) -> list[str]:
    """Return what is not ready for a release of this tag."""
    version = tag.removeprefix("v")
    needed = {
        "pyproject.toml": f'version = "{version}"',
        "CHANGELOG.md": f"## [{version}]",
        "CITATION.cff": f"version: {version}",
    }
    texts = {name: (root / name).read_text(encoding="utf-8").splitlines() for name in needed}
    return [
        f"{name} has no line that begins with {line}"
        for name, line in needed.items()
        if not any(each.startswith(line) for each in texts[name])
    ]


def main(repository: str, tag: str) -> None:
    """Check the tag, and write both files."""
    if wrong := faults(ROOT, tag):
        sys.exit("\n".join(wrong))
    for name, text in (("README.md", absolute), ("pyproject.toml", lambda text, url, _: with_urls(text, url))):
        path = ROOT / name
        path.write_text(text(path.read_text(encoding="utf-8"), repository, tag), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
