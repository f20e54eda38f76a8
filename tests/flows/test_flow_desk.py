"""The desk over HTTP: who is let in, what can be opened, and whole runs, equal to those of the shell."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tensorveil as tv
from tensorveil.cli.main import run
from tensorveil.desk import worker
from tensorveil.desk.errors import describe_error
from tensorveil.desk.places import Places
from tensorveil.desk.running import Runner
from tensorveil.errors import CHARGED, InputError
from tests.flows.desk_cases import Visitor, served
from tests.flows.private_cases import SECRET, assert_nothing_private, names, new_ledger, write_table

PROMISE: dict[str, Any] = {
    "file": "ratings.csv",
    "roles": {"user": "mode", "film": "mode", "rating": "value"},
    "unit": "value",
    "low": "1",
    "high": "5",
    "delta": "0",
    "rank": "2",
}
SPENDING = {"epsilon": "2", "ledger": "ratings.ledger", "output": "release", "purpose": "a test", "fill": "csv"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("desk")
    write_table(place / "ratings.csv")
    (place / "films.csv").write_text("film\n" + "".join(f"{k}\n" for k in range(9)))
    (place / "inner").mkdir()
    (place / ".hidden.csv").write_text("a,b,value\n1,2,3\n")
    (place / "out").symlink_to("/etc")
    (place / "loop").symlink_to("loop")
    new_ledger(place / "ratings.ledger", epsilon=9)
    return place


@pytest.fixture(scope="module")
def visitor(folder: Path) -> Iterator[Visitor]:
    with served(folder, max_upload=2_000_000) as found:
        yield found


# Who is let in.


def test_the_page_and_its_parts_are_served_with_a_strict_policy(visitor: Visitor) -> None:
    for path in ("", "desk.css", "desk.js", "colours.css"):
        answer = visitor.get(path)
        assert answer.status == 200
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "server" not in answer.headers
    page = visitor.get().body.decode()
    assert not re.search(r"<style|<script(?! src)|\son\w+=|style=|https?://", page)
    assert visitor.token not in page


@pytest.mark.parametrize(
    "path", ["/", "/TOKEN", "/ask/files", "//TOKEN/", "/TOKENx/", "/wrong/", "/%00/", "/../TOKEN/"]
)
def test_without_the_token_nothing_is_answered(visitor: Visitor, path: str) -> None:
    for method in ("GET", "POST", "HEAD", "OPTIONS"):
        answer = visitor.request(method, path.replace("TOKEN", visitor.token))
        assert answer.status == 403
        assert b"tensorveil desk" in answer.body or method == "HEAD"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:PORT", "127.0.0.1", "127.0.0.1:1", "", "127.0.0.1:PORT."]
)
def test_names_that_others_gave_this_machine_are_refused(visitor: Visitor, host: str) -> None:
    """A page elsewhere can make its name mean 127.0.0.1, but its browser still calls it by that name."""
    host = host.replace("PORT", str(visitor.port))
    assert visitor.get(Host=host).status == 403
    assert visitor.ask("files", Host=host, Origin=f"http://{host}").status == 403


@pytest.mark.parametrize(
    "changes",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": None},
        {"Origin": "https://127.0.0.1:PORT"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"},
    ],
)
def test_requests_of_other_pages_are_refused(visitor: Visitor, changes: Any) -> None:
    changes = {name: text and text.replace("PORT", str(visitor.port)) for name, text in changes.items()}
    assert visitor.ask("files", **changes).status == 403
    assert visitor.request("POST", "upload?name=a.csv", b"x", **changes).status == 403
    if changes.get("Origin", "") is not None:
        assert visitor.get("desk.js", **changes).status == 403


def test_the_address_may_be_opened_from_anywhere_and_nothing_else(visitor: Visitor) -> None:
    elsewhere = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    assert visitor.get(**elsewhere).status == 200
    assert visitor.get("release/1/report.html", **elsewhere).status == 403
    assert visitor.get(Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors").status == 403
    assert visitor.get(Sec_Fetch_Site="none").status == 200


def test_other_methods_paths_and_forms_are_refused(visitor: Visitor) -> None:
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "HEAD"):
        assert visitor.request(method, "").status == 405
    assert visitor.request("POST", "").status == 405
    assert visitor.get("ask/files").status == 405
    for path in ("ask", "ask/nothing", "page.html", "pages.py", "../pages.py", "%2e%2e/pages.py", "assets/desk.js"):
        assert visitor.get(path).status == 404
    assert (
        visitor.request("POST", "ask/files", "folder=x", Content_Type="application/x-www-form-urlencoded").status == 415
    )
    assert visitor.request("POST", "ask/files", "{}").status == 415
    assert visitor.request("POST", "ask/files", "[]", Content_Type="application/json").status == 400
    assert visitor.request("POST", "ask/files", "[" * 100_000, Content_Type="application/json").status == 400
    assert visitor.ask("files", {"folder": "x" * (1 << 20)}).status == 413
    assert visitor.ask("files", {"folder": 3}).status == 422


def test_it_listens_on_loopback_alone(visitor: Visitor) -> None:
    assert visitor.desk.socket.getsockname()[0] == "127.0.0.1"
    for address in ("127.0.0.2", socket.gethostbyname(socket.gethostname())):
        if address != "127.0.0.1":
            with pytest.raises(OSError, match="refused"):
                socket.create_connection((address, visitor.port), timeout=5)


# What can be opened.


def test_only_files_below_the_folder_can_be_opened(visitor: Visitor, folder: Path) -> None:
    assert visitor.ask("preview", {"file": str(folder / "ratings.csv")}).status == 200
    outside = Path(folder.parent, f"{folder.name}-beside.csv")
    outside.write_text(f"a,b,value\n1,2,{SECRET}\n")
    (folder / "inner" / "linked.csv").symlink_to(outside)
    places = (
        "/etc/passwd", "../" + outside.name, "inner/../../" + outside.name, "inner/linked.csv", "out/passwd", "loop",
        "\0", "", ".", "inner", "nothing.csv", "upload:none/a.csv", "x" * 299, "~/a.csv", str(outside),
    )  # fmt: skip
    for place in places:
        for what, name in (("preview", "file"), ("ledger", "ledger")):
            answer = visitor.ask(what, {name: place})
            assert answer.status == 422, place
            assert answer.json["field"] == name
            assert SECRET.encode() not in answer.body
    for place in ("..", "/", "out", "../..", "loop", "ratings.csv"):
        assert visitor.ask("files", {"folder": place}).status == 422


def test_a_folder_lists_what_can_be_opened(visitor: Visitor) -> None:
    found = visitor.ask("files", {"folder": ""}).json
    assert {"ratings.csv", "films.csv", "inner", "ratings.ledger"} <= {each["name"] for each in found["found"]}
    assert not {".hidden.csv", "out", "loop"} & {each["name"] for each in found["found"]}
    assert visitor.ask("files", {"folder": "inner"}).json["found"] == []


@pytest.mark.parametrize("name", ["../release", "a/b", ".hidden", "", "a\nb", "/tmp/release", "..", "x" * 101])
def test_releases_and_ledgers_have_plain_names(visitor: Visitor, folder: Path, name: str) -> None:
    before = sorted(folder.parent.rglob("*"))
    assert visitor.ask("run", PROMISE | SPENDING | {"output": name}).json["field"] == "output"
    made = {"name": name, "epsilon": "1", "delta": "0", "unit": "value"}
    assert visitor.ask("new-ledger", made).json["field"] == "ledger-name"
    assert sorted(folder.parent.rglob("*")) == before


def test_uploads_are_kept_apart_bounded_and_removed(folder: Path) -> None:
    with served(folder, max_upload=10_000) as visitor:

        def send(name: str, body: bytes) -> Any:
            return visitor.request("POST", f"upload?name={name}", body)

        answer = send("mine.csv", b"user,film,value\nann,Alien,5\n")
        file = answer.json["file"]
        assert visitor.ask("preview", {"file": file}).json["first"] == [["ann", "Alien", "5"]]
        with socket.create_connection(("127.0.0.1", visitor.port)) as slow:  # one that breaks off leaves nothing
            head = f"POST /{visitor.token}/upload?name=half.csv HTTP/1.1\r\nHost: 127.0.0.1:{visitor.port}\r\n"
            slow.sendall(f"{head}Origin: http://127.0.0.1:{visitor.port}\r\nContent-Length: 900\r\n\r\nhalf".encode())
        uploads = visitor.desk.places.uploads
        assert uploads.stat().st_mode & 0o077 == 0
        for name in ("../x.csv", "a/b.csv", "%2e%2e%2fx.csv", "", ".x.csv", "a%00.csv"):
            assert send(name, b"x").json["field"] == "upload"
        assert send("large.csv", b"x" * 10_001).json["field"] == "upload"
        assert send("small.csv", b"x" * 5_000).status == 200
        assert send("too-much.csv", b"x" * 6_000).json["field"] == "upload"
        assert sorted(path.name for path in uploads.rglob("*.csv")) == ["mine.csv", "small.csv"]
    assert not uploads.exists()
    assert not list(folder.rglob("mine.csv"))


# What is shown.


def test_a_preview_shows_columns_and_nothing_to_choose_bounds_by(visitor: Visitor) -> None:
    found = visitor.ask("preview", {"file": "ratings.csv"}).json
    assert [column["name"] for column in found["columns"]] == ["user", "film", "rating"]
    assert len(found["first"]) == 5
    assert not re.search("min|max|mean|median", json.dumps(found))


@pytest.mark.parametrize(
    ("what", "changes", "field"),
    [
        ("check", {"low": "x"}, "bounds"),
        ("check", {"low": "nan"}, "bounds"),
        ("check", {"low": "5", "high": "1"}, "bounds"),
        ("check", {"unit": "planet"}, "unit"),
        ("check", {"unit": "slice"}, "protect"),
        ("check", {"unit": "entry"}, "lists"),
        ("check", {"unit": "entry", "sizes": {"user": "many"}}, "lists"),
        ("check", {"unit": "entry", "lists": {"film": {"file": "../x"}}}, "lists"),
        ("check", {"unit": "entry", "lists": {"film": {"file": "ratings.csv", "column": "film"}}}, "lists"),
        ("check", {"roles": {"user": "mode", "rating": "value"}}, "modes"),
        ("check", {"rank": "-3"}, "rank"),
        ("check", {"file": ""}, "file"),
        ("plan", {"epsilon": "0"}, "epsilon"),
        ("plan", {"epsilon": "1", "delta": "0.5"}, "delta"),
        ("plan", {"epsilon": "1", "rank": "0"}, "rank"),
        ("run", SPENDING | {"ledger": "ratings.csv"}, "ledger"),
        ("run", SPENDING | {"ledger": ""}, "ledger"),
        ("run", SPENDING | {"purpose": ""}, "purpose"),
        ("run", SPENDING | {"output": "inner"}, "output"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(visitor: Visitor, what: str, changes: Any, field: str) -> None:
    answer = visitor.ask(what, PROMISE | changes)
    assert answer.status == 422
    assert answer.json["field"] == field, answer.json
    assert SECRET not in answer.json["message"]
    assert visitor.ask("look").json["state"] == "idle"


def test_moments_are_put_into_bins(visitor: Visitor, folder: Path) -> None:
    rows = [f"{u},{f},2024-01-{1 + (u * f) % 20:02d}T1{f}:00,{1 + (u + f) % 5}" for u in range(8) for f in range(6)]
    (folder / "seen.csv").write_text("\n".join(["user,film,time,rating", *rows]) + "\n")
    found = visitor.ask("preview", {"file": "seen.csv"}).json
    assert [column["moments"] for column in found["columns"]] == [False, False, True, False]
    roles = {"user": "mode", "film": "mode", "time": "mode", "rating": "value"}
    asked = PROMISE | {"file": "seen.csv", "roles": roles, "bins": {"time": "week"}, "epsilon": "1"}
    assert visitor.ask("check", asked).status == 200
    assert visitor.ask("plan", asked).json["shape"] == [8, 6, 4 - 1]
    private = asked | {"unit": "entry", "sizes": {"user": "9", "film": "9"}, "indices": True, "entries": "50"}
    for ranges in ({}, {"time": ["", ""]}, {"time": ["2024-01-31", "2024-01-01"]}, {"time": ["soon", "later"]}):
        refused = visitor.ask("check", private | {"ranges": ranges})
        assert (refused.status, refused.json["field"]) == (422, "lists")
        assert "such as 2024-01-01 and 2024-12-31" in refused.json["message"]
    planned = visitor.ask("plan", private | {"ranges": {"time": ["2024-01-01", "2024-01-31"]}}).json
    assert planned["shape"] == [9, 9, 5]
    refused = visitor.ask("check", asked | {"bins": {"time": "year"}})
    assert (refused.status, refused.json["field"]) == (422, "modes")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("bounds must be two finite numbers, the lower one first. Try bounds=(1, 5).", "Try 1 and 5."),
        (
            "Try shape={'user': 1000}, or labels={'user': everyone}.",
            "at most 1000 of 'user', or a public list of 'user'",
        ),
        (
            'unit="slice" needs delta above 0. Try delta=1e-6.',
            '"all that one person did" needs delta above 0. Try delta 1e-6',
        ),
        ("Say encoding='latin-1'.", "Say --encoding latin-1. What begins with -- is an option of the command"),
    ],
)
def test_the_page_speaks_of_its_own_fields(said: str, shown: str) -> None:
    assert shown in describe_error(InputError(said))["message"]


def test_the_plan_is_that_of_the_shell(visitor: Visitor, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = visitor.ask("plan", PROMISE | {"epsilon": "2"}).json
    options = ["--value", "rating", "--bounds", "1", "5", "--rank", "2", "--epsilon", "2", "--json"]
    assert run(["plan", str(folder / "ratings.csv"), *options]) == 0
    expected = json.loads(capsys.readouterr().out)["budgets"][0]
    assert [each for each in found["budgets"] if each["epsilon"] == 2] == [expected]
    assert "--" not in found["assumed"]


def test_whole_users_are_planned_from_what_is_declared(visitor: Visitor) -> None:
    lists = {"film": {"file": "films.csv"}}
    asked = PROMISE | {"unit": "slice", "protect": "user", "lists": lists, "sizes": {"user": "500"}, "delta": "1e-6"}
    found = visitor.ask("plan", asked | {"epsilon": "3", "entries": "4000"}).json
    assert (found["shape"], found["unit"]) == ([500, 9], "slice:user")
    assert visitor.ask("plan", asked | {"epsilon": "3"}).json["field"] == "entries"


def test_errors_of_others_are_not_quoted() -> None:
    assert SECRET not in describe_error(RuntimeError(SECRET))["message"]
    assert describe_error(InputError("bounds must be two numbers."))["field"] == "bounds"


def test_without_the_extra_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run(["desk", str(tmp_path)]) == 2
    assert "pip install 'tensorveil[desk]'" in capsys.readouterr().err


# Whole runs.


def start(visitor: Visitor, **changes: Any) -> Any:
    answer = visitor.ask("run", PROMISE | SPENDING | changes)
    assert answer.status == 200, answer.json
    return answer.json["number"]


def test_a_run_leaves_what_the_shell_leaves(visitor: Visitor, folder: Path, tmp_path: Path) -> None:
    number = start(visitor)
    assert visitor.ask("run", PROMISE | SPENDING | {"output": "second"}).json["field"] == "run"  # one at a time
    found = visitor.follow()
    assert found["state"] == "done", found
    shell = [
        "complete",
        str(folder / "ratings.csv"),
        "-o",
        str(tmp_path / "shell"),
        "--epsilon",
        "2",
        "--unit",
        "value",
    ]
    more = ["--bounds", "1", "5", "--value", "rating", "--modes", "user,film", "--rank", "2", "--filled-format", "csv"]
    assert run([*shell, *more, "--ledger", str(folder / "ratings.ledger"), "--purpose", "a test"]) == 0
    assert sorted(found["files"]) == names(folder / "release") == names(tmp_path / "shell")
    mine, theirs = (
        json.loads((place / "guarantee.json").read_text()) for place in (folder / "release", tmp_path / "shell")
    )
    same = ("sentence", "unit", "epsilon", "delta", "composition", "released", "bounds", "mechanism", "public")
    assert all(mine[name] == theirs[name] for name in same)
    assert found["sentence"] == mine["sentence"]
    first, second = tv.Ledger.open(folder / "ratings.ledger").entries()
    assert (first.event, first.purpose, first.status) == (second.event, second.purpose, "released")
    assert_nothing_private(folder / "release", json.dumps(found))
    assert tv.load_release(folder / "release")

    report = visitor.get(f"release/{number}/report.html")
    assert report.body == (folder / "release" / "report.html").read_bytes()
    assert report.headers["content-security-policy"].startswith("sandbox")
    assert "attachment" in visitor.get(f"release/{number}/report.html?save").headers["content-disposition"]
    packed = zipfile.ZipFile(io.BytesIO(visitor.get(f"release/{number}.zip").body))
    assert sorted(packed.namelist()) == sorted(f"release/{name}" for name in found["files"])
    for path in (
        "2/report.html",
        "2.zip",
        "1/nothing",
        "1/..%2fratings.csv",
        "1/../ratings.csv",
        "1/%2e%2e",
        "x/model.npz",
    ):
        assert visitor.get(f"release/{path}").status == 404, path
    (folder / "release" / "MODEL_CARD.md").unlink()
    (folder / "release" / "MODEL_CARD.md").symlink_to(folder / "ratings.csv")
    assert visitor.get(f"release/{number}/MODEL_CARD.md").status == 404
    assert visitor.get(f"release/{number}.zip").status == 404


def test_an_upload_and_public_lists_protect_whole_users(visitor: Visitor, folder: Path, tmp_path: Path) -> None:
    upload = visitor.request("POST", "upload?name=mine.csv", (folder / "ratings.csv").read_bytes()).json["file"]
    made = {"name": "persons", "epsilon": "5", "delta": "1e-4", "unit": "slice", "protect": "user"}
    ledger = visitor.ask("new-ledger", made).json["path"]
    asked = {"file": upload, "unit": "slice", "protect": "user", "delta": "1e-6", "ledger": ledger, "output": "persons"}
    copied = {"film": {"file": upload, "column": "film"}}
    copy = {**PROMISE, **asked, "file": "ratings.csv", "lists": copied, "sizes": {"user": "14"}}
    assert visitor.ask("check", copy).json["field"] == "lists"  # a list that is read off the data, by way of a copy
    lists = {"film": {"file": "films.csv", "column": "film"}, "user": {"file": "", "column": ""}}
    start(visitor, **asked, lists=lists, sizes={"user": "14", "film": ""}, fill="")
    found = visitor.follow()
    assert found["state"] == "done", found
    shell = [
        "complete",
        str(folder / "ratings.csv"),
        "-o",
        str(tmp_path / "shell"),
        "--epsilon",
        "2",
        "--delta",
        "1e-6",
    ]
    more = ["--unit", "slice:user", "--bounds", "1", "5", "--value", "rating", "--modes", "user,film", "--rank", "2"]
    assert run([*shell, *more, "--labels", f"film={folder / 'films.csv'}:film", "--private-shape", "user=14"]) == 0
    mine, theirs = (
        json.loads((place / "guarantee.json").read_text()) for place in (folder / "persons", tmp_path / "shell")
    )
    assert mine["sentence"] == theirs["sentence"]
    assert names(folder / "persons") == names(tmp_path / "shell")
    assert_nothing_private(folder / "persons", json.dumps(found))


def test_steps_and_rounds_are_said(visitor: Visitor, folder: Path) -> None:
    made = {"name": "followed", "epsilon": "5", "delta": "1e-4", "unit": "slice", "protect": "user"}
    ledger = visitor.ask("new-ledger", made).json["path"]
    lists = {"film": {"file": "films.csv", "column": "film"}, "user": {"file": "", "column": ""}}
    asked = {"unit": "slice", "protect": "user", "delta": "1e-6", "ledger": ledger, "output": "followed", "fill": ""}
    said: list[dict[str, Any]] = []
    places = Places(root=folder, uploads=folder, limit=0)
    form = PROMISE | SPENDING | asked | {"lists": lists, "sizes": {"user": "14", "film": ""}}
    worker.run_asked(form, places, lambda **facts: said.append(facts))
    rounds = [fact["rounds"] for fact in said if "rounds" in fact]
    assert rounds == [[k + 1, len(rounds)] for k in range(len(rounds))] != []
    assert [fact for fact in said if "step" in fact] == [{"step": "reading"}, {"step": "fitting"}, {"step": "writing"}]


def test_tensors_that_name_their_modes_need_no_columns(visitor: Visitor, folder: Path) -> None:
    """And a ledger of another unit is refused before anything is spent."""
    tensor = tv.synthetic_cp((9, 8, 7), 1, random_state=0).train.with_modes(("user", "film", "day"))
    tensor.write(folder / "tensor.npz")
    found = visitor.ask("preview", {"file": "tensor.npz"}).json
    assert [column["name"] for column in found["columns"]] == ["user", "film", "day"]
    assert not found["is_table"]
    sizes = {"user": "9", "film": "8", "day": "7"}
    asked = PROMISE | {"file": "tensor.npz", "roles": None, "unit": "entry", "sizes": sizes}
    assert visitor.ask("plan", asked | {"epsilon": "2", "entries": "100"}).json["shape"] == [9, 8, 7]
    visitor.ask("new-ledger", {"name": "entries", "epsilon": "3", "delta": "0", "unit": "entry"})
    start(visitor, **asked | {"unit": "value", "output": "entries", "ledger": "entries.ledger"})
    found = visitor.follow()
    assert (found["state"], found["field"], found["notes"]) == ("failed", "ledger", []), found
    assert not (folder / "entries").exists()


def failing(folder: Path, how: str) -> tuple[Runner, Path]:
    write_table(folder / "ratings.csv")
    ledger = new_ledger(folder / "ratings.ledger")
    return Runner((sys.executable, "-m", "tests.flows.desk_worker", how)), ledger


@pytest.mark.parametrize("how", ["fail", "die"])
def test_a_run_that_fails_after_the_charge_says_so(tmp_path: Path, how: str) -> None:
    runner, ledger = failing(tmp_path, how)
    with served(tmp_path, runner) as visitor:
        start(visitor)
        found = visitor.follow()
        assert found["state"] == "failed"
        [charge] = tv.Ledger.open(ledger).entries()
        assert any(charge.release_id in note and "never taken back" in note for note in found["notes"])
        assert SECRET not in json.dumps(found)
        assert names(tmp_path) == ["ratings.csv", "ratings.ledger"] or how == "die"
        if how == "die":
            return
        refused = visitor.ask("run", PROMISE | SPENDING | {"epsilon": "2"})  # one epsilon is left of three
        assert refused.status == 200
        found = visitor.follow()
        assert (found["state"], found["field"], found["notes"]) == ("failed", "epsilon", [])


def test_a_run_that_is_cancelled_says_what_was_charged(tmp_path: Path) -> None:
    runner, ledger = failing(tmp_path, "wait")
    with served(tmp_path, runner) as visitor:
        assert visitor.ask("cancel").json["field"] == "run"
        start(visitor)
        visitor.follow(until="fitting")
        while not tv.Ledger.open(ledger).entries():
            pass
        assert visitor.ask("cancel").status == 200
        visitor.ask("cancel")  # once more does no harm
        found = visitor.follow()
        assert found["state"] == "cancelled"
        [charge] = tv.Ledger.open(ledger).entries()
        assert any(charge.release_id in note for note in found["notes"])
        assert names(tmp_path) == ["ratings.csv", "ratings.ledger"]


def test_a_run_that_is_cancelled_at_once_charges_nothing(tmp_path: Path) -> None:
    """Before the process of the run hears interrupts, too."""
    runner, ledger = failing(tmp_path, "dawdle")
    with served(tmp_path, runner) as visitor:
        start(visitor)
        assert visitor.ask("cancel").status == 200
        found = visitor.follow()
        assert (found["state"], found["message"]) == ("cancelled", "Cancelled. Nothing was charged.")
        assert tv.Ledger.open(ledger).entries() == ()


def test_links_in_the_place_of_a_release_or_a_ledger_are_not_followed(visitor: Visitor, folder: Path) -> None:
    outside = folder.parent / "outside"
    for name in ("linked", "linked.ledger"):
        (folder / name).symlink_to(outside)
    assert visitor.ask("run", PROMISE | SPENDING | {"output": "linked"}).json["field"] == "output"
    made = {"name": "linked", "epsilon": "1", "delta": "0", "unit": "value"}
    assert visitor.ask("new-ledger", made).json["field"] == "ledger-name"
    assert not outside.exists()


def test_the_command_ends_its_run_and_leaves_no_trace(tmp_path: Path) -> None:
    """In a process of its own: what it prints, what it leaves, and what becomes of a run when it is ended."""
    write_table(tmp_path / "ratings.csv")
    new_ledger(tmp_path / "ratings.ledger")
    (tmp_path / "temporary").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    (tmp_path / "json.py").write_text("raise SystemExit('a file of the data folder was run')\n")
    command = [sys.executable, "-P", "-m", "tensorveil", "desk", str(tmp_path)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path
    )
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{43}/", address)
    visitor = Visitor(type("Desk", (), {"address": address})())
    assert visitor.request("POST", "upload?name=mine.csv", b"user,film,value\nann,Alien,5\n").status == 200
    assert visitor.get("/nothing").status == 403
    assert visitor.ask("preview", {"file": "ratings.csv"}).status == 200
    start(visitor)
    assert visitor.follow(until="reading")["state"] in ("running", "done")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out == ""
    assert not re.search(rf"{SECRET}|{visitor.token}|Traceback|GET|POST", err)
    charges = tv.Ledger.open(tmp_path / "ratings.ledger").entries()
    assert (CHARGED in err) == (bool(charges) and not (tmp_path / "release").exists())
    assert list((tmp_path / "temporary").iterdir()) == []
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
