"""Contrast of the style's colours, which axe cannot judge within drawings (WCAG 2.2, 1.4.3 and 1.4.11)."""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

import pytest

from tensorveil.report.density import SHADES
from tensorveil.report.drawing import SLOTS
from tensorveil.report.heat import LEVELS

ASSETS = resources.files("tensorveil.report").joinpath("assets")
STYLE = "".join(
    ASSETS.joinpath(name).read_text(encoding="utf-8") for name in ("colours.css", "drawing.css", "page.css")
)
LIGHT, DARK = (
    dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
    for block in re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)[:2]
)


def luminance(colour: Any) -> Any:
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: Any, second: Any) -> Any:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_text_can_be_read(colours: Any) -> None:
    pairs = [("ink", "paper"), ("soft", "paper"), ("accent", "paper"), ("ink", "card"), ("soft", "card")]
    pairs += [("accent", "card"), ("accent", "wash"), ("soft", "wash")]
    pairs += [(word, f"{word}-wash") for word in ("good", "fair", "bad")]
    for front, back in pairs:
        assert contrast(colours[front], colours[back]) >= 4.5, (front, back)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_curves_and_bars_stand_out(colours: Any) -> None:
    for name in (*(f"s{k + 1}" for k in range(SLOTS)), "good", "bad", "ink", "quiet"):
        assert contrast(colours[name], colours["paper"]) >= 3.0, name


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_heat_grows_away_from_the_middle(colours: Any) -> None:
    """Both arms leave the middle steadily in lightness, so that they can be read without telling the hues apart."""
    middle = LEVELS // 2
    steps = [abs(luminance(colours[f"q{k}"]) - luminance(colours[f"q{middle}"])) for k in range(LEVELS)]
    assert steps[: middle + 1] == sorted(steps[: middle + 1], reverse=True)
    assert steps[middle:] == sorted(steps[middle:])


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_shades_of_counts_grow_away_from_the_paper(colours: Any) -> None:
    steps = [contrast(colours[f"c{k}"], colours["paper"]) for k in range(SHADES)]
    assert steps == sorted(steps)


def test_both_schemes_name_the_same_colours() -> None:
    assert set(LIGHT) == set(DARK)
    used = set(re.findall(r"var\(--([\w-]+)\)", STYLE))
    assert used <= set(LIGHT)
    assert set(LIGHT) <= used
