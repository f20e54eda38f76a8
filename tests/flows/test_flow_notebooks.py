"""What a notebook shows of tensors, models, guarantees, plans and ledgers: facts, escaped, and nobody's label."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tensorveil as tv
from tensorveil.privacy import Budget, Guarantee, Ledger, Part, Pure, Unit

EVIL = "<script>alert('x')</script>"


class Page(HTMLParser):
    """Which elements a page has, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.open: list[str] = []
        self.words = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert not attrs
        self.elements.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += f"{data}\n"


def show(thing: Any) -> str:
    """Return the text that a notebook shows, if its markup is sound and all of it is ours."""
    page = Page(thing._repr_html_())
    assert not page.open
    assert set(page.elements) <= {"div", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    return page.words


def named_tensor() -> tv.ObservedTensor:
    tensor = tv.synthetic_cp((12, 9), 1, random_state=0).train
    modes = [tv.Mode(EVIL, [f"person {i}" for i in range(12)]), tv.Mode("film")]
    return tv.ObservedTensor(tensor.coords, np.clip(tensor.values, 0, 1), tensor.shape, (0, 1), modes)


def test_tensors_and_models_show_their_form_and_no_label() -> None:
    tensor = named_tensor()
    fitted = tv.CP(1, random_state=0, threads=1).fit(tensor)
    for thing in (tensor, fitted.model_):
        words = show(thing)
        assert EVIL in words  # as text
        assert "person" not in words
    assert f"{tensor.n_entries:,} (" in show(tensor) and "0 to 1" in show(tensor)  # noqa: PT018
    assert "parameters" in show(fitted.model_)


@pytest.mark.parametrize("unit", ["entry", "slice:user"])
def test_what_was_read_for_private_positions_shows_no_count(unit: str) -> None:
    """A notebook that is passed on would tell whether one entry, or one person, more was there."""

    def read(users: int) -> tv.ObservedTensor:
        table = pa.table({"user": [f"u{k:04d}" for k in range(users)], "film": ["A"] * users, "value": [3.0] * users})
        people = [f"u{k:04d}" for k in range(2000)]
        lists = {"film": ["A", "B"]} | ({"user": people} if unit == "entry" else {})
        return tv.read_privately(table, unit=unit, bounds=(1, 5), labels=lists)

    few, many = read(41), read(1703)
    assert few._repr_html_() == many._repr_html_()
    assert repr(few) == repr(many)
    assert "private" in show(few)
    declared = tv.read_privately(
        pa.table({"a": [0, 1], "b": [1, 1], "value": [1.0, 2.0]}),
        unit="entry",
        bounds=(1, 5),
        indices=True,
        shape=(7, 9),
    )
    assert "7 x 9" in show(declared)


def test_a_plan_shows_its_guesses_and_what_they_rest_on() -> None:
    from tensorveil.runs.plan import PlanRun, plan_budgets

    facts: dict[str, Any] = {"shape": (6040, 3706), "entries": 900_000, "bounds": (1, 5), "spread": 1.1}
    run = PlanRun(unit="slice:user", epsilons=(1.0, 4.0), rmse=0.6, delta=1e-6, **facts)
    planned = plan_budgets(run)
    words = show(planned)
    for fact in (
        "epsilon 4",
        "biases",
        str(planned.budgets[0].releases),
        planned.assumed,
        f"{planned.budgets[1].rmse:.3g}",
    ):
        assert fact in words


def test_a_private_fit_shows_guarantee_plan_and_what_it_measured() -> None:
    fitted = tv.PrivateCP(1, epsilon=2.0, delta=0.0, unit="value", bounds=(0, 1), threads=1).fit(named_tensor())
    words = show(fitted.guarantee_)
    assert fitted.guarantee_.sentence() in words
    assert fitted.guarantee_.composition[0].statistic in words
    assert f"about {fitted.estimated_rmse_:.3g}" in show(fitted.model_)
    assert fitted.plan_.predictions[0].method in show(fitted.plan_)


def test_a_shared_model_says_whom_it_protects() -> None:
    ratings = tv.synthetic_cp((30, 20), 1, random_state=0).train.with_modes(("user", "film"))
    promise: dict[str, Any] = {"epsilon": 5.0, "delta": 1e-6, "bounds": (0, 1), "shape": (30, 20)}
    model = tv.UserLevelCP(1, unit="slice:user", **promise).fit(ratings).model_
    assert "all entries of one user" in show(model)


def test_guarantees_of_anything_are_escaped() -> None:
    guarantee = Guarantee.prove(
        unit=Unit.value(), event=Pure(1.0), delta=0.0, composition=[Part(name=EVIL, statistic=EVIL, event=Pure(1.0))],
        released=[EVIL], proof="docs/guarantees.md#sums", secure_noise=True, bounds=(0, 1), mechanism=EVIL,
    )  # fmt: skip
    assert show(guarantee).count(EVIL) >= 3


def test_a_ledger_shows_what_is_left_and_every_charge(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "x.ledger", budget=Budget(epsilon=4.0, delta=0.0), unit="value", name=EVIL)
    ledger.charge(Pure(1.5), "mean <b>", "release-1")
    ledger.confirm("release-1")
    words = show(ledger)
    for fact in (EVIL, "epsilon 2.5", "mean <b>", "released"):
        assert fact in words


@pytest.mark.parametrize("thing", [tv.ObservedTensor([[0, 1]], [1.0]), tv.CPModel(factors=(np.ones((1, 1)),) * 2)])
def test_small_things_are_shown_too(thing: Any) -> None:
    assert type(thing).__name__ in show(thing)
