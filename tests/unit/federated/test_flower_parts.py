"""Flower's processes: channels that are refused, settings that keep it quiet, processes that end with us."""

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tensorveil.errors import InputError, MissingDependencyError
from tensorveil.federated.errors import AbandonedError
from tensorveil.federated.flower import processes
from tensorveil.federated.flower.processes import Channel, environment, free_port, listens


@pytest.mark.parametrize("address", ["127.0.0.1", ":18000", "localhost:http", ""])
def test_addresses_are_host_and_port(address: Any) -> None:
    with pytest.raises(InputError, match="host:port"):
        Channel(address=address)


def test_only_the_loopback_address_may_do_without_tls(tmp_path: Path) -> None:
    assert Channel(address="127.0.0.1:18000").trusted is None
    with pytest.raises(InputError, match="need TLS"):
        Channel(address="sums.example.org:18000")
    ca = tmp_path / "ca.pem"
    ca.write_bytes(b"certificate")
    assert Channel(address="sums.example.org:18000", ca=ca).trusted == b"certificate"
    with pytest.raises(InputError, match="its certificate and key"):
        processes._server_tls(Channel(address="sums.example.org:18000", ca=ca))


def test_nothing_is_reported_looked_up_or_kept_in_the_users_home(tmp_path: Path) -> None:
    settings = environment(tmp_path)
    assert settings["FLWR_TELEMETRY_ENABLED"] == "0"
    assert settings["FLWR_DISABLE_UPDATE_CHECK"] == "1"
    assert settings["RAY_USAGE_STATS_ENABLED"] == "0"
    assert settings["FLWR_HOME"] == str(tmp_path)


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"tensorveil\[federated\]"):
        processes.require_flower()


def test_a_process_that_ends_at_once_is_reported(tmp_path: Path) -> None:
    with (
        pytest.raises(AbandonedError, match="ended at once"),
        processes._run(["true"], tmp_path, tmp_path / "log", f"127.0.0.1:{free_port()}"),
    ):
        pass


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel of Linux ends children with their parent")
def test_children_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    port = free_port()
    script = f"""
import sys, time
from pathlib import Path
from types import SimpleNamespace
from tensorveil.federated.flower import processes
processes._tool = lambda name: name
server = [sys.executable, "-c", "import socket, time; s = socket.create_server(('127.0.0.1', {port})); time.sleep(60)"]
with processes._run(server, Path({str(tmp_path)!r}), Path({str(tmp_path / "log")!r}), "127.0.0.1:{port}"):
    print("up", flush=True)
    time.sleep(60)
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=os.environ)
    with parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"up\n"
        assert listens(f"127.0.0.1:{port}")
        parent.kill()
    deadline = time.monotonic() + 30
    while listens(f"127.0.0.1:{port}"):
        assert time.monotonic() < deadline, "the child outlived its parent"
        time.sleep(0.05)


def test_a_server_waits_until_the_one_before_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((processes.LOOPBACK, 0)) as other:
        address = f"{processes.LOOPBACK}:{other.getsockname()[1]}"
        with pytest.raises(AbandonedError, match="somebody listens"):
            processes._wait_until_free(address, patience=0.1)
    processes._wait_until_free(address)


def test_a_client_notices_that_its_server_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorveil.federated.flower import client_app

    monkeypatch.setattr(client_app, "LOOK", 0.01)
    with socket.create_server((processes.LOOPBACK, 0)) as server:
        presence = client_app._Presence(f"{processes.LOOPBACK}:{server.getsockname()[1]}")
        with presence:
            assert not presence.left.wait(0.2)
            server.close()
            assert presence.left.wait(30)


def test_a_question_that_never_comes_keeps_no_client(caplog: pytest.LogCaptureFixture) -> None:
    """Its server has left between its announcement and its content."""
    from tensorveil.federated.flower.client_app import _Question

    blocked, answered = threading.Event(), []

    def fetch(answer: Any) -> None:
        blocked.wait(30)
        answered.append(answer(b"question"))

    began = time.monotonic()
    _Question(fetch=fetch, answer=lambda body: body).serve(lambda: True)
    assert time.monotonic() - began < 20
    blocked.set()
    deadline = time.monotonic() + 20
    while not answered and time.monotonic() < deadline:
        time.sleep(0.01)
    assert answered == [None]  # too late: nothing is answered, or charged, once the client has gone on


def test_an_answer_that_was_begun_is_waited_for() -> None:
    from tensorveil.federated.flower.client_app import _Question

    begun, done = threading.Event(), []

    def answer(body: bytes) -> bytes:
        begun.set()
        time.sleep(0.3)
        done.append(body)
        return body

    _Question(fetch=lambda answer: cast(None, answer(b"question")), answer=answer).serve(begun.is_set)
    assert done == [b"question"]


def test_a_task_that_was_taken_back_is_an_error_and_no_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower would interrupt the process, which then says that its owner did."""
    pytest.importorskip("flwr")
    import httpx

    from tensorveil.federated.flower import runtime

    request = httpx.Request("POST", "http://localhost")
    refused = httpx.HTTPStatusError("", request=request, response=httpx.Response(401, request=request))
    assert runtime._retry_for(1.0).should_giveup(refused)

    class Client:
        def __init__(self, *errors: Exception) -> None:
            self.errors = list(errors)

        def SendTaskHeartbeat(self, request: Any) -> Any:  # noqa: N802
            if self.errors:
                raise self.errors.pop()
            return SimpleNamespace(success=False)

    client: Any = Client(refused, httpx.ConnectError(""))
    assert [runtime._beat(client) for _ in range(3)] == [False, False, True]


class Grid:
    """Four nodes: one answers, one announces an answer that never comes, one breaks, one leaves."""

    def __init__(self) -> None:
        self.connected = [1, 2, 3, 4]
        self.blocked = threading.Event()

    def get_node_ids(self) -> list[int]:
        return list(self.connected)

    def push_messages(self, messages: Any) -> list[str]:
        return [str(message.node) for message in messages]

    def pull_messages(self, names: Any) -> list[Any]:
        (name,) = names
        if name == "2":
            self.blocked.wait(30)
        if name == "3":
            raise ValueError("text that may quote what it carries")
        if name == "4":
            self.connected = [1, 2, 3]
            return []
        return [SimpleNamespace(body=b"answer " + name.encode())]


def test_a_reply_that_is_announced_and_never_sent_keeps_nobody_waiting(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("flwr")
    from tensorveil.federated.flower import runtime
    from tensorveil.federated.flower.server_app import FlowerTransport

    monkeypatch.setattr(runtime, "message_with", lambda body, node: SimpleNamespace(body=body, node=node))
    monkeypatch.setattr(runtime, "body_of", lambda message: message.body)
    grid: Any = Grid()
    transport = FlowerTransport(grid=grid)
    messages = dict.fromkeys((1, 2, 3, 4), b"question")
    seen: list[Any] = []

    def look(replies: Any, waiting: Any) -> Any:
        seen.append((dict(replies), set(waiting)))
        return None if 1 in replies and 3 not in waiting and 4 not in grid.connected else {}

    assert transport.exchange(messages, 60.0, look) == {1: b"answer 1"}
    assert seen[-1][1] == {2, 4}
    assert transport.exchange({1: b"question", 2: b"question"}, 1.0) == {1: b"answer 1"}
    assert transport.exchange({1: b"question"}, 60.0) == {1: b"answer 1"}
    assert transport.exchange({}, 60.0) == {}
    assert "quote" not in caplog.text
    grid.blocked.set()


def test_more_messages_are_sent_while_others_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("flwr")
    from tensorveil.federated.flower import runtime
    from tensorveil.federated.flower.server_app import FlowerTransport

    monkeypatch.setattr(runtime, "message_with", lambda body, node: SimpleNamespace(body=body, node=node))
    monkeypatch.setattr(runtime, "body_of", lambda message: message.body)

    class Echo(Grid):
        def push_messages(self, messages: Any) -> list[str]:
            return [f"{message.node}:{message.body.decode()}" for message in messages]

        def pull_messages(self, names: Any) -> list[Any]:
            return [] if names[0].startswith("2:") else [SimpleNamespace(body=names[0].encode())]

    def look(replies: Any, waiting: Any) -> Any:
        if 3 in replies:
            return None
        first = replies.get(1) == b"1:one"
        return {1: b"again", 3: b"new"} if first and 3 not in waiting else {}

    transport = FlowerTransport(grid=cast(Any, Echo()))
    replies = transport.exchange({1: b"one", 2: b"two"}, 60.0, look)
    assert replies[3] == b"3:new"
    assert replies.get(1) in (None, b"1:again")
    assert 2 not in replies
