"""The page: one HTML file with its style and script inside, that asks nothing of the network and runs nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from tensorveil import __version__
from tensorveil.errors import InputError
from tensorveil.markup import Markup, join, tag
from tensorveil.report.facts import Caption, Cell, Standing, TableOf, cell_text
from tensorveil.tensor.files.atomic import replace_file

__all__ = ["Page", "Section", "caption_list", "data_table", "figure", "image_figure", "render", "save_page"]

_NUMERIC = re.compile(r"[−≥≤±]? ?[\d.,]+(e−?\d+)?%?($| )|–$|infinite$")
_WIDE_TABLE = 6  # columns beyond which a table takes the whole width, and its caption stands below
_MOST_NAMED = 40  # methods beyond which a caption counts them, and leaves their names to a table
DO_NOT_PUBLISH = "Do not publish"
MAY_BE_PUBLISHED = "May be published"
NOT_PRIVATE = "Not private"


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a page with a heading; ``name`` is its anchor."""

    name: str
    title: str
    lead: str
    blocks: tuple[Markup, ...]


@dataclass(frozen=True, kw_only=True)
class Page:
    """A whole report. ``mark`` says in two words who may see it; ``warning`` says why, if only its owner may.

    ``data`` is what the script reads, by name. ``images`` says that sections hold images (`image_figure`), which the
    page's policy otherwise refuses.
    """

    kind: str
    title: str
    sentence: str
    mark: str
    sections: tuple[Section, ...]
    warning: str = ""
    hero: tuple[Markup, ...] = ()
    data: tuple[tuple[str, Any], ...] = ()
    images: bool = False


def render(page: Page) -> str:
    """Write the page."""
    style = "".join(map(read_asset, ("colours.css", "drawing.css", "page.css")))
    script = read_asset("explorer.js") if page.data else None  # nothing else on a page moves
    policy = "; ".join(
        (
            "default-src 'none'",
            f"style-src '{_fingerprint(style)}'",
            *([] if script is None else [f"script-src '{_fingerprint(script)}'"]),
            *(["img-src data:"] if page.images else []),
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"{page.title} – {page.mark.lower()}"),
        tag("style", Markup(style)),
    )
    body = tag(
        "body",
        tag("a", "Skip to the report", href="#report", class_="skip"),
        _warning(page),
        _header(page),
        tag("main", *(_section(section) for section in page.sections), id="report"),
        tag("footer", tag("p", f"Written by tensorveil {__version__}. {page.mark}.")),
        *(_data_block(name, content) for name, content in page.data),
        None if script is None else tag("script", Markup(script)),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def save_page(path: str | os.PathLike[str], page: Page) -> None:
    """Write the page into a file, whole or not at all."""
    place = Path(path)
    if not place.parent.is_dir():
        raise InputError(f"the folder {place.parent} does not exist. Make it first.")
    with replace_file(place) as temporary:
        temporary.write_text(render(page), encoding="utf-8")


def read_asset(name: str) -> str:
    """Read a style or script that comes with this folder."""
    return resources.files("tensorveil.report").joinpath("assets", name).read_text(encoding="utf-8")


def _fingerprint(text: str) -> str:
    """Return the hash by which the policy recognises a style or script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _data_block(name: str, content: Any) -> Markup:
    """Embed plain data. "<" could end the block, so none is left in it."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return tag("script", Markup(text), type="application/json", id=name)


def _warning(page: Page) -> Markup | None:
    if not page.warning:
        return None
    text = join(tag("strong", f"{page.mark}."), " ", page.warning)
    return tag("aside", tag("p", text), class_="warning", aria_label="Warning")


def _header(page: Page) -> Markup:
    colour = {MAY_BE_PUBLISHED: "public", DO_NOT_PUBLISH: "closed", NOT_PRIVATE: "closed"}.get(page.mark, "neutral")
    return tag(
        "header",
        tag(
            "p",
            tag("span", page.kind, class_="kind"),
            tag("span", page.mark, class_=f"mark {colour}"),
            class_="eyebrow",
        ),
        tag("h1", page.title),
        tag("p", page.sentence, class_="sentence"),
        *page.hero,
        _contents(page.sections),
    )


def _contents(sections: Sequence[Section]) -> Markup | None:
    if len(sections) < 2:
        return None
    items = (tag("li", tag("a", section.title, href=f"#{section.name}")) for section in sections)
    return tag("nav", tag("ul", *items), aria_label="Contents")


def _section(section: Section) -> Markup:
    return tag(
        "section",
        tag("h2", section.title, id=f"{section.name}-title"),
        tag("p", section.lead, class_="lead") if section.lead else None,
        *section.blocks,
        id=section.name,
        aria_labelledby=f"{section.name}-title",
    )


def figure(
    name: str, title: str, plots: Sequence[Markup], caption: Caption, *, legend: Markup | None = None,
    numbers: Markup | None = None,
) -> Markup:  # fmt: skip
    """Return a figure: heading, drawings for wide and narrow screens, caption, and numbers in a table to unfold."""
    drawn = tag(
        "div",
        tag("h3", title, id=f"{name}-title"),
        legend,
        tag("div", *plots, class_="plot"),
        tag("details", tag("summary", f"Numbers: {title}"), numbers) if numbers is not None else None,
        class_="drawn",
    )
    return tag("figure", drawn, caption_list(caption), id=name, aria_labelledby=f"{name}-title")


def image_figure(name: str, title: str, image: bytes, *, alt: str, caption: Caption) -> Markup:
    """Return a figure that holds an SVG image, embedded; ``alt`` says what is in it. Set `Page.images` for the page."""
    source = f"data:image/svg+xml;base64,{base64.b64encode(image).decode()}"
    drawn = tag(
        "div",
        tag("h3", title, id=f"{name}-title"),
        tag(
            "div", tag("img", src=source, alt=alt), class_="scroll picture", tabindex=0, role="region",
            aria_label=f"Picture: {title}",
        ),
        class_="drawn",
    )  # fmt: skip
    return tag("figure", drawn, caption_list(caption), id=name, class_="whole", aria_labelledby=f"{name}-title")


def caption_list(caption: Caption) -> Markup:
    """Return a caption: the text, then unit, epsilon, delta, runs, and the standing of every method."""
    facts = (
        ("unit", caption.unit),
        ("epsilon", caption.epsilon),
        ("delta", caption.delta_text),
        ("runs", caption.runs_text),
    )
    rows = [tag("div", tag("dt", name), tag("dd", text)) for name, text in facts]
    if caption.methods:
        rows.append(tag("div", tag("dt", "guarantee"), tag("dd", _standings(caption.methods)), class_="methods"))
    small = tag("p", caption.small_print, class_="small") if caption.small_print else None
    return tag("figcaption", tag("p", caption.text), tag("dl", *rows), small)


def _standings(methods: Sequence[Standing]) -> Markup:
    """Return the methods with their standings; of many, how many have each, as their names are in a table then."""
    if len(methods) <= _MOST_NAMED:
        return tag("ul", *(tag("li", method.name, " ", status_badge(method.status)) for method in methods))
    counts = Counter(method.status for method in methods)
    return tag("ul", *(tag("li", f"{count} ", status_badge(status)) for status, count in counts.items()))


def status_badge(status: str) -> Markup:
    """Return the standing of a guarantee as a word with a colour."""
    return tag("span", status, class_=f"status {status.replace(' ', '-')}")


def data_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Markup:
    """Return a table; where it is too wide it scrolls sideways, by keyboard too."""
    numeric = [all(not isinstance(row[k], str) or _looks_numeric(row[k]) for row in rows) for k in range(len(columns))]
    classes = ["number" if flag and k else None for k, flag in enumerate(numeric)]
    head = tag("tr", *(tag("th", name, scope="col", class_=css) for name, css in zip(columns, classes, strict=True)))
    body = (
        tag(
            "tr",
            tag("th", cell_text(row[0]), scope="row"),
            *(tag("td", cell_text(cell), class_=css) for cell, css in zip(row[1:], classes[1:], strict=True)),
        )
        for row in rows
    )
    table = tag("table", tag("caption", title, class_="unseen"), tag("thead", head), tag("tbody", *body))
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label=f"Table: {title}")


def _looks_numeric(cell: Cell) -> bool:
    return isinstance(cell, str) and _NUMERIC.match(cell) is not None


def table_figure(name: str, table: TableOf) -> Markup:
    """Return a table with its caption, as a figure."""
    drawn = tag(
        "div",
        tag("h3", table.title, id=f"{name}-title"),
        data_table(table.title, table.columns, table.rows),
        class_="drawn",
    )
    whole = "whole" if len(table.columns) > _WIDE_TABLE else None
    return tag("figure", drawn, caption_list(table.caption), id=name, class_=whole, aria_labelledby=f"{name}-title")
