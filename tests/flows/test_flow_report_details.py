"""What readers of reports stumbled over: cut labels, sampled rows, colours beyond the bounds, proofs without a text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.completion.slices import ROUNDS
from tensorveil.markup import text_width
from tensorveil.mechanisms.catalogue import METHODS
from tensorveil.report.bars import histogram_plots
from tensorveil.report.heat import choose_slice, heat_plots
from tensorveil.report.model_parts import mean_prediction, open_captions, slice_section
from tensorveil.report.page import render
from tensorveil.report.proofs import IN_SHORT, proof_items
from tensorveil.report.release_page import release_page

GUARANTEES = Path(__file__).parents[2] / "docs" / "guarantees.md"


def labels_at_the_left(drawing: str) -> list[tuple[float, str]]:
    found = re.findall(r'<text x="([-\d.]+)"[^>]*text-anchor="end"[^>]*>([^<]*)</text>', drawing)
    return [(float(x), text) for x, text in found]


@pytest.mark.parametrize("entries", [100, 400_000, 20_000_000])
def test_numbers_beside_a_histogram_are_never_cut(entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.array([entries, entries // 2, 0])
    monkeypatch.setattr(np, "histogram", lambda values, bins: (counts, np.array([0.0, 1.0, 2.0, 3.0])))
    for drawing in histogram_plots(np.zeros(1), bins=3, title="residual", summary="made up"):
        shown = labels_at_the_left(drawing)
        assert len(shown) >= 2
        for x, text in shown:
            assert x - text_width(text, 12.0) >= 0


def skewed_model(rows: int, bounds: tuple[float, float] | None) -> tv.CPModel:
    """Return a model of counts: a low constant, a few large predictions."""
    strong = np.zeros((rows, 1))
    strong[:5] = 30.0
    return tv.CPModel(factors=(strong, np.linspace(0, 1, 40)[:, None]), offset=1.1, bounds=bounds)


def test_colours_end_at_the_bounds_and_sampled_rows_are_told() -> None:
    model = skewed_model(35, (0, 30))
    part = choose_slice(model)
    assert part.center - part.below == pytest.approx(0.0)
    assert part.center + part.above <= 30
    drawing = "".join(heat_plots(part, [("all", part.predicted)], ["row"] * len(part.rows), "across", "summary"))
    assert "−" not in re.sub(r"<[^>]*>", " ", drawing)
    free = choose_slice(skewed_model(35, None))
    assert free.below == free.above
    section = slice_section(model, open_captions("CP, rank 1"))
    assert section is not None
    assert "Of the 35 indices of mode mode_0, 30 at equal distances are drawn." in "".join(section.blocks)
    whole = slice_section(skewed_model(20, (0, 30)), open_captions("CP, rank 1"))
    assert whole is not None
    assert "are drawn" not in "".join(whole.blocks)


def test_a_centre_at_a_bound_draws_all_the_same() -> None:
    model = tv.CPModel(factors=(np.array([[1.0], [0.5]]), np.array([[1.0], [2.0]])), offset=0.0, bounds=(0, 5))
    part = choose_slice(model)
    assert part.below > 0
    assert "NaN" not in "".join(heat_plots(part, [("all", part.predicted)], ["a", "b"], "across", "summary"))


def test_mean_predictions_are_over_all_cells_or_say_over_which() -> None:
    model = skewed_model(35, (0, 30))
    mean, told = mean_prediction(model)
    assert mean == pytest.approx(float(model.dense().mean()))
    assert told == "all cells"
    long = tv.CPModel(factors=(np.ones((3000, 1)), np.linspace(0, 1, 100)[:, None]), offset=2.0)
    mean, told = mean_prediction(long)
    assert mean == pytest.approx(2.5, abs=1e-2)
    assert told == "20,000 cells at equal distances"


def test_a_release_page_tells_its_mean_and_why_its_promise_holds() -> None:
    tensor = tv.synthetic_cp((12, 9), 1, random_state=0).train.with_bounds((0, 1), out_of_bounds="clip")
    fitted = tv.PrivateCP(1, epsilon=3.0, delta=0.0, unit="value", bounds=(0, 1), threads=1).fit(tensor)
    page = render(release_page(fitted))
    mean, _ = mean_prediction(fitted.model_)
    assert "mean prediction" in page
    assert f"{mean:.2g}"[:3] in page
    for cited in fitted.guarantee_.proof.split(", "):
        assert IN_SHORT[cited.removeprefix("docs/guarantees.md#")].split("'")[0][:60] in page


def cited_proofs() -> list[Any]:
    methods: list[Any] = [*METHODS.values(), *ROUNDS.values()]
    return sorted({proof for method in methods for proof in method.proofs})


@pytest.mark.parametrize("proof", cited_proofs())
def test_every_proof_that_a_release_cites_has_a_text_and_a_section(proof: str) -> None:
    assert "<strong>" in proof_items(proof)[0]
    sections = re.findall(r"^## (.*)$", GUARANTEES.read_text(encoding="utf-8"), re.MULTILINE)
    assert proof.removeprefix("docs/guarantees.md#") in [section.replace(" ", "-") for section in sections]


def test_other_places_of_proof_stay_as_they_are() -> None:
    assert proof_items("a paper <b>") == ("a paper &lt;b&gt;",)
