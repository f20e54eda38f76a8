"""HTML and SVG by construction: whatever is not markup already is escaped. And texts for terminals and logs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = ["Markup", "clean", "join", "notebook_card", "shorten", "tag", "text_width"]

_VOID = frozenset({"meta", "input", "br", "img"})
# Neither may occur in a page: the first break it, the second reverse the writing direction of what follows.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
Attribute = str | int | float | bool | None


def clean(text: str) -> str:
    """Return a text that does nothing to a terminal: characters that are not printed are spelled out.

    >>> clean("a" + chr(27) + "[2J")
    'a\\\\x1b[2J'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode("ascii") for c in text)


class Markup(str):
    """Text that is markup already, and not escaped again. Made by `tag` and `join`."""

    __slots__ = ()


def escape(content: object) -> str:
    """Escape anything but markup, for text and for attributes."""
    return content if isinstance(content, Markup) else _quote(content)


def _quote(content: object) -> str:
    import html  # which the command's --help can do without

    return html.escape(_UNSEEN.sub("\N{REPLACEMENT CHARACTER}", str(content)), quote=True)


def tag(name: str, /, *children: object, **attributes: Attribute) -> Markup:
    """Return an element. ``class_`` means class, other underscores mean hyphens; None and False leave an attribute out.

    >>> tag("p", "1 < 2", class_="note", aria_hidden="true")
    '<p class="note" aria-hidden="true">1 &lt; 2</p>'
    """
    opening = name + "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Markup(f"<{opening}>")
    return Markup(f"<{opening}>{''.join(escape(child) for child in children if child is not None)}</{name}>")


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    key = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {key}"
    # Coordinates: a hundredth of a pixel is enough, and keeps pages small.
    text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else _quote(value)
    return f' {key}="{"0" if text == "-0" else text}"'


def join(*parts: object, by: str = "") -> Markup:
    """Put parts one after the other; None is left out."""
    return Markup(by.join(escape(part) for part in parts if part is not None))


def text_width(text: str, size: float) -> float:
    """Estimate, a little generously, how wide a text is in a sans-serif face of this size."""
    import unicodedata

    wide = 1.0
    return size * sum(wide if c in "%WMmw@" or unicodedata.east_asian_width(c) in "WF" else 0.64 for c in text)


def shorten(text: str, most: int) -> str:
    """Cut a text that is longer than ``most`` characters, and say so by an ellipsis."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def notebook_card(
    title: str, facts: Iterable[tuple[str, object]], *, head: Sequence[str] = (), rows: Iterable[Sequence[object]] = ()
) -> Markup:
    """Return what a notebook shows of an object: its facts by name, and perhaps a table under them.

    >>> notebook_card("Guarantee", [("epsilon", "< 5")])
    '<div><strong>Guarantee</strong><table><tbody><tr><th>epsilon</th><td>&lt; 5</td></tr></tbody></table></div>'
    """
    named = [tag("tr", tag("th", name), tag("td", fact)) for name, fact in facts]
    shown = [tag("table", tag("tbody", *named))] if named else []
    lines = [tag("tr", *(tag("td", cell) for cell in row)) for row in rows]
    if lines:
        heading = tag("thead", tag("tr", *(tag("th", name) for name in head)))
        shown.append(tag("table", heading, tag("tbody", *lines)))
    return tag("div", tag("strong", title), *shown)
