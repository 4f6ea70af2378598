"""Hooks of MkDocs: the pages of the site that are not files in docs/, and the links between all of them.

The README, the book, the benchmarks, CHANGELOG.md and CONTRIBUTING.md are taken as they are. The pages of the checks,
of the commands and of the public names are generated, and the cases of failures.md are judged. Links are those of the
repository, so that they hold there, too; `_place` says where on the site a file of the repository is.
"""

from __future__ import annotations

import html
import json
import posixpath
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import api_pages
import make_failures
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

# Files and folders of the repository that the site has as generated pages.
GENERATED = {
    "parity_tests/harness/checks/explanations": "checks/index.md",
    "parity_tests/harness/specs/spec.py": "api/OpSpec.md",
    "parity_tests/cli/app.py": "commands.md",
}
# Pages of the repository, below its address.
OF_REPOSITORY = {"Repository": "", "Versions": "/releases", "Issues": "/issues"}
SHORT_CODE = re.compile(r"<code>([^<\n]{1,24})</code>")
CODE_IN_TABLE = re.compile(r"(?<=<code>)[^<]+(?=</code>)")
FENCE = re.compile(r"^(```.*?^```[^\n]*$)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
EQUATION = re.compile(r"\\tag\{(\d+)\}")
CITED = re.compile(r"(`[^`]*`|\$[^$]*\$|\[[^\]]*\]\([^)]*\))|\((\d{1,3})\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the sections of the navigation whose pages are generated; link the repository, if its address is known."""
    sections = {
        "Checks": ["checks/index.md", *(f"checks/{name}.md" for name in _check_names())],
        "The book": ["book/index.md", *(f"book/{name}" for name in _chapters())],
        "Found": ["found.md", *_families()],
        "Benchmarks": ["benchmarks/index.md", *(f"benchmarks/results/{path.name}" for path in _results("md"))],
        "Reference": [{"The API": ["api/index.md", *({name: f"api/{name}.md"} for name in api_pages.api_pages())]}],
        "Project": [{name: config.repo_url + path} for name, path in OF_REPOSITORY.items() if config.repo_url],
    }
    for section in config.nav or []:
        (title,) = section
        if title in sections:
            section[title] = [*section[title], *sections[title]]
    config.copyright = f"gradparity {_version()}, under the Apache License 2.0"
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for source in _sources():
        path = ROOT / source
        content = path.read_bytes() if path.suffix == ".svg" else path.read_text(encoding="utf-8")
        files.append(File.generated(config, _place(source), content=content))
    for place, text in (*_generated_pages(), *_notebooks(), *_reports()):
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn the links of the repository into those of the site, and link the numbers of equations."""
    place = page.file.src_uri
    source = next((source for source in _sources() if _place(source) == place), f"docs/{place}")
    markdown = re.sub(r"<!---.*?-->\n*", "", markdown, flags=re.DOTALL)
    if place == "failures.md":
        markdown = make_failures.with_pictures(markdown)
    parts = FENCE.split(markdown)
    for i in range(0, len(parts), 2):  # the others are code
        if place.startswith("book/"):
            parts[i] = _with_equations(parts[i], place)
        parts[i] = LINK.sub(lambda link: _link(link, source, place), parts[i])
    return "".join(parts)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Render the formulas as MathML, which browsers show without a script, and let long code in tables wrap."""
    content = re.sub(r"<th([^>]*)></th>", r"<td\1></td>", content)  # a corner, which heads nothing
    content = re.sub(r"<td.*?</td>", _breakable, content, flags=re.DOTALL)
    content = SHORT_CODE.sub(r'<code class="short">\1</code>', content)
    content = re.sub(r'<div class="arithmatex">\\\[(.*?)\\\]</div>', _displayed, content, flags=re.DOTALL)
    return re.sub(r'<span class="arithmatex">\\\((.*?)\\\)</span>', _inline, content, flags=re.DOTALL)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Name the search, which the theme leaves to its looks."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"')


def _breakable(cell: re.Match[str]) -> str:
    """A cell of a table whose code may go on in the next line after a dot, a comma or an opening bracket."""
    return CODE_IN_TABLE.sub(lambda code: re.sub(r"(?<=[._(,=/])(?=[^\W\d])", "<wbr>", code[0]), cell[0])


def _displayed(match: re.Match[str]) -> str:
    formula = html.unescape(match[1]).strip()
    tag = EQUATION.search(formula)
    number = f'<span class="number">({tag[1]})</span>' if tag else ""
    return f'<div class="formula">{convert(EQUATION.sub("", formula), display="block")}{number}</div>'


def _inline(match: re.Match[str]) -> str:
    return convert(html.unescape(match[1]).strip())


def _version() -> str:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


# Links.


def _place(source: str) -> str:
    """Where on the site a file of the repository is; the same path if it is not there."""
    if source in GENERATED:
        return GENERATED[source]
    folder, _, name = source.rpartition("/")
    if source in ("CHANGELOG.md", "CONTRIBUTING.md"):
        return source.lower()
    if name == "README.md":
        return posixpath.join({"derivation": "book"}.get(folder, folder), "index.md")
    if folder == "derivation":
        return f"book/{name}"
    return source.removeprefix("docs/")


def _link(link: re.Match[str], source: str, place: str) -> str:
    """A link of the repository as one of the site; only its text, if it leads to a file that the site does not have."""
    image, text, target = link.groups()
    if "://" in target or target.startswith("#"):
        return link[0]
    path, _, anchor = target.partition("#")
    wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    found = _place(wanted)
    on_site = wanted in _sources() or wanted in GENERATED or wanted.startswith("docs/")
    if not on_site:
        return f"`{wanted}`" if text.strip("`") == path else f"{text} (`{wanted}`)"
    relative = posixpath.relpath(found, posixpath.dirname(place) or ".")
    text = _title(wanted) if text == path else text
    return f"{image}[{text}]({relative}{'#' + anchor if anchor else ''})"


def _title(source: str) -> str:
    """The first heading of a page, in place of a link's text that is only the name of the file."""
    heading = re.search(r"^# (.*)$", (ROOT / source).read_text(encoding="utf-8"), re.MULTILINE)
    return heading[1] if heading else source


def _with_equations(text: str, place: str) -> str:
    """Anchors at the equations with a number, and links to them from where they are cited."""
    pages = _pages_of_equations()

    def cite(match: re.Match[str]) -> str:
        number = match[2]
        if number is None or number not in pages:
            return match[0]
        return f"[({number})]({pages[number]}#eq-{number})"

    def anchor(match: re.Match[str]) -> str:
        numbers = EQUATION.findall(match[0])
        return "".join(f'<a id="eq-{number}"></a>\n\n' for number in numbers) + match[0]

    formulas = re.split(r"(\$\$.*?\$\$)", text, flags=re.DOTALL)
    return "".join(
        re.sub(r"\$\$.*\$\$", anchor, part, flags=re.DOTALL) if i % 2 else CITED.sub(cite, part)
        for i, part in enumerate(formulas)
    )


def _pages_of_equations() -> dict[str, str]:
    """The file in derivation/ that derives each equation, by its number."""
    return {
        number: path.name
        for path in sorted((ROOT / "derivation").glob("*.md"))
        for number in EQUATION.findall(path.read_text(encoding="utf-8"))
    }


# Pages.


def _sources() -> list[str]:
    """The files outside of docs/ that the site has."""
    book = [f"derivation/{path.name}" for path in sorted((ROOT / "derivation").glob("*.md"))]
    results = [f"benchmarks/results/{path.name}" for kind in ("md", "svg") for path in _results(kind)]
    return ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/README.md", *book, *results]


def _results(kind: str) -> list[Path]:
    return sorted((ROOT / "benchmarks/results").glob(f"*.{kind}"))


def _chapters() -> list[str]:
    """The chapters of the book, in the order of its table of contents."""
    contents = (ROOT / "derivation/README.md").read_text(encoding="utf-8")
    return list(dict.fromkeys(re.findall(r"\]\((\w+\.md)\)", contents)))


def _families() -> list[dict[str, str]]:
    """The pages of docs/found, by their headings without the words that all of them begin with."""
    paths = sorted((ROOT / "docs/found").glob("*.md"))
    titles = [_title(f"docs/found/{path.name}").removeprefix("What was found: ") for path in paths]
    return [{title[0].upper() + title[1:]: f"found/{path.name}"} for title, path in zip(titles, paths, strict=True)]


def _check_names() -> list[str]:
    from parity_tests.harness.names import CHECKS

    return list(CHECKS)


def _generated_pages() -> Iterator[tuple[str, str]]:
    yield "commands.md", _commands()
    yield from api_pages.generated()
    yield from _generated_pages_of_checks()


def _generated_pages_of_checks() -> Iterator[tuple[str, str]]:
    from parity_tests.harness.checks import CHECKS
    from parity_tests.harness.checks.explanations import as_markdown

    rows = "\n".join(f"| [{name}]({name}.md) | {check.catches} |" for name, check in CHECKS.items())
    intro = "Each check tests one property of a candidate. They run in this order."
    yield "checks/index.md", f"# Checks\n\n{intro}\n\n| check | catches |\n|---|---|\n{rows}\n"
    for name, check in CHECKS.items():
        yield f"checks/{name}.md", as_markdown(check) + _planted(name)


def _notebooks() -> Iterator[tuple[str, str]]:
    """The notebooks of docs/ as pages: their texts, their code, and what it shows."""
    for path in sorted((ROOT / "docs").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        text = "\n\n".join(part for cell in cells for part in _of_cell(cell))
        yield f"{path.stem}.md", f"{text}\n\n[The notebook itself]({path.name}) can be downloaded.\n"


def _of_cell(cell: dict[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell["outputs"]:
        shown = output.get("data", {})
        if "text/html" in shown:  # in a shadow root, so that neither style reaches the other
            page = re.sub(r"\n\s*\n", "\n", "".join(shown["text/html"]))  # an empty line would end the block
            page = re.sub(r'<a href="#[^"]*">(.*?)</a>', r"\1", page)  # no anchor is found through it
            yield f'<div class="shown"><template shadowrootmode="open">\n{page}\n</template></div>'
        else:
            yield f"```text\n{''.join(output.get('text') or shown['text/plain'])}\n```"


def _reports() -> Iterator[tuple[str, str]]:
    """The reports of the cases of failures.md, which are judged now."""
    return ((place, page()) for place, page in make_failures.pages().items())


def _planted(check: str) -> str:
    """The mistakes that the tests plant for a check."""
    from parity_tests.suite.harness.checks.planted import cases_of

    lines = []
    for case in cases_of(check):
        for name, mistake in case.mistakes.items():
            unnoticed = f" (missed by {', '.join(mistake.passes)})" if mistake.passes else ""
            lines.append(f"- {name}{unnoticed}")
    head = "## Planted mistakes\n\nThe tests plant these mistakes, and this check must catch each of them:\n\n"
    return f"\n{head}" + "\n".join(lines) + "\n"


def _commands() -> str:
    """The commands with their options, as typer documents them."""
    command = [sys.executable, "-m", "typer", "parity_tests.cli.app", "utils", "docs", "--name", "gradparity"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.replace("# `gradparity`", "# All commands", 1)
