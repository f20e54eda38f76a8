"""The pictures of docs/how-to/report.md: `python -m benchmarks.pictures demo-output`, after `make demo`.

Needs chromium on the path and playwright. Whole pages at both widths, light, dark and on paper, go to a folder beside
the demo's output, to be looked at; the three small pictures go to docs/images.
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parent.parent / "docs" / "images"
PAGES = {"release": "release/report.html", "owner": "diagnostics/DO_NOT_PUBLISH-report.html"}


def keep(data, name, scale=0.72):
    """Save a picture small: at a part of its size, in few colours."""
    image = Image.open(io.BytesIO(data)).convert("RGB")
    size = (int(image.width * scale), int(image.height * scale))
    image = image.resize(size, Image.Resampling.LANCZOS).quantize(160, kmeans=4, dither=Image.Dither.NONE)
    image.save(IMAGES / name, optimize=True)
    print(f"docs/images/{name}: {image.size[0]} x {image.size[1]}, {(IMAGES / name).stat().st_size / 1000:.0f} kB")


def section(page, selector):
    box = page.locator(selector).bounding_box()
    clip = {"x": box["x"] - 32, "y": box["y"] + 24, "width": box["width"] + 64, "height": box["height"] - 40}
    return page.screenshot(full_page=True, clip=clip)


def main(demo):
    demo = Path(demo).resolve()
    looks = demo / "looks"
    looks.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])

        def opened(name, width=1280, height=1010, scheme="light"):
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.goto((demo / PAGES[name]).as_uri())
            return page

        keep(opened("release").screenshot(), "report.png")
        keep(section(opened("release", scheme="dark"), "#budget-explorer"), "report-explorer.png")
        keep(section(opened("owner"), "#slice"), "report-owner.png")
        for name in PAGES:
            for width in (1280, 400):
                for scheme in ("light", "dark"):
                    page = opened(name, width, scheme=scheme)
                    page.screenshot(full_page=True, path=looks / f"{name}-{width}-{scheme}.png")
            opened(name).pdf(path=looks / f"{name}.pdf", format="A4")
        browser.close()
    print(f"whole pages: {looks}")


if __name__ == "__main__":
    main(*sys.argv[1:])
