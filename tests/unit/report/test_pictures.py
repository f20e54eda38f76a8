"""Drawings as files of their own: well-formed SVG with title, legend and colours; and what the drawings show."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorveil.audit import Claim, audit
from tensorveil.errors import InputError
from tensorveil.report.curves import curve_picture
from tensorveil.report.density import SQUARES, Panel, density_picture
from tensorveil.report.facts import Caption, Chart, Level, Series
from tensorveil.report.pictures import chart_picture, check_picture_path, render_picture, save_picture
from tests.unit.report.report_cases import NASTY

TRUE = np.linspace(-1.0, 1.0, 50)
CAPTION = Caption(text="t", unit="value", epsilon="1", delta=0.0, runs=3, methods=())


def chart(title: str = "What it costs") -> Any:
    series = Series(name="private", x=(0.5, 2.0), y=(2.0, 1.0), low=(1.5, 0.5), high=(3.0, 2.0))
    levels = (Level(name=NASTY, y=2.5),)
    return Chart(title=title, x="epsilon", y="RMSE", series=(series,), levels=levels, caption=CAPTION, log_x=True)


def panels(predictions: Any) -> Any:
    return [Panel(name="m", predicted=p, rmse=float(np.sqrt(np.mean((p - TRUE) ** 2)))) for p in predictions]


def verdict() -> Any:
    def laplace(data: Any, rng: np.random.Generator, n: int) -> Any:
        return data + rng.laplace(scale=0.5, size=n)

    pair = (np.zeros(1), np.ones(1))
    return audit(laplace, [pair], Claim(epsilon=1.0), samples=2000, batched=True, kinds=("law",))


@pytest.mark.parametrize(
    "picture",
    [
        chart_picture(chart(NASTY)),
        density_picture(TRUE, panels([TRUE + 0.1, np.zeros(50)]), title=NASTY),
        curve_picture(NASTY, verdict()),
    ],
    ids=["chart", "density", "curve"],
)
def test_pictures_are_files_that_stand_alone(picture: Any, tmp_path: Path) -> None:
    save_picture(tmp_path / "picture.svg", picture)
    text = (tmp_path / "picture.svg").read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.get("aria-label") == picture.summary
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert picture.title in words
    for sample in picture.legend:
        assert sample.name in words
    # Programs other than browsers know no variables; nothing is asked of the network.
    assert "var(" not in text
    assert "url(" not in text
    assert min(float(root.attrib[side]) for side in ("width", "height")) > 300


def test_a_chart_keeps_its_curves_and_colours() -> None:
    text = render_picture(chart_picture(chart()))
    assert text.count('class="line s1"') == 2  # the curve, and its sample in the legend
    assert re.search(r"\.s1 \{ stroke: #[0-9a-f]{6}; \}", text)


@pytest.mark.parametrize("predictions", [[TRUE], [np.zeros(50), TRUE + 0.1], [np.zeros(50)]])
def test_every_entry_falls_into_a_square(predictions: Any) -> None:
    picture = density_picture(TRUE, panels(predictions), title="t")
    groups = re.findall(r'class="cells">(.*?)</g>', picture.drawing)
    assert len(groups) == len(predictions)
    for group, predicted in zip(groups, predictions, strict=True):
        squares = {(int(x), int(y)) for x, y in re.findall(r"M(\d+) (\d+)h1v1h-1z", group)}
        assert all(0 <= x < SQUARES and 0 <= y < SQUARES for x, y in squares)
        assert len(squares) <= len(predicted)
        if np.ptp(predicted) == 0:
            assert len({y for _, y in squares}) == 1


def test_constant_data_still_have_axes() -> None:
    picture = density_picture(np.ones(5), [Panel(name="m", predicted=np.ones(5), rmse=0.0)], title="t")
    assert "5 entries" in [sample.name for sample in picture.legend] or picture.legend


def test_what_cannot_be_drawn_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least one"):
        density_picture(TRUE, [], title="t")
    with pytest.raises(InputError, match=r"plot: the name must end with \.svg"):
        check_picture_path(tmp_path / "c.png", "plot")
    with pytest.raises(InputError, match="does not exist"):
        check_picture_path(tmp_path / "none" / "c.svg", "plot")
    check_picture_path(tmp_path / "c.svg", "plot")
