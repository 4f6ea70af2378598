"""What keeps people from reading a page who see little of it, or hear it: the rules of axe-core that a page breaks.

    python docs/accessibility.py SITE

looks at every page of a built site, on a light and on a dark screen. The names of the rules are those of axe-core.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from xml.etree.ElementTree import Element

import cssselect2
import html5lib
from styles import Screen, Sheets, Style, contrast

LARGE, LARGE_BOLD = 24.0, 18.66  # pixels, from which on a contrast of 3 is enough, else of 4.5
HEADINGS = {f"h{level}": level for level in range(1, 7)}
SCREENS = (Screen(), Screen(dark=True))


class Problem(NamedTuple):
    """A rule that a page breaks, and where."""

    rule: str
    where: str


@dataclass
class Looked:
    """What was found on pages, and how much was looked at."""

    problems: Counter[Problem]
    texts: int = 0
    undecided: int = 0  # texts before a picture or a gradient


def problems(page: str, site: Path | None = None, folder: str = ".") -> Looked:
    """Look at a page.

    Args:
        page: its HTML.
        site: the site that has its stylesheets; None if it has all of them in itself.
        folder: where in the site the page lies.
    """
    root = html5lib.parse(page, treebuilder="etree", namespaceHTMLElements=False)
    looked = Looked(Counter())
    for screen in SCREENS:
        shown = _look_at_texts(root, _sheets(_stylesheets(root, site, folder), screen), screen, looked)
    looked.problems.update(_of_structure(root, shown))
    return looked


# Structure.


def _of_structure(root: Element, shown: list[Element]) -> Iterator[Problem]:
    """What is wrong whatever it looks like; `shown`: the elements that are not hidden by a stylesheet."""
    if not root.get("lang"):
        yield Problem("html-has-lang", "html")
    if not _said(root.find("head/title")):
        yield Problem("document-title", "head")
    yield from _of_headings(shown)
    identities = Counter(element.get("id") for element in root.iter() if element.get("id"))
    yield from (Problem("duplicate-id", f"#{name}") for name, count in identities.items() if count > 1)
    labelled = {label.get("for") for label in root.iter("label") if _said(label)}
    inside = {id(field) for label in root.iter("label") for field in label.iter() if _said(label)}
    for element in shown:
        rule = None if element.get("aria-hidden") == "true" else _nameless(element)
        known = element.get("id") in labelled or id(element) in inside
        if rule is not None and not (rule == "label" and known):
            yield Problem(rule, _named(element))


def _nameless(element: Element) -> str | None:
    """The rule that an element breaks which has no name for whoever does not see it; a field may have a label."""
    if element.tag == "img":
        return "image-alt" if element.get("alt") is None else None
    by_author = {"dialog": "aria-dialog-name", "img": "role-img-alt"}.get(element.get("role", ""))
    if by_author is not None:
        return None if _label(element) else by_author
    if _said(element) or (element.get("title") or "").strip():
        return None
    match element.tag:
        case "a":
            return "link-name" if element.get("href") is not None else None
        case "button":
            return "button-name"
        case "th":
            return "empty-table-header"
        case "iframe":
            return "frame-title"
        case "input" | "select" | "textarea":
            return None if element.get("type") in ("hidden", "submit", "button") else "label"
    return None


def _of_headings(shown: list[Element]) -> Iterator[Problem]:
    headings = [element for element in shown if element.tag in HEADINGS]
    if sum(heading.tag == "h1" for heading in headings) != 1:
        yield Problem("page-has-heading-one", "body")
    yield from (Problem("empty-heading", heading.tag) for heading in headings if not _said(heading))
    for above, below in itertools.pairwise(headings):
        if HEADINGS[below.tag] > HEADINGS[above.tag] + 1:
            yield Problem("heading-order", f"{below.tag} after {above.tag}: {_said(below)}")


def _said(element: Element | None) -> str:
    """What a screen reader says of an element: its name, or its text with the names of pictures in it."""
    if element is None:
        return ""
    if label := _label(element):
        return label
    parts = [element.text or ""]
    for child in element:
        inner = "" if child.get("aria-hidden") == "true" or not isinstance(child.tag, str) else _said(child)
        parts += [inner, child.tail or ""]
    return " ".join(" ".join(parts).split())


def _label(element: Element) -> str:
    """The name that an element has by its attributes."""
    names = (element.get(attribute, "").strip() for attribute in ("aria-label", "aria-labelledby", "alt"))
    return next(filter(None, names), "")


def _named(element: Element) -> str:
    told = [f'{name}="{element.get(name)}"' for name in ("id", "class", "src", "href", "name") if element.get(name)]
    return f"<{' '.join([element.tag, *told])}>"


# Contrast.


def _stylesheets(root: Element, site: Path | None, folder: str) -> tuple[str, ...]:
    found = []
    for element in root.iter():
        if element.tag == "style":
            found.append(element.text or "")
        elif element.tag == "link" and "stylesheet" in (element.get("rel") or "") and site is not None:
            address = (element.get("href") or "").partition("?")[0]
            path = site / address.removeprefix("/") if address.startswith("/") else site / folder / address
            found.append(path.read_text(encoding="utf-8"))
    return tuple(found)


@functools.lru_cache(maxsize=8)
def _sheets(texts: tuple[str, ...], screen: Screen) -> Sheets:
    return Sheets(texts, screen)


def _look_at_texts(root: Element, sheets: Sheets, screen: Screen, looked: Looked) -> list[Element]:
    """Look at every text that is shown; returns the elements that are."""
    for element in root.iter():
        if element.get("data-md-color-scheme"):  # which a script of mkdocs-material sets to what the reader chose
            element.set("data-md-color-scheme", "slate" if screen.dark else "default")
    shown: list[Element] = []

    def walk(element: cssselect2.ElementWrapper, above: Style, parent: Element | None) -> None:
        style = sheets.style(element, above)
        if not style.shown:
            return
        tree = element.etree_element
        shown.append(tree)
        if _has_text(tree) and style.opacity > 0.05 and not _is_disabled(tree):
            looked.texts += 1
            if style.colour is None or style.behind is None:
                looked.undecided += 1
            else:
                looked.problems.update(_of_contrast(tree, style, above, parent, "dark" if screen.dark else "light"))
        for child in element.iter_children():
            walk(child, style, tree)

    walk(cssselect2.ElementWrapper.from_html_root(root), Style(), None)
    return shown


def _has_text(element: Element) -> bool:
    return any(text and text.strip() for text in (element.text, *(child.tail for child in element)))


def _is_disabled(element: Element) -> bool:
    return element.get("disabled") is not None or element.get("aria-disabled") == "true"


def _of_contrast(
    element: Element, style: Style, above: Style, parent: Element | None, scheme: str
) -> Iterator[Problem]:
    assert style.colour is not None
    assert style.behind is not None
    seen = style.colour._replace(alpha=style.colour.alpha * style.opacity).over(style.behind)
    ratio = contrast(seen, style.behind)
    enough = 3.0 if style.size >= LARGE or (style.bold and style.size >= LARGE_BOLD) else 4.5
    of = f"{element.tag}.{(element.get('class') or '').replace(' ', '.')}".rstrip(".")
    if ratio < enough:
        yield Problem("color-contrast", f"{of}, {scheme}: {ratio:.2f}, and {enough} is needed")
    in_text = parent is not None and parent.tag in ("p", "li", "dd", "td") and _has_text(parent)
    if element.tag == "a" and element.get("href") and in_text and not style.underlined and above.colour is not None:
        ratio = contrast(seen, above.colour.over(style.behind))
        if ratio < 3:
            yield Problem("link-in-text-block", f"{of}, {scheme}: {ratio:.2f} beside its text, and no line below it")


# All pages of a site.


def main() -> None:
    """Look at a site; the exit code is 1 if a page has a problem, or if nothing was looked at."""
    parser = argparse.ArgumentParser(description="Look for what keeps people from reading the pages of a site.")
    parser.add_argument("site", type=Path)
    site = parser.parse_args().site
    texts = undecided = 0
    found: dict[Problem, list[str]] = {}
    pages = sorted(site.glob("**/*.html"))
    for path in pages:
        looked = problems(path.read_text(encoding="utf-8"), site, str(path.parent.relative_to(site)))
        texts, undecided = texts + looked.texts, undecided + looked.undecided
        for problem in looked.problems:
            found.setdefault(problem, []).append(str(path.relative_to(site)))
    for problem, where in sorted(found.items()):
        more = f" and {len(where) - 1} more" if len(where) > 1 else ""
        print(f"{problem.rule}: {problem.where} in {where[0]}{more}")  # noqa: T201
    print(f"{len(pages)} pages, {texts} texts, {undecided} of them undecided: {len(found)} problems")  # noqa: T201
    sys.exit(1 if found or not texts else 0)


if __name__ == "__main__":
    main()
