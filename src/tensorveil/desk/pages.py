"""What the desk answers: its page, and what the page's script asks, in JSON."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from tensorveil.desk.asked import read_asked, read_entries, read_number, read_spending, read_unit, text_of
from tensorveil.desk.errors import FieldError, describe_error
from tensorveil.desk.guard import REPORT_POLICY
from tensorveil.desk.places import Places
from tensorveil.desk.running import Runner
from tensorveil.errors import InputError

__all__ = ["make_pages"]

LARGEST: Final = 1 << 20  # bytes of a form
ASSETS: Final = {
    "": ("page.html", "text/html"),
    "desk.css": ("desk.css", "text/css"),
    "desk.js": ("desk.js", "text/javascript"),
}
SHOWN: Final = {"report.html": "text/html; charset=utf-8"}


@dataclass(frozen=True)
class Pages:
    """The answers of one desk."""

    places: Places
    runner: Runner

    def list_files(self, form: dict[str, Any]) -> Any:
        """Return what is in a folder."""
        return self.places.list_folder(text_of(form, "folder")) | {"limit": self.places.limit}

    def preview(self, form: dict[str, Any]) -> Any:
        """Return what is in a file, for its owner."""
        from tensorveil.runs.preview import preview_file

        return preview_file(self.places.find(text_of(form, "file"))).to_json()

    def check(self, form: dict[str, Any]) -> Any:
        """Refuse what cannot be promised, as far as this can be told without the data."""
        read_asked(form, self.places).check_lists()
        return {}

    def plan(self, form: dict[str, Any]) -> Any:
        """Return what to expect of several budgets; nothing is spent."""
        from tensorveil.runs.plan import plan_budgets

        asked = read_asked(form, self.places)
        entries = None if asked.kind == "value" else read_entries(form)
        planned = plan_budgets(asked.make_plan(read_number(form, "epsilon"), entries))
        assumed = planned.assumed.replace(" (declare yours with --spread)", "")
        return planned.to_json() | {"cost": str(planned.cost), "assumed": assumed}

    def show_ledger(self, form: dict[str, Any]) -> Any:
        """Return what a ledger holds, and its numbers to show: what is spent rounded up, what is left, down."""
        from tensorveil.privacy import Ledger
        from tensorveil.privacy.exact import show_at_least, show_at_most
        from tensorveil.runs.budget import describe_ledger

        facts = describe_ledger(Ledger.open(self.places.find(text_of(form, "ledger"), "ledger")))
        rounding = {"budget": show_at_least, "spent": show_at_least, "remaining": show_at_most}
        shown = {
            name: {each: rounded(facts[name][each]) for each in ("epsilon", "delta")}
            for name, rounded in rounding.items()
        }
        return facts | {"shown": shown}

    def start_ledger(self, form: dict[str, Any]) -> Any:
        """Start a ledger in the desk's folder."""
        from tensorveil.privacy import Budget, Ledger
        from tensorveil.runs.budget import describe_ledger

        name = text_of(form, "name")
        path = self.places.make_name(f"{name}.ledger", "ledger-name")
        epsilon, delta = (read_number(form, each, f"ledger-{each}") for each in ("epsilon", "delta"))
        try:
            made = Ledger.create(path, budget=Budget(epsilon=epsilon, delta=delta), unit=read_unit(form), name=name)
        except InputError as error:
            raise FieldError("ledger-delta" if str(error).startswith("delta") else "ledger-name", str(error)) from None
        return describe_ledger(made) | {"path": path.name}

    def start_run(self, form: dict[str, Any]) -> Any:
        """Start a run; whatever can be checked here is refused at once."""
        places = self.places
        read_asked(form, places)
        spending = read_spending(form, places)
        if spending.output.exists():
            raise FieldError("output", "there is such a folder already, and a release never replaces anything.")
        request = {
            "form": form,
            "root": os.fspath(places.root),
            "uploads": os.fspath(places.uploads),
            "names": {key: os.fspath(path) for key, path in places.names.items()},
        }
        return {"number": self.runner.start(request, spending.ledger)}

    def look(self, _: dict[str, Any]) -> Any:
        """Return how far the run is."""
        return self.runner.look()

    def cancel(self, _: dict[str, Any]) -> Any:
        """Interrupt the run."""
        self.runner.cancel()
        return self.runner.look()

    def find_released(self, number: int, name: str) -> Path:
        """Return a file of a release that was made here; it must still be a plain file in its folder."""
        folder, files = self.runner.released.get(number, (Path(), frozenset()))
        path = folder / name
        if name not in files or path.is_symlink() or folder.is_symlink() or not path.is_file():
            raise HTTPException(404)
        return path

    def pack(self, number: int) -> Path:
        """Return a file that holds a whole release; the caller removes it."""
        folder, files = self.runner.released.get(number, (Path(), frozenset()))
        found = {name: self.find_released(number, name) for name in sorted(files)}
        handle, packed = tempfile.mkstemp(dir=self.places.uploads, suffix=".zip")
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w") as archive:
            for name, path in found.items():
                archive.write(path, f"{folder.name}/{name}")
        return Path(packed)


def make_pages(places: Places, runner: Runner) -> Starlette:
    """Return the application behind the guard."""
    pages = Pages(places, runner)
    asks: dict[str, Callable[[dict[str, Any]], Any]] = {
        "files": pages.list_files,
        "preview": pages.preview,
        "check": pages.check,
        "plan": pages.plan,
        "ledger": pages.show_ledger,
        "new-ledger": pages.start_ledger,
        "run": pages.start_run,
        "look": pages.look,
        "cancel": pages.cancel,
    }

    async def upload(request: Request) -> Response:
        try:
            file = await places.take(request.query_params.get("name", ""), request.stream())
        except Exception as error:
            return _explain(error)
        return JSONResponse({"file": file})

    async def released(request: Request) -> Response:
        number, name = request.path_params["number"], request.path_params["name"]
        path = await run_in_threadpool(pages.find_released, number, name)
        if name in SHOWN and "save" not in request.query_params:
            return FileResponse(path, media_type=SHOWN[name], headers={"content-security-policy": REPORT_POLICY})
        return FileResponse(path, filename=name, media_type="application/octet-stream")

    async def packed(request: Request) -> Response:
        number = request.path_params["number"]
        if number not in runner.released:
            raise HTTPException(404)
        path = await run_in_threadpool(pages.pack, number)
        name = f"{runner.released[number][0].name}.zip"
        return FileResponse(path, filename=name, media_type="application/zip", background=BackgroundTask(path.unlink))

    return Starlette(
        routes=[
            *(Route(f"/{name}", _serve_asset(*asset)) for name, asset in ASSETS.items()),
            Route("/colours.css", _serve_colours),
            *(Route(f"/ask/{name}", _answer(ask), methods=["POST"]) for name, ask in asks.items()),
            Route("/upload", upload, methods=["POST"]),
            Route("/release/{number:int}/{name}", released),
            Route("/release/{number:int}.zip", packed),
        ],
        exception_handlers={HTTPException: _refuse, Exception: _hide},
    )


def _answer(ask: Callable[[dict[str, Any]], Any]) -> Callable[[Request], Any]:
    """Return what answers a form in JSON, in a thread of its own."""

    async def answer(request: Request) -> Response:
        try:
            form = await _read_form(request)
            return JSONResponse(await run_in_threadpool(ask, form))
        except Exception as error:
            return _explain(error)

    return answer


async def _read_form(request: Request) -> dict[str, Any]:
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415)
    body = b""
    async for block in request.stream():
        body += block
        if len(body) > LARGEST:
            raise HTTPException(413)
    try:
        form = json.loads(body)
    except (ValueError, RecursionError):
        raise HTTPException(400) from None
    if not isinstance(form, dict):
        raise HTTPException(400)
    return form


def _explain(error: Exception) -> Response:
    """Say what is wrong, and at which field."""
    if isinstance(error, HTTPException):
        raise error
    return JSONResponse(describe_error(error), status_code=422)


async def _refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return PlainTextResponse("Refused.\n", status_code=error.status_code, headers=error.headers)


async def _hide(_: Request, error: Exception) -> Response:
    """The text of an error that is not ours may quote the data."""
    return PlainTextResponse(f"Unexpected {type(error).__name__}.\n", status_code=500)


def _serve_asset(name: str, kind: str) -> Callable[[Request], Any]:
    text = resources.files("tensorveil.desk").joinpath("assets", name).read_text(encoding="utf-8")

    async def serve(_: Request) -> Response:
        return Response(text, media_type=kind)

    return serve


async def _serve_colours(_: Request) -> Response:
    from tensorveil.report.page import read_asset

    return Response(read_asset("colours.css"), media_type="text/css")
