"""SuperLink and SuperNodes as processes: they report and install nothing, and end when we do."""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tensorveil.errors import InputError, MissingDependencyError
from tensorveil.federated.errors import AbandonedError

__all__ = ["Channel", "free_port", "listens", "quiet", "require_flower", "submit_app", "super_link", "super_node"]

LOOPBACK: Final = "127.0.0.1"
NAME: Final = "tensorveil"
PARENT_DIED: Final = 1  # PR_SET_PDEATHSIG
APP: Final = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "tensorveil-run"
version = "1.0.0"
description = "Holds no code: parties run what they have installed."
license = "Apache-2.0"
dependencies = []

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "tensorveil"

[tool.flwr.app.components]
serverapp = "empty.app:server"
clientapp = "empty.app:client"
"""
EMPTY: Final = '"""Nothing."""\n\nserver = None\nclient = None\n'


@dataclass(frozen=True, kw_only=True)
class Channel:
    """How clients reach the server: its address, and the certificates that encrypt the connection.

    Parameters
    ----------
    address
        host:port of the server.
    ca
        The certificate (PEM) of the authority that vouches for the server; None sends everything unencrypted, which is
        allowed on one machine only.
    certificate, key
        The server's own certificate and key, where the server is started.
    """

    address: str
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        host, colon, port = self.address.rpartition(":")
        if not colon or not host or not port.isdigit():
            raise InputError(f"address must be host:port; got {self.address!r}. Try 127.0.0.1:18000.")
        if self.ca is None and host not in (LOOPBACK, "localhost"):
            raise InputError("over a network, messages need TLS. Give the certificates: --ca, --certificate, --key.")

    @property
    def host(self) -> str:
        """The host of the address."""
        return self.address.rpartition(":")[0]

    @property
    def port(self) -> str:
        """The port of the address."""
        return self.address.rpartition(":")[2]

    @property
    def trusted(self) -> bytes | None:
        """The certificate that vouches for the server."""
        return None if self.ca is None else self.ca.read_bytes()


@dataclass(frozen=True, kw_only=True)
class Started:
    """A running Flower process: where its workers reach it, and the secret by which it recognises them."""

    address: str
    secret: bytes
    process: subprocess.Popen[bytes]

    @property
    def alive(self) -> bool:
        """Tell whether the process is still running."""
        return self.process.poll() is None


def require_flower() -> None:
    """Raise an error that says how to install Flower if it is missing."""
    if find_spec("flwr") is None:
        raise MissingDependencyError("federated runs need Flower: pip install 'tensorveil[federated]'")


def free_port() -> int:
    """Return a port of this machine that is not in use."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def listens(address: str) -> bool:
    """Tell whether something listens at an address."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=2):
            return True
    except OSError:
        return False


def quiet() -> dict[str, str]:
    """Return the settings that stop Flower and ray from reporting usage."""
    return {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}


def environment(home: Path) -> dict[str, str]:
    """Return the environment of Flower's processes: nothing is reported, looked up or installed."""
    own = str(Path(sys.executable).parent)
    return {
        **os.environ,
        **quiet(),
        "FLWR_HOME": str(home),
        "PATH": f"{own}{os.pathsep}{os.environ.get('PATH', '')}",
    }


@contextlib.contextmanager
def super_link(channel: Channel, log: Path) -> Iterator[Started]:
    """Start a SuperLink, which runs no app itself."""
    _wait_until_free(channel.address)
    with _scratch() as home:
        command = ["flower-superlink", "--host", channel.host, "--port", channel.port, "--isolation", "process"]
        command += ["--disable-runtime-dependency-installation", *_server_tls(channel)]
        with _run(command, home, log, channel.address) as started:
            yield started


@contextlib.contextmanager
def super_node(channel: Channel, log: Path) -> Iterator[Started]:
    """Start a SuperNode that is connected to the server and runs no app itself."""
    with _scratch() as home:
        address = f"{LOOPBACK}:{free_port()}"
        command = ["flower-supernode", "--superlink", channel.address, "--isolation", "process"]
        command += ["--host", LOOPBACK, "--port", address.rpartition(":")[2]]
        command += ["--insecure"] if channel.ca is None else ["--root-certificates", str(channel.ca)]
        with _run(command, home, log, address) as started:
            yield started


def submit_app(channel: Channel, log: Path) -> None:
    """Submit the empty app, which makes the SuperLink offer a task to the server's worker."""
    with _scratch() as home:
        tls = "insecure = true" if channel.ca is None else f'root-certificates = "{channel.ca.resolve()}"'
        (home / "config.toml").write_text(f'[superlink.{NAME}]\naddress = "{channel.address}"\n{tls}\n')
        app = home / "app"
        (app / "empty").mkdir(parents=True)
        (app / "pyproject.toml").write_text(APP)
        (app / "empty" / "__init__.py").write_text("")
        (app / "empty" / "app.py").write_text(EMPTY)
        with log.open("ab") as out:
            done = subprocess.run(
                [_tool("flwr"), "run", str(app), NAME],
                env=environment(home),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                timeout=120,
                check=False,
            )
        if done.returncode:
            raise AbandonedError(f"the SuperLink did not accept the run; {log} says why.")


def _server_tls(channel: Channel) -> list[str]:
    if channel.ca is None:
        return ["--insecure"]
    if channel.certificate is None or channel.key is None:
        raise InputError("a server with TLS needs its certificate and key. Give --certificate and --key.")
    files = {"--ssl-ca-certfile": channel.ca, "--ssl-certfile": channel.certificate, "--ssl-keyfile": channel.key}
    return [word for name, path in files.items() for word in (name, str(path))]


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    """Make a folder for Flower's own files, and remove it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="tensorveil-flower-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _run(command: Sequence[str], home: Path, log: Path, address: str) -> Iterator[Started]:
    """Run a process until the block ends, or until this process ends, for whatever reason."""
    secret = secrets.token_bytes(32)
    path = home / "worker.secret"
    path.touch(mode=0o600)
    path.write_bytes(secret)
    words = [_tool(command[0]), *command[1:], "--superexec-auth-secret-file", str(path)]
    with log.open("ab") as out:
        process = subprocess.Popen(
            words,
            env=environment(home),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            preexec_fn=_dies_with_parent(),
        )
    try:
        _wait_for(address, process, log)
        yield Started(address=address, secret=secret, process=process)
    finally:
        _end(process)


def _dies_with_parent() -> Callable[[], None] | None:
    """Ask the kernel to end the child when this process dies, even by a kill that cannot be caught."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None, use_errno=True)
    return lambda: library.prctl(PARENT_DIED, signal.SIGTERM)


def _wait_for(address: str, process: subprocess.Popen[bytes], log: Path, patience: float = 60.0) -> None:
    """Wait until the process listens at its address."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AbandonedError(f"a Flower process ended at once; {log} says why.")
        if listens(address):
            return
        time.sleep(0.1)
    raise AbandonedError(f"a Flower process does not listen; {log} may say why.")


def _wait_until_free(address: str, patience: float = 20.0) -> None:
    """Wait until nobody listens at an address: the process of a run that was just killed may still be ending."""
    deadline = time.monotonic() + patience
    while listens(address):
        if time.monotonic() > deadline:
            raise AbandonedError(f"somebody listens at {address} already. End that process, or choose another port.")
        time.sleep(0.2)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _tool(name: str) -> str:
    own = Path(sys.executable).parent / name
    found = str(own) if own.exists() else shutil.which(name)
    if found is None:
        raise MissingDependencyError(
            f"Flower is installed, but its command {name} is missing. Install it into this environment."
        )
    return found
