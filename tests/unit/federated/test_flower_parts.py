"""Flower's processes: channels that are refused, settings that keep it quiet, processes that end with us."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

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
