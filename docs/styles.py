"""What colours and sizes a page's stylesheets give its texts: the part of CSS that contrast depends on.

Selectors are matched by cssselect2, and stylesheets read by tinycss2. What is here is the rest: media queries, nested
rules, the cascade, inheritance, custom properties, and the background that lies behind a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import cssselect2
import tinycss2
from tinycss2 import color4

BROWSER = """
head, script, style, template, title, noscript, datalist, [hidden] { display: none }
details:not([open]) > :not(summary) { display: none }
a:link { color: #0000ee; text-decoration: underline } mark { background: #ff0; color: #000 }
h1 { font-size: 2em } h2 { font-size: 1.5em } h3 { font-size: 1.17em } h5 { font-size: .83em } h6 { font-size: .67em }
b, strong, th, h1, h2, h3, h4, h5, h6 { font-weight: bold } small { font-size: .83em }
"""
INHERITED = ("color", "font-size", "font-weight", "visibility")
READ = (
    *INHERITED,
    "background",
    "background-color",
    "background-image",
    "display",
    "opacity",
    "font",
    "text-decoration",
)
_VARIABLE = re.compile(r"var\(\s*(--[\w-]+)\s*(?:,((?:[^()]|\([^()]*\))*))?\)")
_LENGTH = re.compile(r"([\d.]+)(px|rem|em|%)")


class Colour(NamedTuple):
    """In sRGB, each component in [0, 1]."""

    red: float
    green: float
    blue: float
    alpha: float = 1.0

    def over(self, behind: Colour) -> Colour:
        """What is seen of it before an opaque colour, in 8 bits as on a screen."""
        mixed = (self.alpha * a + (1 - self.alpha) * b for a, b in zip(self[:3], behind[:3], strict=True))
        return Colour(*(round(255 * c) / 255 for c in mixed))

    def luminance(self) -> float:
        """The relative luminance of WCAG 2."""
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in self[:3]]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: Colour, other: Colour) -> float:
    """The contrast ratio of WCAG 2, between 1 and 21."""
    darker, lighter = sorted((one.luminance(), other.luminance()))
    return (lighter + 0.05) / (darker + 0.05)


@dataclass(frozen=True)
class Screen:
    """Where a page is looked at."""

    dark: bool = False
    width: float = 1280.0

    def fits(self, query: str) -> bool:
        """Does a media query hold? A feature that is not known does not."""
        return any(self._fits_all(part.strip()) for part in query.lower().split(","))

    def _fits_all(self, query: str) -> bool:
        negated = query.startswith("not ")
        terms = re.split(r"\s+and\s+", query.removeprefix("not ").removeprefix("only "))
        return all(map(self._fits_one, terms)) is not negated

    def _fits_one(self, term: str) -> bool:
        if term in ("", "all", "screen"):
            return True
        if match := re.fullmatch(r"\((min|max)-width:\s*([\d.]+)(em|rem|px)\)", term):
            width = float(match[2]) * (1 if match[3] == "px" else 16)
            return self.width >= width if match[1] == "min" else self.width <= width
        scheme = "dark" if self.dark else "light"
        return re.sub(r"\s", "", term) == f"(prefers-color-scheme:{scheme})"


BLACK, WHITE = Colour(0, 0, 0), Colour(1, 1, 1)


@dataclass
class Style:
    """What holds of an element; a colour that cannot be told is None."""

    colour: Colour | None = BLACK
    size: float = 16.0
    bold: bool = False
    shown: bool = True
    opacity: float = 1.0
    behind: Colour | None = WHITE
    underlined: bool = False
    variables: dict[str, str] = field(default_factory=dict)


class Sheets:
    """The stylesheets of a page on a screen."""

    def __init__(self, texts: Iterable[str], screen: Screen) -> None:
        self._matcher, self._screen, self._order = cssselect2.Matcher(), screen, 0
        self.refused: list[str] = []  # selectors that cssselect2 does not know
        for text in (BROWSER, *texts):
            self._of_author = text is not BROWSER
            self._add(tinycss2.parse_stylesheet(text, skip_comments=True, skip_whitespace=True), "")

    def _add(self, rules: Iterable[tinycss2.ast.Node], parent: str) -> None:
        own: list[tinycss2.ast.Node] = []
        for rule in rules:
            if rule.type == "qualified-rule":
                selector = _nested(tinycss2.serialize(rule.prelude).strip(), parent)
                self._add(tinycss2.parse_blocks_contents(rule.content, True, True), selector)
            elif rule.type == "at-rule" and rule.content is not None:
                query = tinycss2.serialize(rule.prelude).strip()
                known = rule.lower_at_keyword == "media" and self._screen.fits(query)
                if known or rule.lower_at_keyword == "supports":
                    read = tinycss2.parse_blocks_contents if parent else tinycss2.parse_rule_list
                    self._add(read(rule.content, True, True), parent)
            elif rule.type == "declaration" and (rule.name.startswith("--") or rule.lower_name in READ):
                own.append(rule)
        if own and parent:
            self._declare(parent, own)

    def _declare(self, selectors: str, declarations: list[tinycss2.ast.Node]) -> None:
        self._order += 1
        for selector in _split(selectors):
            try:
                compiled = cssselect2.compile_selector_list(selector)
            except cssselect2.SelectorError:
                self.refused.append(selector)
                continue
            for each in compiled:
                if each.pseudo_element is None:
                    self._matcher.add_selector(each, (self._of_author, self._order, declarations))

    def style(self, element: cssselect2.ElementWrapper, above: Style) -> Style:
        """The style of an element, of that of its parent."""
        found: list[tuple[tuple[bool, bool, bool, object, int], tinycss2.ast.Node]] = []
        for specificity, _, _, (of_author, order, declarations) in self._matcher.match(element):
            found += [((d.important, of_author, False, specificity, order), d) for d in declarations]
        inline = tinycss2.parse_blocks_contents(element.etree_element.get("style", ""), True, True)
        found += [((d.important, True, True, (0, 0, 0), 0), d) for d in inline if d.type == "declaration"]
        values: dict[str, str] = {}
        for _, declaration in sorted(found, key=lambda pair: pair[0]):
            values[declaration.name] = tinycss2.serialize(declaration.value).strip()
            if declaration.name == "all":
                values.clear()
            if declaration.name == "background":  # it resets what it does not say
                values.pop("background-color", None)
                values.pop("background-image", None)
        return _Values(values, above).style(element.local_name == "html")


@dataclass
class _Values:
    """The declared values of an element, and the style of its parent."""

    declared: dict[str, str]
    above: Style

    def style(self, is_root: bool) -> Style:
        above = self.above
        own = {name: value for name, value in self.declared.items() if name.startswith("--")}
        self.variables = above.variables | own
        size = self._size(is_root)
        self.variables["(root size)"] = str(size) if is_root else above.variables.get("(root size)", "16")
        colour = self._colour(self._value("color"), above.colour)
        weight = self._value("font-weight") or ("bold" if "bold" in (self._value("font") or "") else "")
        hidden = self._value("display") == "none" or self._value("visibility") in ("hidden", "collapse")
        opacity = self._value("opacity") or "1"
        return Style(
            colour,
            size,
            above.bold if not weight or weight == "inherit" else weight in ("bold", "bolder", "700", "800", "900"),
            above.shown and not hidden,
            above.opacity * (float(opacity) if re.fullmatch(r"[\d.]+", opacity) else 1.0),
            self._behind(colour),
            "underline" in (self._value("text-decoration") or ""),
            self.variables,
        )

    def _value(self, name: str) -> str | None:
        value = self.declared.get(name)
        if value is None:
            return None
        for _ in range(20):
            if not _VARIABLE.search(value):
                break
            value = _VARIABLE.sub(lambda match: self.variables.get(match[1], match[2] or ""), value)
        return re.sub(r"\s*!important$", "", value).strip().lower()

    def _size(self, is_root: bool) -> float:
        text = self._value("font-size") or self._value("font") or ""
        match = _LENGTH.search(text)
        if not match:
            return self.above.size
        root = 16.0 if is_root else float(self.above.variables.get("(root size)", "16"))
        unit = {"px": 1.0, "rem": root, "em": self.above.size, "%": self.above.size / 100}[match[2]]
        return float(match[1]) * unit

    def _colour(self, text: str | None, inherited: Colour | None) -> Colour | None:
        if text in (None, "", "inherit", "unset", "currentcolor"):
            return inherited
        return _parsed(text, inherited)

    def _behind(self, colour: Colour | None) -> Colour | None:
        image = self._value("background-image") or ""
        shorthand = self._value("background") or ""
        if re.search(r"url\(|gradient\(", image + shorthand):
            return None
        own = self._value("background-color")
        if own is None:
            words = tinycss2.parse_component_value_list(shorthand)
            colours = [found for word in words if (found := _parsed(tinycss2.serialize([word]), colour)) is not None]
            if not colours:
                return self.above.behind
            layer: Colour | None = colours[0]
        elif own in ("", "inherit", "initial", "unset", "none"):
            return self.above.behind
        else:
            layer = _parsed(own, colour)
        return None if layer is None or self.above.behind is None else layer.over(self.above.behind)


def _parsed(text: str, current: Colour | None) -> Colour | None:
    found = color4.parse_color(text)
    if found == "currentcolor":
        return current
    if found is None:
        return None
    red, green, blue = found.to("srgb").coordinates
    return Colour(float(red), float(green), float(blue), float(found.alpha))


def _split(selectors: str) -> Sequence[str]:
    """The selectors of a list, at the commas that lie in no bracket."""
    parts, depth = [""], 0
    for character in selectors:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(character, 0)
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _nested(selectors: str, parent: str) -> str:
    """A selector in a rule of another one, as one that stands alone."""
    if not parent:
        return selectors
    of = f":is({parent})"
    return ", ".join(s.replace("&", of) if "&" in s else f"{of} {s}" for s in _split(selectors))
