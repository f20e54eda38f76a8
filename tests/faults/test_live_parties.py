"""Federations of real processes that lose parties: each ends soon, with the right ledger, and says what is true.

A run that something happens to may take a minute longer than one that nothing happens to, counted from when all clients
have come: until then a busy machine starts processes. `-s` prints what each took.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from tensorveil.federated.agreement import Agreement
from tensorveil.privacy import Budget, Ledger
from tensorveil.release.release import load_release
from tests.flows.federated_parties import Parties

pytest.importorskip("flwr")
pytestmark = pytest.mark.slow

TRUSTS: dict[str, list[str]] = {
    "aggregator": ["--trust", "aggregator"],
    "secure": ["--trust", "secure", "--drop-outs", "1"],
    "local": ["--trust", "local"],
}
MORE = 60.0  # seconds


def new_ledger(path: Path) -> Path:
    Ledger.create(path, budget=Budget(epsilon=5.0, delta=1e-5), unit="slice:user", name="ratings")
    return path


@dataclass(frozen=True, kw_only=True)
class Usual:
    """How long a run takes that nothing happens to: in all, and from when all clients have come."""

    total: float
    rounds: float


class Federation(Parties):
    """Three clients and a server under one kind of trust, with the ledgers that it needs; a clock that runs."""

    def __init__(self, folder: Path, trust: str) -> None:
        folder.mkdir()
        super().__init__(folder, 3, *TRUSTS[trust])
        self.trust = trust
        self.books = [new_ledger(folder / f"{k}.ledger") for k in range(3 if trust == "local" else 1)]
        self.began = time.monotonic()
        self.usual = 0.0

    @property
    def deadline(self) -> float:
        """The point in time at which everything must have ended."""
        return self.began + self.usual + MORE

    def count_from_now(self, usual: Usual) -> None:
        """Wait until all clients have come, and count from there."""
        self.wait_for("server", "round 1 of 4: counts", 300)
        self.began, self.usual = time.monotonic(), usual.rounds

    def serve(self, *more: Any) -> None:
        self.start_server(*([] if self.trust == "local" else ["--ledger", self.books[0]]), *more)

    def join(self, k: int) -> None:
        self.start_client(k, *(["--ledger", self.books[k]] if self.trust == "local" else []))

    def begin(self, clients: int = 3) -> None:
        self.serve()
        for k in range(clients):
            self.join(k)

    def wait_until_asked(self, k: int = 2) -> None:
        """Wait until a client has answered a question about data: by now the ledger is charged."""
        self.wait_for(f"client-{k}", "answered: sum")

    def kill(self, name: str) -> None:
        """Kill a party by the signal that cannot be caught; what it has started ends with it."""
        self.processes[name].kill()
        self.processes[name].wait()

    def end_of(self, *names: str) -> dict[str, int]:
        """Return how parties end, all of them before the deadline."""
        return {name: self.processes[name].wait(max(self.deadline - time.monotonic(), 0.1)) for name in names}

    def charges(self) -> list[list[str]]:
        """Return the state of every charge in every ledger; all of them must be what was agreed."""
        found = [list(Ledger.open(book).entries()) for book in self.books]
        event = Agreement.load(self.agreement).event
        assert all(charge.event == event for book in found for charge in book)
        return [[charge.status for charge in book] for book in found]

    def assert_released(self) -> None:
        assert load_release(self.folder / "release")[1].private
        released = [["spent, release unknown"]] * 3 if self.trust == "local" else [["released"]]
        assert self.charges() == released


def children(process: int) -> list[int]:
    """Return the processes that a process has started, and what they have started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        if parent == process:
            found += [int(path.parent.name), *children(int(path.parent.name))]
    return found


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return how long a run takes that nothing happens to; each kind of trust is run once, when it is asked for."""
    known: dict[str, Usual] = {}

    def measure(trust: str) -> Usual:
        if trust not in known:
            here = Federation(tmp_path_factory.mktemp("healthy") / trust, trust)
            try:
                began = here.began
                here.begin()
                here.count_from_now(Usual(total=300.0, rounds=300.0))
                codes = here.end_of("server", "client-0", "client-1", "client-2")
                assert set(codes.values()) == {0}, here.said("server")
                here.assert_released()
                known[trust] = Usual(total=time.monotonic() - began, rounds=time.monotonic() - here.began)
                print(json.dumps({"healthy": trust, **asdict(known[trust])}), flush=True)
            finally:
                here.end()
        return known[trust]

    return measure


@pytest.fixture
def federation(tmp_path: Path, healthy: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Return what makes a federation, and how long a healthy one takes."""
    made: list[Federation] = []

    def make(trust: str) -> tuple[Federation, Usual]:
        usual = healthy(trust)
        here = Federation(tmp_path / trust, trust)
        here.usual = usual.total
        made.append(here)
        return here, usual

    yield make
    for here in made:
        took = time.monotonic() - here.began
        print(json.dumps({"case": request.node.name, "seconds": round(took, 1), "beyond": round(took - here.usual, 1)}))
        here.end()


@pytest.mark.parametrize("trust", ["aggregator", "secure"])
def test_a_server_is_killed_after_its_charge_and_started_again(federation: Any, trust: str) -> None:
    """It cannot go on, because its clients answer once; it says what was charged, and clients say that it left."""
    here, usual = federation(trust)
    here.begin()
    here.count_from_now(usual)
    here.wait_until_asked()
    here.kill("server")
    here.serve()
    codes = here.end_of("server", "client-0", "client-1", "client-2")
    (charge,) = Ledger.open(here.books[0]).entries()
    assert here.charges() == [["spent, release unknown"]]
    assert codes["server"] == 2
    assert f"charge {charge.release_id}" in here.said("server")
    assert "Make a new one" in here.said("server")
    for k in range(3):
        assert codes[f"client-{k}"] == 2
        asked = "answered: sum" in here.log(f"client-{k}")
        assert ("the server left without a word" if asked else "nothing about them has left") in here.said(
            f"client-{k}"
        )
    assert not (here.folder / "release").exists()


@pytest.mark.parametrize("trust", ["aggregator", "local"])
def test_a_server_is_killed_before_its_charge_and_started_again(federation: Any, trust: str) -> None:
    """Nothing was said about data, so the same agreement is run from its beginning, with clients that have waited."""
    here, _ = federation(trust)
    here.begin(clients=2)
    here.wait_for("client-1", "answered: hello")
    here.kill("server")
    assert here.charges() == [[] for _ in here.books]
    here.serve()
    here.join(2)
    codes = here.end_of("server", "client-0", "client-1", "client-2")
    assert set(codes.values()) == {0}, here.said("server")
    here.assert_released()


@pytest.mark.parametrize("trust", list(TRUSTS))
def test_a_client_is_killed_and_started_again(federation: Any, trust: str) -> None:
    here, usual = federation(trust)
    here.begin()
    here.count_from_now(usual)
    here.wait_until_asked()
    here.kill("client-2")
    here.join(2)
    codes = here.end_of("server", "client-0", "client-1", "client-2")
    assert set(codes.values()) == {0}, (here.said("server"), here.said("client-2"))
    assert "client 2 has returned" in here.log("server")
    here.assert_released()


@pytest.mark.parametrize("trust", ["aggregator", "secure"])
def test_the_node_of_a_client_ends(federation: Any, trust: str) -> None:
    here, usual = federation(trust)
    here.begin()
    here.count_from_now(usual)
    here.wait_until_asked()
    for node in children(here.processes["client-2"].pid):
        os.kill(node, signal.SIGKILL)
    codes = here.end_of("server", "client-0", "client-1", "client-2")
    assert codes == {"server": 0, "client-0": 0, "client-1": 0, "client-2": 2}
    assert "the SuperNode has ended" in here.said("client-2")
    assert "client 2: no answer" in here.log("server")
    here.assert_released()


@pytest.mark.parametrize(
    ("trust", "whole"), [("aggregator", False), ("secure", True), ("local", False)], ids=lambda x: str(x)
)
def test_a_client_falls_silent(federation: Any, trust: str, whole: bool) -> None:
    """Its processes are there and do nothing; when they go on, they find out that the run is over."""
    here, usual = federation(trust)
    here.begin()
    here.count_from_now(usual)
    here.wait_until_asked()
    worker = here.processes["client-2"].pid
    asleep = [worker, *(children(worker) if whole else [])]
    for process in asleep:
        os.kill(process, signal.SIGSTOP)
    try:
        codes = here.end_of("server", "client-0", "client-1")
    finally:
        for process in asleep:
            os.kill(process, signal.SIGCONT)
    assert codes == {"server": 0, "client-0": 0, "client-1": 0}, here.said("server")
    assert "client 2: no answer" in here.log("server")
    here.assert_released()
    assert here.processes["client-2"].wait(90) == 2
    assert "the server left without a word" in here.said("client-2")


@pytest.mark.parametrize("trust", ["aggregator", "secure"])
def test_a_slow_client_is_waited_for(federation: Any, trust: str) -> None:
    """It takes some seconds more than the others for every question."""
    here, usual = federation(trust)
    here.serve()
    here.join(0)
    here.join(1)
    here.start_hostile(2, "--slow", "4")
    here.count_from_now(usual)
    codes = here.end_of("server", "client-0", "client-1")
    assert set(codes.values()) == {0}, here.said("server")
    assert "client 2: " not in here.log("server")
    here.assert_released()


@pytest.mark.parametrize("trust", list(TRUSTS))
def test_a_hostile_client_does_not_stop_a_run(federation: Any, trust: str) -> None:
    """NaN, a wrong shape, a replayed round, a huge message: one per round. All are refused, logged and survived."""
    here, usual = federation(trust)
    here.serve()
    here.join(0)
    here.join(1)
    here.start_hostile(2, *([here.books[2]] if trust == "local" else []))
    here.count_from_now(usual)
    codes = here.end_of("server", "client-0", "client-1")
    assert set(codes.values()) == {0}, here.said("server")
    log = here.log("server")
    for reason in ("type that is not allowed", "a wrong length", "another round", "too long"):
        assert reason in log, log
    assert log.count("client 2: ") >= 4
    here.assert_released()
