"""Whole pages: well formed, self-contained, captioned; and what the public one is made of."""

from __future__ import annotations

import base64
import hashlib
import inspect
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorveil.audit import Claim, audit
from tensorveil.audit.model_leak import ModelLeak
from tensorveil.completion import PrivateCP
from tensorveil.errors import InputError
from tensorveil.mechanisms.catalogue import COMPARED
from tensorveil.mechanisms.planner import Plan, plan
from tensorveil.privacy import Budget, Unit
from tensorveil.report import explorer as explorer_module
from tensorveil.report.audit_page import Audited, audit_page, leak_page
from tensorveil.report.explorer import explore
from tensorveil.report.facts import Caption, Chart, Level, Series, Standing, TableOf
from tensorveil.report.owner_page import Measured, open_page, owner_page
from tensorveil.report.page import render, save_page
from tensorveil.report.release_page import release_page, save_release_page
from tensorveil_evidence.studies.study_page import StudyFigure, StudyPage, make_study_page
from tests.unit.report.report_cases import NASTY, Fit, Reader, cp_model, guarantee, observed, tucker_model

FILMS: dict[str, Any] = {"shape": (943, 1682), "n_entries": 90570, "bounds": (1.0, 5.0), "ranks": (8, 8), "core": False}
METHODS = (Standing(name=NASTY, status="proven"), Standing(name="other", status="refuted"))
CAPTION = Caption(text=NASTY, unit="value", epsilon="0.1 to 10", delta=1e-6, runs=50, methods=METHODS)


def release(model: Any, **options: Any) -> Any:
    core = not hasattr(model, "rank") or not isinstance(model.rank, int)
    explorer = explore(
        shape=model.shape, n_entries=max(int(np.prod(model.shape)) // 2, 1), bounds=(1.0, 5.0), core=core,
        ranks=[f.shape[1] for f in model.factors], epsilon=2.0, delta=0.0, used="input",
    )  # fmt: skip
    return release_page(Fit(model_=model, guarantee_=guarantee(**options)), explorer=explorer)


def owner(model: Any) -> Any:
    chart = Chart(
        title=NASTY, x="epsilon", y="RMSE", log_x=True, caption=CAPTION,
        series=(Series(name=NASTY, x=(0.1, 1, 10), y=(3, 2, 1), low=(2, 1, 0.5), high=(4, 3, 2)),),
        levels=(Level(name="constant", y=2.5),),
    )  # fmt: skip
    beside = [Measured(name=NASTY, status="not private", error=0.6)]
    return owner_page(model, guarantee(), observed(model), beside=beside, trade_off=chart)


def fit_summary() -> Any:
    records = [{"train_error": 2.0 / k, "validation_error": 2.5 / k} for k in range(1, 6)]
    return {"fit": {"train_rmse": 0.4, "validation_rmse": 0.5, "history": records}}


def audits() -> Any:
    def laplace(data: Any, rng: np.random.Generator, n: int) -> Any:
        return data + rng.laplace(scale=0.5, size=n)

    pair = (np.zeros(1), np.ones(1))
    broken = audit(laplace, [pair], Claim(epsilon=1.0), samples=2000, batched=True, kinds=("law",))
    sound = audit(laplace, [pair], Claim(mu=3.0), samples=2000, batched=True, kinds=("law",))
    return [
        Audited(name=NASTY, unit="value", verdict=broken, proven=True),
        Audited(name="sound", unit="value", verdict=sound, proven=True),
        Audited(name="hopeful", unit="value", verdict=sound, proven=False),
    ]


def pages() -> Any:
    model = cp_model((30, 12, 5), kinds=("text", "dates", "none"), biases=True)
    table = TableOf(title=NASTY, columns=("a", NASTY), rows=((NASTY, 1.5), ("x", None)), caption=CAPTION)
    drawn = StudyFigure(image=b"<svg/>", alt=NASTY, caption=CAPTION)
    found = audits()
    leak = ModelLeak(entries=10, closer=0.9, recovered_error=0.1, predicted_error=0.4)
    return {
        "release": release(model),
        "entry": release_page(Fit(model_=cp_model((9, 8), kinds=("none",)), guarantee_=guarantee("entry"))),
        "tucker": release(tucker_model((9, 8, 7), (2, 3, 2))),
        "seeded": release(model, secure=False),
        "owner": owner(model),
        "open": open_page(model, observed(model), fit_summary()),
        "one audit": audit_page(found[:1]),
        "audits": audit_page(found),
        "leak": leak_page(NASTY, leak, guarantee()),
        "leak of a model": leak_page(NASTY, leak),
        "study": make_study_page(
            StudyPage(title=NASTY, finding=NASTY, figure=drawn, tables=(table,), source=NASTY, notes=(NASTY,))
        ),
    }


PAGES = {name: render(page) for name, page in pages().items()}


@pytest.fixture(params=PAGES)
def page(request: pytest.FixtureRequest) -> Any:
    return PAGES[request.param]


def test_pages_are_well_formed_and_names_run_no_script(page: Any) -> None:
    read = Reader(page)
    assert [kind.get("type") for kind in read.all("script")] in ([], ["application/json", None])
    assert not read.all("b")
    assert not [a for _, facts in read.elements for a in facts if a.startswith("on") or a == "style"]
    assert "<script>alert" not in page


def test_pages_ask_nothing_of_the_network(page: Any) -> None:
    read = Reader(page)
    links = [facts["href"] for _, facts in read.elements if "href" in facts]
    assert all(link.startswith("#") for link in links)
    assert all(facts["src"].startswith("data:image/") for _, facts in read.elements if "src" in facts)
    assert {link[1:] for link in links} <= set(read.ids)
    assert "url(" not in page
    assert "@import" not in page
    assert "http:" not in page
    assert "https:" not in page


def test_the_policy_allows_this_style_and_this_script_alone(page: Any) -> None:
    policy = Reader(page).all("meta", **{"http-equiv": "Content-Security-Policy"})[0]["content"]
    parts = dict(part.split(" ", 1) for part in policy.split("; "))
    assert parts["default-src"] == "'none'"
    for kind, name in (("style", "style-src"), ("script", "script-src")):
        for content in re.findall(rf"<{kind}>(.*?)</{kind}>", page, re.DOTALL):
            digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
            assert parts.pop(name) == f"'sha256-{digest}'"
    if "<img" in page:
        assert parts.pop("img-src") == "data:"
    assert set(parts) == {"default-src", "base-uri", "form-action"}


def test_every_figure_has_a_whole_caption(page: Any) -> None:
    figures = re.findall(r"<figure.*?</figure>", page, re.DOTALL)
    assert len(figures) == page.count("<figure") > 0
    for figure in figures:
        (caption,) = re.findall(r"<figcaption>.*</figcaption>", figure, re.DOTALL)
        facts = dict(re.findall(r"<dt>(\w+)</dt><dd>(.*?)</dd>", caption))
        assert {"unit", "epsilon", "delta", "runs", "guarantee"} <= facts.keys()
        assert all(facts.values())
        for item in re.findall(r"<li>.*?</li>", facts["guarantee"]):
            assert re.search(r'class="status (proven|claimed|refuted|not-private)"', item)


def test_every_drawing_has_a_name(page: Any) -> None:
    read = Reader(page)
    drawings = [facts for facts in read.all("svg") if facts.get("aria-hidden") != "true"]
    images = read.all("img")
    assert drawings or images
    assert all(facts["role"] == "img" and len(facts["aria-label"]) > 5 for facts in drawings)
    assert all(len(facts["alt"]) > 5 for facts in images)


def test_who_may_see_a_page_is_said_first() -> None:
    for name, page in PAGES.items():
        text = Reader(page).text
        title = re.search("<title>(.*?)</title>", page)
        assert title is not None
        if name in ("release", "entry", "tucker"):
            assert "May be published" in text
            assert title[1].endswith("may be published")
            assert "Do not publish" not in text
        elif name in ("seeded", "owner", "leak", "leak of a model"):
            assert "Do not publish" in text
            assert title[1].endswith("do not publish")
            assert "May be published" not in text
            assert page.index("Do not publish.") < page.index("<h1>")
        else:
            assert "May be published" not in text


def test_the_guarantee_stands_in_one_sentence() -> None:
    for name, given_guarantee in (
        ("release", guarantee()),
        ("entry", guarantee("entry")),
        ("seeded", guarantee(secure=False)),
    ):
        assert given_guarantee.sentence() in Reader(PAGES[name]).text
    assert "A model, NOT PRIVATE, of" in Reader(PAGES["seeded"]).text
    assert "A private model" not in Reader(PAGES["seeded"]).text


def test_an_audit_says_what_became_of_each_claim() -> None:
    text = Reader(PAGES["audits"]).text
    assert "1 of 3 claims are violated" in text
    assert f"{NASTY} refuted" in text
    assert "sound proven" in text
    assert "hopeful claimed" in text


def test_the_public_page_is_given_no_data() -> None:
    """Only the model, the guarantee and public numbers go in: there is nothing else that it could show."""
    assert list(inspect.signature(release_page).parameters) == ["fitted", "explorer"]
    assert list(inspect.signature(save_release_page).parameters) == ["path", "fitted"]
    module = inspect.getmodule(release_page)
    assert module is not None
    assert "ObservedTensor" not in inspect.getsource(module)


def test_the_report_depends_on_the_model_alone(tmp_path: Path) -> None:
    """Two data sets, one model: the same report, to the byte."""
    model = cp_model((12, 8), kinds=("text",))
    data = [observed(model, seed=seed) for seed in (1, 2)]
    fits = [PrivateCP(2, epsilon=2.0, delta=0.0, unit="value", bounds=(1, 5), sweeps=2).fit(tensor) for tensor in data]
    plan, promise = replace(fits[0].plan_, n_entries=50), fits[0].guarantee_
    for k in range(len(fits)):
        save_release_page(tmp_path / f"{k}.html", Fit(model_=model, guarantee_=promise, plan_=plan))
    assert (tmp_path / "0.html").read_bytes() == (tmp_path / "1.html").read_bytes()


def test_entries_are_never_counted_in_unit_entry(tmp_path: Path) -> None:
    plan = Plan(method="gram", noise="laplace", predictions=(), ranks=(2, 2), n_entries=123457)
    model = cp_model((9, 8), kinds=("none",))
    save_release_page(tmp_path / "r.html", Fit(model_=model, guarantee_=guarantee("entry"), plan_=plan))
    page = (tmp_path / "r.html").read_text()
    assert "123457" not in page
    assert "explorer-data" not in page
    assert "private in its unit" in page


@settings(max_examples=40)
@given(
    st.lists(st.integers(1, 30), min_size=2, max_size=5),
    st.integers(1, 4),
    st.sampled_from([0.0, 1e-12, 1.0, 1e12]),
    st.booleans(),
    st.sampled_from([("text",), ("none",), ("numbers", "dates")]),
)
def test_a_report_never_fails_after_the_budget_was_spent(
    shape: tuple[int, ...], rank: Any, scale: Any, biases: Any, kinds: Any
) -> None:
    model = cp_model(tuple(shape), rank, scale=scale, biases=biases, kinds=kinds)
    text = render(release_page(Fit(model_=model, guarantee_=guarantee())))
    Reader(text)
    assert not re.search(r"\b(nan|inf)\b", re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL), re.IGNORECASE)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_explorer_says_what_the_planner_says(delta: float) -> None:
    found = explore(**FILMS, epsilon=0.777, delta=delta)
    assert found.epsilons[0] == explorer_module.LOWEST
    assert found.epsilons[-1] == explorer_module.HIGHEST
    assert found.epsilon == 0.777
    ratios = np.diff(np.log(found.epsilons))
    assert ratios.max() < np.log(10) / 36
    for k in range(0, len(found.epsilons), 17):
        direct = plan(budget=Budget(epsilon=found.epsilons[k], delta=delta), unit=Unit.value(), **FILMS)
        assert found.chosen[k] == direct.method
        assert {name: row[k] for name, row in found.errors.items()} == {p.method: p.rmse for p in direct.predictions}
    assert list(found.errors) == list(COMPARED)
    assert found.floor < min(min(row) for row in found.errors.values())


def test_the_explorer_reaches_budgets_beyond_its_grid() -> None:
    assert explore(**FILMS, epsilon=500.0, delta=0.0).epsilons[-1] == 500.0
    assert explore(**FILMS, epsilon=0.001, delta=0.0).at == 0


def test_the_page_holds_the_explorers_table() -> None:
    page = PAGES["release"]
    (block,) = re.findall(r'<script type="application/json" id="explorer-data">(.*?)</script>', page)
    data = json.loads(block)
    assert len(data["epsilons"]) == len(data["chosen"]) == len(data["errors"]["mean"]) > 150
    assert data["shown"][data["at"]] == "2"
    assert data["odds"][data["at"]] == "7.39"  # e^2 = 7.389...: rounded up
    rows = re.search(r'aria-label="Table: guessed errors at every budget".*?</table>', page, re.DOTALL)
    assert rows is not None
    assert rows[0].count("<tr>") > 40  # the same without a script


def test_of_many_entries_some_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    model = cp_model((30, 12, 5), kinds=("none",))
    tensor = observed(model)
    monkeypatch.setattr("tensorveil.report.residuals.MOST", 100)
    text = Reader(render(owner_page(model, guarantee(), tensor))).text
    assert f"100 of the {tensor.n_entries:,} entries it was fitted to, at equal distances" in text
    counts = re.search(r"residuals by size residual entries (.*?)Root mean square", text)
    assert counts is not None
    assert sum(int(n) for n in re.findall(r"to −?[\d.e−]+ (\d+)", counts[1])) == 100


def test_pages_are_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, page = tmp_path / "report.html", release_page(Fit(model_=cp_model((3, 2)), guarantee_=guarantee()))
    place.write_text("before")
    monkeypatch.setattr("tensorveil.report.page.render", lambda page: (_ for _ in ()).throw(RuntimeError("no")))
    with pytest.raises(RuntimeError):
        save_page(place, page)
    assert place.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(InputError, match="does not exist"):
        save_page(tmp_path / "none" / "report.html", page)
