"""Check the built site: every link and anchor leads somewhere, and nothing is loaded from elsewhere.

python docs/_site/check.py site
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}


class Page(HTMLParser):
    """The anchors of a page, what it links to and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what this element is called, links to or loads."""
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif tag == "a" and name == "href":
                self.links.append(value)
            elif (tag, name) in LOADED:
                self.loaded.append(value)


def find_flaws(site: Path) -> list[str]:
    """Return one line per dead link, dead anchor or foreign resource."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    flaws = []
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        flaws += [f"{name}: loads {target}" for target in page.loaded if urlsplit(target).netloc]
        for target in (*page.links, *page.loaded):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc or name.name == "404.html":
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = there / "index.html" if there.is_dir() else there
            if not there.exists():
                flaws.append(f"{name}: dead link {target}")
            elif parts.fragment and there in pages and unquote(parts.fragment) not in pages[there].anchors:
                flaws.append(f"{name}: dead anchor {target}")
    return sorted(set(flaws))


def main(site: Path) -> int:
    """Print the flaws; return 1 if there are any."""
    flaws = find_flaws(site)
    for flaw in flaws:
        print(flaw)
    print(f"{len(list(site.rglob('*.html')))} pages, {len(flaws)} flaws")
    return 1 if flaws else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
