"""Every figure is drawn from the results in the docs, with its caption, and legends stand beside the panels."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensorveil_evidence.studies import drawing
from tensorveil_evidence.studies.catalogue import list_studies
from tensorveil_evidence.studies.store import read_results
from tensorveil_evidence.studies.summary import summarise

DOCS = Path(__file__).parents[4] / "docs" / "studies"
NAMES = [name for name in sorted(list_studies()) if (DOCS / f"{name}.parquet").exists()]


@pytest.mark.parametrize("name", NAMES)
def test_the_figure(name: str, tmp_path: Path) -> None:
    study = list_studies()[name]
    results = read_results(study, DOCS)
    figure = study.draw(results)
    body, foot = figure.subfigs
    (caption,) = foot.texts
    assert " ".join(caption.get_text().split()) == " ".join(str(study.caption(results)).split())
    figure.draw_without_rendering()
    page = figure.bbox
    words = caption.get_window_extent()
    assert page.x0 <= words.x0 < words.x1 <= page.x1
    assert page.y0 <= words.y0
    for legend in body.legends:
        box = legend.get_window_extent()
        assert not any(box.overlaps(axis.get_window_extent()) for axis in body.axes)
        assert page.x0 <= box.x0 < box.x1 <= page.x1
    assert any(axis.lines or axis.collections for axis in body.axes)
    svg, png = drawing.save(study.draw(results), tmp_path, name)
    before = svg.read_bytes()
    assert png.read_bytes().startswith(b"\x89PNG")
    drawing.save(study.draw(results), tmp_path, name, formats=("svg",))
    assert svg.read_bytes() == before


def test_bands_and_marks_of_divergence() -> None:
    from tests.unit.evidence.studies.study_cases import row

    figure, _, axes = drawing.new_figure(4, 3, "A caption.", rows=1, columns=1)
    rows = [row(value=value, run=run, x=x) for x in (1.0, 2.0) for run, value in ((1, 1.0), (2, 3.0))]
    points = summarise([*rows, row(value=None, x=4.0)])
    drawing.draw_curve(axes[0, 0], points, drawing.Style(colour=drawing.BLUE))
    line, lost = axes[0, 0].lines
    assert list(line.get_ydata()) == [2.0, 2.0]
    assert line.get_label() == "one (proven)"
    assert list(lost.get_xdata()) == [4.0]
    (band,) = axes[0, 0].collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert heights.min() == pytest.approx(2.0 - 2.0**0.5)
    assert heights.max() == pytest.approx(2.0 + 2.0**0.5)
    assert figure.subfigs[1].texts[0].get_text() == "A caption."
