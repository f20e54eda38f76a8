"""A desk that is served on loopback in this process, and whoever asks it, by the rules or not."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tensorveil.desk.running import Runner
from tensorveil.desk.server import Desk, open_desk


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Visitor:
    """Asks a desk as its own page does; ``changes`` say what a request has instead."""

    desk: Desk

    @property
    def port(self) -> int:
        found = urlsplit(self.desk.address).port
        assert found is not None
        return found

    @property
    def token(self) -> str:
        return urlsplit(self.desk.address).path.strip("/")

    def request(self, method: str, path: str, body: Any = None, **changes: str | None) -> Answer:
        """Send a request; a header that is None is left out, a path that begins with a slash has no token."""
        given = {"Host": f"127.0.0.1:{self.port}", "Origin": f"http://127.0.0.1:{self.port}", **changes}
        headers = {name.replace("_", "-"): text for name, text in given.items() if text is not None}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            there = path if path.startswith("/") else f"/{self.token}/{path}"
            connection.request(method, there, body=body, headers=headers)
            found = connection.getresponse()
            return Answer(found.status, {k.lower(): v for k, v in found.getheaders()}, found.read())
        finally:
            connection.close()

    def get(self, path: str = "", **changes: str | None) -> Answer:
        return self.request("GET", path, **{"Origin": None, **changes})

    def ask(self, what: str, form: Any = None, **changes: str | None) -> Answer:
        body = json.dumps({} if form is None else form)
        return self.request("POST", f"ask/{what}", body, **{"Content_Type": "application/json", **changes})

    def follow(self, *, until: str | None = None) -> Any:
        """Return the state of the run when it has ended, or is at a step."""
        for _ in range(1200):
            found = self.ask("look").json
            if found["state"] != "running" or found["step"] == until:
                return found
            time.sleep(0.05)
        raise AssertionError("the run does not end")


@contextlib.contextmanager
def served(folder: Path, runner: Runner | None = None, **options: Any) -> Iterator[Visitor]:
    """Serve a desk in a thread."""
    with open_desk(folder, runner=runner, **options) as desk:
        thread = threading.Thread(target=desk.serve)
        thread.start()
        try:
            yield Visitor(desk)
        finally:
            desk.server.should_exit = True
            thread.join()
