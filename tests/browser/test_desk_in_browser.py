"""The desk in a real browser: a whole private run by keyboard alone, faults at their fields, and axe finds none."""

from __future__ import annotations

import http.server
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tensorveil as tv
from tensorveil.desk.running import Runner
from tests.browser.test_report_in_browser import OVERFLOWS
from tests.flows.desk_cases import Visitor, served
from tests.flows.private_cases import new_ledger, write_table

QUICK = ((1280, "light"), (400, "dark"))
LOOKS = [
    pytest.param(width, scheme, marks=[] if (width, scheme) in QUICK else [pytest.mark.slow])
    for width in (1280, 400)
    for scheme in ("light", "dark")
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_table(tmp_path / "ratings.csv")
    (tmp_path / "films.txt").write_text("".join(f"{k}\n" for k in range(9)))
    return tmp_path


@pytest.fixture
def desk(folder: Path) -> Iterator[Visitor]:
    with served(folder) as visitor:
        yield visitor


@pytest.fixture
def opened(chromium: Any) -> Iterator[Any]:
    """Open a desk's page, and note everything that goes wrong or asks for something elsewhere."""
    contexts = []

    def open_desk_page(visitor: Visitor, width: int = 1280, scheme: str = "light", **options: Any) -> Any:
        context = chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, **options)
        contexts.append(context)
        page = context.new_page()
        page.faults = []
        page.on("console", lambda message: page.faults.append(message.text) if "422" not in message.text else None)
        page.on("pageerror", lambda error: page.faults.append(str(error)))
        page.on("request", lambda each: page.faults.append(each.url) if visitor.token not in each.url else None)
        page.goto(visitor.desk.address)
        page.wait_for_selector("#files button")
        return page

    yield open_desk_page
    for context in contexts:
        context.close()


def reach(page: Any, name: str) -> None:
    """Go to a control by the keyboard, and see that this shows."""
    for _ in range(120):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == name:
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
            box = page.evaluate("(({left, right}) => [left, right])(document.activeElement.getBoundingClientRect())")
            assert box[0] >= 0
            assert box[1] <= page.viewport_size["width"]
            return
    raise AssertionError(f"{name} cannot be reached")


def type_into(page: Any, name: str, text: str) -> None:
    reach(page, name)
    page.keyboard.press("Control+A")
    page.keyboard.type(text)


def press_main(page: Any, form: str) -> None:
    """Go on by the keyboard, from wherever one is in a form."""
    for _ in range(60):
        if page.evaluate("(form) => document.activeElement.matches(`#${form} button[type=submit]`)", form):
            page.keyboard.press("Enter")
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"the button of {form} cannot be reached")


def shown(page: Any, name: str) -> None:
    page.wait_for_selector(f"#{name}:not([hidden])", timeout=60_000)


def run_by_keyboard(page: Any) -> None:
    type_into(page, "file", "ratings.csv")
    page.keyboard.press("Enter")
    shown(page, "look")
    press_main(page, "look-form")
    shown(page, "promise")
    reach(page, "unit-value")
    type_into(page, "low", "1")
    type_into(page, "high", "5")
    press_main(page, "promise-form")
    shown(page, "plan")
    type_into(page, "epsilon", "2")
    page.keyboard.press("Enter")
    shown(page, "run")
    type_into(page, "ledger-name", "ratings")
    type_into(page, "ledger-epsilon", "5")
    page.keyboard.press("Enter")
    page.wait_for_selector("#ledger-shown table")
    press_main(page, "run-form")
    shown(page, "release")


def test_a_whole_private_run_by_keyboard_alone(opened: Any, desk: Visitor, folder: Path) -> None:
    page = opened(desk)
    run_by_keyboard(page)
    _, guarantee = tv.load_release(folder / "release")
    assert page.inner_text("#sentence") == guarantee.sentence()
    [charge] = tv.Ledger.open(folder / "ratings.ledger").entries()
    assert (charge.status, charge.purpose) == ("released", "private completion")
    assert page.inner_text("#step") == "Done."
    page.wait_for_selector("#bill:has-text('The run is over: epsilon 3 is left in ratings.ledger. Another run would')")
    assert page.evaluate("document.activeElement.id") == "release-title"
    reach(page, "report")
    with page.context.expect_page() as found:
        page.keyboard.press("Enter")
    report = found.value
    report.wait_for_load_state()
    assert "may be published" in report.title()
    assert report.evaluate("self.origin") == "null"  # it has no part in the desk
    assert report.evaluate("document.referrer") == ""
    assert report.evaluate("getComputedStyle(document.body).maxWidth") is not None
    reach(page, "everything")
    with page.expect_download() as downloaded:
        page.keyboard.press("Enter")
    assert downloaded.value.suggested_filename == "release.zip"
    page.reload()
    shown(page, "release")  # what was made here is still shown
    assert page.faults == []


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_axe_finds_no_fault(opened: Any, desk: Visitor, width: int, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = opened(desk, width, scheme, bypass_csp=True)  # axe is a script that the page's policy refuses

    def check() -> None:
        found = axe.Axe().run(page).response
        assert [(fault["impact"], fault["id"], fault["nodes"][0]["html"]) for fault in found["violations"]] == []
        assert len(found["passes"]) > 20
        assert page.evaluate(OVERFLOWS) == []

    page.fill("#file", "nothing.csv")
    page.keyboard.press("Enter")
    page.wait_for_selector(".fault")
    check()
    page.fill("#file", "ratings.csv")
    page.keyboard.press("Enter")
    shown(page, "look")
    press_main(page, "look-form")
    shown(page, "promise")
    page.check("#unit-slice")
    page.fill("#low", "1")
    page.fill("#high", "5")
    page.fill("#size-0", "100")
    page.fill("#list-1", "films.txt")
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    check()
    press_main(page, "promise-form")
    shown(page, "plan")
    page.fill("#entries", "100")
    press_main(page, "plan-form")
    shown(page, "run")
    page.fill("#ledger-name", "ratings")
    page.fill("#ledger-delta", "1e-4")
    press_main(page, "new-ledger-form")
    page.wait_for_selector("#ledger-shown table")
    check()


def test_faults_are_shown_at_their_fields(opened: Any, desk: Visitor) -> None:
    page = opened(desk)
    page.fill("#file", "ratings.csv")
    page.keyboard.press("Enter")
    shown(page, "look")
    page.select_option("#role-0", "")
    press_main(page, "look-form")
    page.wait_for_selector("#modes .fault")
    page.select_option("#role-0", "mode")
    press_main(page, "look-form")
    shown(page, "promise")
    page.fill("#low", "5")
    page.fill("#high", "1")
    press_main(page, "promise-form")
    fault = page.wait_for_selector("#bounds .fault")
    assert "Bounds must be two finite numbers" in fault.inner_text()
    assert page.evaluate("document.activeElement.id") == "low"
    assert page.get_attribute("#low", "aria-invalid") == "true"
    assert page.get_attribute("#low", "aria-errormessage") == fault.get_attribute("id")
    assert not page.is_visible("#plan")
    page.check("#unit-slice")
    page.fill("#low", "1")
    page.fill("#high", "5")
    press_main(page, "promise-form")
    page.wait_for_selector("#lists .fault")
    assert page.faults == []


def test_cancelling_says_what_was_charged(opened: Any, folder: Path) -> None:
    new_ledger(folder / "ratings.ledger")
    runner = Runner((sys.executable, "-m", "tests.flows.desk_worker", "wait"))
    with served(folder, runner) as visitor:
        page = opened(visitor, 400)
        page.fill("#file", "ratings.csv")
        for form in ("data-form", "look-form", "promise-form", "plan-form"):
            if form == "promise-form":
                page.fill("#low", "1")
                page.fill("#high", "5")
            shown(page, form.removesuffix("-form"))
            page.click(f"#{form} button.main")
        shown(page, "run")
        page.wait_for_selector("#ledger-shown table")
        assert "epsilon 1" in page.inner_text("#start")
        assert "This run spends epsilon 1, delta 0, of epsilon" in page.inner_text("#bill")
        page.click("#start")
        page.wait_for_selector("#step:has-text('Charging')", timeout=60_000)
        while not tv.Ledger.open(folder / "ratings.ledger").entries():
            pass
        page.keyboard.press("Enter")  # the focus is on cancelling
        page.wait_for_selector("#alert:not([hidden])")
        [charge] = tv.Ledger.open(folder / "ratings.ledger").entries()
        assert "after the ledger was charged" in page.inner_text("#alert")
        assert charge.release_id in page.inner_text("#alert")
        assert page.inner_text("#step") == "Cancelled."
        page.wait_for_selector("#ledger-shown:has-text('1 charge so far')")
        assert not page.is_visible("#release")
        assert page.faults == []


class Elsewhere(http.server.BaseHTTPRequestHandler):
    """A page of another origin, which forbids itself nothing."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>elsewhere</title>")

    def log_message(self, *_: Any) -> None:
        pass


ASK = """async ([address, form, mode]) => {
    const kind = mode === 'no-cors' ? 'text/plain' : 'application/json';
    try {
        const answer = await fetch(address, {method: 'POST', mode, body: form, headers: {'Content-Type': kind}});
        return answer.type === 'opaque' ? 'opaque' : answer.status;
    } catch (error) { return 'refused'; }
}"""
FRAME = """(address) => new Promise((done) => {
    const frame = document.createElement('iframe');
    frame.onload = done;
    frame.src = address;
    document.body.append(frame);
})"""


def test_another_page_cannot_ask_the_desk(chromium: Any, desk: Visitor, folder: Path) -> None:
    """One of another origin that even knows the token gets no answer and no frame, and starts no ledger."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    page = chromium.new_page()
    try:
        page.goto(f"http://127.0.0.1:{server.server_address[1]}/")
        form = json.dumps({"name": "stolen", "epsilon": "9", "delta": "0", "unit": "value"})
        for address in (desk.desk.address, desk.desk.address.replace("127.0.0.1", "localhost")):
            for mode in ("cors", "no-cors"):
                assert page.evaluate(ASK, [f"{address}ask/new-ledger", form, mode]) in ("refused", "opaque")
            page.evaluate(FRAME, address)
            # The frame's first, empty page may end its loading before the browser refuses the one that was asked for.
            page.frames[-1].wait_for_url("chrome-error:**")
    finally:
        page.close()
        server.shutdown()
        thread.join()
        server.server_close()
    assert not (folder / "stolen.ledger").exists()
