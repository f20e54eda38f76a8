"""Reports in a real browser: nothing fails, nothing overlaps, the explorer answers, and axe finds no fault."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorveil.audit import Claim, audit
from tensorveil.completion import PrivateCP
from tensorveil.models import CPModel
from tensorveil.report.audit_page import Audited, audit_page
from tensorveil.report.facts import Caption, Chart, Level, Series, Standing, TableOf
from tensorveil.report.owner_page import open_page, owner_page
from tensorveil.report.page import save_page
from tensorveil.report.release_page import save_release_page
from tensorveil.tensor import Mode, ObservedTensor, load_dataset, random_split
from tensorveil_evidence.studies import drawing
from tensorveil_evidence.studies.study_page import StudyFigure, StudyPage, make_study_page

LOOKS = [(width, scheme) for width in (1280, 400) for scheme in ("light", "dark")]
NASTY = "<img src=x onerror=alert(1)> \"long\" 'label' & <script>alert(2)</script>"
QUICK = (("release", 1280), ("owner", 400))
NAMES = ("release", "owner", "open", "audit", "study", "nasty", "nasty-owner", "nasty-study")


def released(folder: Path, name: str, tensor: Any, bounds: Any, rank: Any, epsilon: float) -> Any:
    fit = PrivateCP(rank, epsilon=epsilon, delta=0.0, unit="value", bounds=bounds, sweeps=5, threads=1).fit(tensor)
    save_release_page(folder / f"{name}.html", fit)
    return fit


def nasty_tensor() -> Any:
    rng = np.random.default_rng(0)
    shape = (40, 9, 3)
    modes = [Mode(f"{NASTY} {k}", [f"{i} {NASTY}" for i in range(size)]) for k, size in enumerate(shape)]
    cells = np.argwhere(rng.random(shape) < 0.7)
    values = np.clip(3 + np.sin(cells[:, 0]) * np.cos(cells[:, 1]) + 0.1 * rng.normal(size=len(cells)), 1, 5)
    return ObservedTensor(cells, values, shape=shape, modes=modes)


def study(prefix: str = "") -> Any:
    methods = tuple(Standing(name=prefix + s, status=s) for s in ("proven", "claimed", "refuted", "not private"))
    caption = Caption(text="Errors.", unit="value", epsilon="0.1 to 10", delta=1e-6, runs=50, methods=methods)
    x = (0.1, 0.3, 1.0, 3.0, 10.0)
    figure, _, axes = drawing.new_figure(9.6, 4.0, "A caption.", rows=1, columns=2)
    for axis in axes.flat:
        axis.plot(x, x, label=f"{prefix}line")
        axis.set_title(f"{prefix}Figure")
    image = drawing.draw_for_page(figure, "made-up")
    drawn = StudyFigure(image=image, alt=f"{prefix}two panels", caption=caption)
    columns = ("method", *(f"epsilon {v:g}, fifty runs" for v in x))
    table = TableOf(title="Table", columns=columns, rows=tuple((m.name, *x) for m in methods), caption=caption)
    facts = StudyPage(title=f"{prefix}A study", finding="It is so.", figure=drawn, tables=(table,), notes=("n",))
    return make_study_page(facts)


def trade_off_chart(prefix: str = "") -> Any:
    x = (0.1, 0.3, 1.0, 3.0, 10.0)
    methods = tuple(Standing(name=prefix + s, status=s) for s in ("proven", "claimed", "refuted", "not private"))
    series = [
        Series(
            name=m.name,
            x=x,
            y=tuple(k / v**0.5 for v in x),
            low=tuple(0.8 * k / v**0.5 for v in x),
            high=(9,) * 5,
        )
        for k, m in enumerate(methods, start=1)
    ]
    return Chart(
        title=f"{prefix}Figure", x=f"{prefix}epsilon", y=f"{prefix}RMSE", series=tuple(series),
        levels=(Level(name=f"{prefix}constant", y=2.0),),
        caption=Caption(text="Errors.", unit="value", epsilon="0.1 to 10", delta=1e-6, runs=50, methods=methods),
        log_x=True, log_y=True,
    )  # fmt: skip


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    place = tmp_path_factory.mktemp("reports")
    shown, hidden = random_split(load_dataset("covid19-serology"), 0.3, random_state=1)
    fit = released(place, "release", shown, (-5, 5), 8, 5.0)
    owner = owner_page(fit.model_, fit.guarantee_, shown, held_out=hidden, trade_off=trade_off_chart())
    save_page(place / "owner.html", owner)
    history = [{"train_error": 1.0 / k} for k in range(1, 9)]
    summary = {"fit": {"train_rmse": 0.4, "validation_rmse": None, "history": history}}
    save_page(place / "open.html", open_page(fit.model_, shown, summary))
    noise = audit(
        lambda data, rng, n: data + rng.laplace(scale=0.5, size=n), [(np.zeros(1), np.ones(1))], Claim(epsilon=1.0),
        samples=2000, batched=True,
    )  # fmt: skip
    found = [Audited(name=f"mechanism {k}", unit="value", verdict=noise, proven=False) for k in range(3)]
    save_page(place / "audit.html", audit_page(found))
    save_page(place / "study.html", study())
    tensor = nasty_tensor()
    fit = released(place, "nasty", tensor, (1, 5), 3, 30.0)
    save_page(
        place / "nasty-owner.html",
        owner_page(fit.model_, fit.guarantee_, tensor, trade_off=trade_off_chart(f"{NASTY} ")),
    )
    save_page(place / "nasty-study.html", study(f"{NASTY} "))
    return place


@pytest.fixture
def opened(chromium: Any, folder: Path) -> Iterator[Any]:
    """Open a report offline, and note everything that goes wrong or asks for something."""
    contexts = []

    def open_page_at(name: str, width: int = 1280, scheme: str = "light", **options: Any) -> Any:
        context = chromium.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, offline=True, **options
        )
        contexts.append(context)
        page = context.new_page()
        page.faults = []
        page.on("console", lambda message: page.faults.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: page.faults.append(str(error)))
        page.on("dialog", lambda dialog: (page.faults.append("dialog"), dialog.dismiss()))
        page.on("request", lambda request: page.faults.append(request.url) if "file:" not in request.url else None)
        page.goto((folder / f"{name}.html").as_uri())
        return page

    yield open_page_at
    for context in contexts:
        context.close()


# Texts of a drawing that leave it or cover each other by more than their letters' margins.
COLLISIONS = """
() => {
  const faults = [];
  for (const svg of document.querySelectorAll(".plot svg")) {
    const frame = svg.getBoundingClientRect();
    if (!frame.width) continue;
    const boxes = [...svg.querySelectorAll("text")].map((t) => [t.textContent, t.getBoundingClientRect()]);
    for (const [text, box] of boxes) {
      const aside = box.left < frame.left - 1 || box.right > frame.right + 1;
      if (aside || box.top < frame.top - 2 || box.bottom > frame.bottom + 2) faults.push(`cut: ${text}`);
    }
    boxes.forEach(([a, p], i) => boxes.slice(i + 1).forEach(([b, q]) => {
      const across = Math.min(p.right, q.right) - Math.max(p.left, q.left);
      const down = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      if (across > 1 && down > 4) faults.push(`overlap: ${a} | ${b}`);
    }));
  }
  return faults;
}
"""
# Elements that reach beyond the window, or whose text does not fit into them.
OVERFLOWS = """
() => {
  const faults = [];
  const wide = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > wide) faults.push("the page scrolls sideways");
  for (const part of document.querySelectorAll("h1, h2, h3, p, dt, dd, li, button, figure, summary")) {
    const box = part.getBoundingClientRect();
    if (box.width && !part.closest(".scroll, .skip") && part.className !== "skip" && box.right > wide + 1)
      faults.push(`beyond the window: ${part.textContent.slice(0, 40)}`);
  }
  for (const plot of document.querySelectorAll(".plot")) {
    if (plot.getBoundingClientRect().height < 20) faults.push("an empty panel");
  }
  return faults;
}
"""


@pytest.mark.parametrize("name", NAMES)
def test_reports_open_offline_without_faults(opened: Any, name: str) -> None:
    page = opened(name)
    for width, scheme in LOOKS:
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(COLLISIONS) == [], (width, scheme)
        assert page.evaluate(OVERFLOWS) == [], (width, scheme)
    assert page.faults == []


@pytest.mark.parametrize(
    ("check", "damage", "found"),
    [
        (COLLISIONS, "document.querySelector('.for-wide text').textContent = 'x'.repeat(200)", "overlap"),
        (COLLISIONS, "document.querySelector('.for-wide text').setAttribute('x', -40)", "cut"),
        (OVERFLOWS, "document.querySelector('h1').style.minWidth = '3000px'", "sideways"),
        (OVERFLOWS, "document.querySelector('.plot').replaceChildren()", "empty"),
    ],
)
def test_the_checks_find_what_they_look_for(opened: Any, check: Any, damage: Any, found: Any) -> None:
    page = opened("release")
    assert page.evaluate(check) == []
    page.evaluate(damage)
    assert any(found in fault for fault in page.evaluate(check))


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        pytest.param(name, width, scheme, marks=[] if (name, width) in QUICK else [pytest.mark.slow])
        for name in NAMES
        for width, scheme in LOOKS
    ],
)
def test_axe_finds_no_fault(opened: Any, name: str, width: Any, scheme: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = opened(name, width, scheme, bypass_csp=True)  # axe is a script that the page's policy refuses
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    found = axe.Axe().run(page).response
    assert [(fault["impact"], fault["id"], fault["nodes"][0]["html"]) for fault in found["violations"]] == []
    assert len(found["passes"]) > 30


def test_the_policy_refuses_other_scripts(opened: Any) -> None:
    page = opened("release")
    page.evaluate(
        "const s = document.createElement('script'); s.textContent = 'window.mine = 1'; document.body.append(s)"
    )
    assert page.evaluate("window.mine") is None
    assert any("Content Security Policy" in fault for fault in page.faults)


def test_the_explorer_answers_to_the_keyboard(opened: Any, folder: Path) -> None:
    page = opened("release")
    text = (folder / "release.html").read_text()
    block = re.search(r'id="explorer-data">(.*?)</script>', text)
    assert block is not None
    data = json.loads(block[1])
    slider = page.get_by_role("slider", name="Epsilon")
    assert slider.is_visible()
    assert page.inner_text("#told-epsilon") == "5"
    slider.focus()
    for key, place in (("ArrowRight", data["at"] + 1), ("Home", 0), ("End", len(data["epsilons"]) - 1)):
        page.keyboard.press(key)
        method = data["chosen"][place]
        assert page.inner_text("#told-epsilon") == data["shown"][place]
        assert page.inner_text("#told-method") == data["titles"][method]
        assert page.inner_text("#told-odds") == data["odds"][place]
        shown = float(page.inner_text("#told-error").replace(",", ""))
        assert shown == pytest.approx(data["errors"][method][place], rel=0.005)
        assert page.inner_text("tr.chosen th") == data["titles"][method]
        assert data["titles"][method] in slider.get_attribute("aria-valuetext")
        heavy = [float(pair.split(",")[0]) for pair in page.get_attribute(".for-wide .best", "points").split()]
        marked = float(page.get_attribute(".for-wide .mark-dot", "cx"))
        assert marked == pytest.approx(heavy[place], abs=0.2)
        tall = [float(pair.split(",")[1]) for pair in page.get_attribute(".for-wide .best", "points").split()]
        assert float(page.get_attribute(".for-wide .mark-dot", "cy")) == pytest.approx(tall[place], abs=0.2)
    page.get_by_role("button", name="Back to epsilon 5, as released").press("Enter")
    assert page.inner_text("#told-epsilon") == "5"
    assert page.faults == []


def test_without_a_script_the_table_says_the_same(opened: Any) -> None:
    page = opened("release", java_script_enabled=False)
    assert not page.locator("#budget").is_visible()
    assert page.inner_text("#told-epsilon") == "5"
    page.locator("#explorer-chart summary").click()
    table = page.get_by_role("region", name="Table: guessed errors at every budget")
    assert table.is_visible()
    assert table.locator("tbody tr").count() > 40


def test_everything_can_be_reached_by_keyboard(opened: Any) -> None:
    page = opened("release")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the report"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    seen = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert {"budget", "budget-back", "SUMMARY", "A"} <= seen


def test_landmarks_headings_and_names_in_the_accessibility_tree(opened: Any) -> None:
    page = opened("release")
    for role in ("banner", "main", "contentinfo", "navigation"):
        assert page.get_by_role(role).count() == 1
    assert page.get_by_role("heading", level=1).count() == 1
    levels = [int(tag[1]) for tag in page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map((h) => h.tagName)")]
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    drawings = page.get_by_role("img")
    assert drawings.count() >= 7
    assert all(drawings.nth(k).get_attribute("aria-label") for k in range(drawings.count()))


def test_reports_print(opened: Any, tmp_path: Path) -> None:
    page = opened("release", scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("nav").is_visible()
    assert page.locator(".for-wide").first.is_visible()
    printed = page.pdf(path=tmp_path / "report.pdf", format="A4", print_background=True)
    assert printed.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 12


@pytest.mark.parametrize("width", [1280, 400])
def test_the_figure_of_a_study_is_shown_and_can_be_read(opened: Any, width: Any) -> None:
    page = opened("study", width)
    image = page.get_by_role("img", name="two panels")
    assert page.evaluate("document.querySelector('img').naturalWidth") > 500
    assert image.bounding_box()["width"] >= 700  # on narrow screens it scrolls: text is not made smaller than this
    assert page.faults == []


def test_the_report_of_a_release_is_small(folder: Path) -> None:
    assert all((folder / f"{name}.html").stat().st_size < 3_000_000 for name in NAMES)


def test_models_without_entries_of_their_own_still_have_a_report(opened: Any, folder: Path) -> None:
    model = CPModel(factors=(np.zeros((3, 1)), np.zeros((2, 1))), offset=1.0, bounds=(0.0, 2.0))
    tensor = ObservedTensor(np.array([[0, 0], [2, 1]]), np.array([0.5, 1.5]), shape=(3, 2))
    summary: dict[str, Any] = {"fit": {"train_rmse": 0.5, "validation_rmse": None, "history": []}}
    save_page(folder / "constant.html", open_page(model, tensor, summary))
    page = opened("constant", 400)
    assert page.evaluate(COLLISIONS) == []
    assert page.evaluate(OVERFLOWS) == []
