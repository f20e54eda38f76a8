"""Federations over real processes on bad days: parties that are killed, restarted, stopped, slow, or hostile.

Each ends within a minute beyond a healthy run, with the right ledger, and with messages that are true.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tensorveil.privacy import Budget, Ledger
from tensorveil.release.release import load_release
from tests.flows.federated_parties import Parties

pytestmark = pytest.mark.slow

BEYOND = 60.0  # seconds
TIMEOUT = ("--timeout", "15")
Start = Callable[..., "Day"]


class Day:
    """A federation of three clients whose time is taken."""

    def __init__(self, folder: Path, trust: str) -> None:
        self.folder = folder
        self.here: Any = Parties(folder, 3, "--trust", trust, *(["--drop-outs", "1"] if trust == "secure" else []))
        self.books = [folder / "ratings.ledger"]
        if trust == "local":
            self.books = [folder / f"client-{k}.ledger" for k in range(3)]
        for book in self.books:
            Ledger.create(book, budget=Budget(epsilon=5.0, delta=1e-5), unit="slice:user", name="ratings")
        self.local = trust == "local"
        self.began = time.monotonic()

    def serve(self, *more: str) -> None:
        self.here.start_server("--json", *TIMEOUT, *([] if self.local else ["--ledger", self.books[0]]), *more)

    def join(self, *clients: int) -> None:
        for k in clients:
            self.here.start_client(k, *(["--ledger", self.books[k]] if self.local else []))

    def charges(self) -> list[list[str]]:
        return [[charge.status for charge in Ledger.open(book).entries()] for book in self.books]

    def finish(self, *names: str) -> list[int]:
        return [self.here.finish(name)[0] for name in names]

    @property
    def took(self) -> float:
        return time.monotonic() - self.began


def children(process: int) -> list[int]:
    """Return the processes that a process has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(state[1]) == process:
            found.append(int(path.parent.name))
    return found


def flower_node(day: Day, name: str) -> int:
    """Return the SuperNode of a client."""
    (found,) = children(day.here.processes[name].pid)
    return found


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    made: list[Day] = []

    def make(trust: str) -> Day:
        folder = tmp_path / f"{trust}-{len(made)}"
        folder.mkdir()
        made.append(Day(folder, trust))
        return made[-1]

    yield make
    for day in made:
        for process in day.here.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
        day.here.end()


def run_healthy(start: Start, trust: str) -> float:
    """Go through a day without harm, and return how long it took."""
    day = start(trust)
    day.serve()
    day.join(0, 1, 2)
    assert day.finish("server", "client-0", "client-1", "client-2") == [0, 0, 0, 0]
    assert day.charges() == ([["spent, release unknown"]] * 3 if trust == "local" else [["released"]])
    return day.took


def assert_in_time(day: Day, healthy: float) -> None:
    print(f"healthy {healthy:.0f} s, this one {day.took:.0f} s")
    assert day.took < healthy + BEYOND


@pytest.mark.parametrize("trust", ["aggregator", "secure", "local"])
def test_a_server_is_killed_in_mid_run_and_started_again(start: Start, trust: str) -> None:
    """No client answers a second run of an agreement, so it is over: the new server says what was charged."""
    healthy = run_healthy(start, trust)
    day = start(trust)
    day.serve()
    day.join(0, 1, 2)
    day.here.wait_for("client-2", "answered: sum")
    day.here.processes["server"].kill()
    day.here.processes["server"].wait()
    charged = day.charges()
    day.serve()
    (code,) = day.finish("server")
    said = day.here.said("server")
    assert code != 0
    assert "an earlier run of this server has used the agreement" in said
    if trust != "local":
        assert charged == [["spent, release unknown"]]
        assert Ledger.open(day.books[0]).entries()[0].release_id in said
    assert all(code != 0 for code in day.finish("client-0", "client-1", "client-2"))
    for k in range(3):
        text = day.here.said(f"client-{k}")
        assert "the server left before the run was over" in text or "the SuperNode has ended" in text
    assert day.charges() == charged
    assert not (day.folder / "release").exists()
    assert_in_time(day, healthy)


def test_a_server_is_killed_before_the_charge_and_started_again(start: Start) -> None:
    healthy = run_healthy(start, "aggregator")
    day = start("aggregator")
    day.serve()
    day.join(0, 1)
    day.here.wait_for("client-1", "answered: hello")
    day.here.processes["server"].kill()
    day.here.processes["server"].wait()
    assert day.charges() == [[]]
    day.serve()
    day.join(2)
    deadline = time.monotonic() + 90
    while day.here.processes["server"].poll() is None and time.monotonic() < deadline:
        for k in (0, 1):  # whose nodes may not survive their server: then their owners start them again
            if day.here.processes[f"client-{k}"].poll() is not None:
                day.join(k)
        time.sleep(0.5)
    assert day.finish("server") == [0], day.here.said("server")
    assert day.charges() == [["released"]]
    assert load_release(day.folder / "release")[1].private
    assert_in_time(day, healthy)


@pytest.mark.parametrize("trust", ["aggregator", "secure"])
def test_a_client_is_killed_and_started_again(start: Start, trust: str) -> None:
    healthy = run_healthy(start, trust)
    day = start(trust)
    day.serve()
    day.join(0, 1, 2)
    day.here.wait_for("client-2", "answered: sum")
    day.here.processes["client-2"].kill()
    day.here.processes["client-2"].wait()
    day.join(2)
    assert day.finish("server", "client-0", "client-1") == [0, 0, 0], day.here.said("server")
    day.finish("client-2")
    assert day.charges() == [["released"]]
    assert load_release(day.folder / "release")[1].private
    assert_in_time(day, healthy)


@pytest.mark.parametrize("trust", ["aggregator", "secure", "local"])
def test_a_node_ends(start: Start, trust: str) -> None:
    healthy = run_healthy(start, trust)
    day = start(trust)
    day.serve()
    day.join(0, 1, 2)
    day.here.wait_for("client-2", "answered: hello")
    os.kill(flower_node(day, "client-2"), signal.SIGKILL)
    (code,) = day.finish("client-2")
    assert code != 0
    assert "the SuperNode has ended" in day.here.said("client-2")
    day.finish("server", "client-0", "client-1")
    said, books = day.here.said("server"), day.charges()
    if (day.folder / "release").exists():  # it had answered what all must answer
        assert load_release(day.folder / "release")[1].private
        assert trust == "local" or books == [["released"]]
    else:
        assert "Nothing was charged" in said
        assert not any(books)
    assert_in_time(day, healthy)


@pytest.mark.parametrize("silent", [True, False], ids=["silent", "slow"])
@pytest.mark.parametrize("trust", ["aggregator", "secure"])
def test_a_client_is_silent_or_slow(start: Start, trust: str, silent: bool) -> None:
    healthy = run_healthy(start, trust)
    day = start(trust)
    day.serve()
    day.join(0, 1, 2)
    day.here.wait_for("client-2", "answered: sum")
    day.here.processes["client-2"].send_signal(signal.SIGSTOP)
    if not silent:
        time.sleep(20)
        day.here.processes["client-2"].send_signal(signal.SIGCONT)
    assert day.finish("server") == [0], day.here.said("server")
    assert "client 2: no answer" in day.here.log("server")
    assert day.charges() == [["released"]]
    assert load_release(day.folder / "release")[1].private
    assert_in_time(day, healthy)


@pytest.mark.parametrize("trust", ["aggregator", "secure", "local"])
def test_a_client_is_hostile(start: Start, trust: str) -> None:
    """NaN, a wrong shape, a replayed round, a huge message: all are refused, logged and survived."""
    healthy = run_healthy(start, trust)
    day = start(trust)
    day.serve()
    day.join(0, 1)
    day.here.start_hostile(2, *([day.books[2]] if trust == "local" else []))
    assert day.finish("server", "client-0", "client-1") == [0, 0, 0], day.here.said("server")
    log = day.here.log("server")
    for reason in ("type that is not allowed", "a wrong length", "another round", "too long"):
        assert reason in log, log
    assert log.count("client 2: ") >= 4
    assert load_release(day.folder / "release")[1].private
    if trust != "local":
        assert day.charges() == [["released"]]
    assert_in_time(day, healthy)
