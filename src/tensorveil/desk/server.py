"""Listen on loopback until interrupted; nothing is left in memory or in temporary files afterwards."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tensorveil.errors import InputError, MissingDependencyError

if TYPE_CHECKING:
    import uvicorn

    from tensorveil.desk.places import Places
    from tensorveil.desk.running import Runner

__all__ = ["Desk", "open_desk"]

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Desk:
    """A desk that is ready: its address, with the token, and what serves it until it is interrupted."""

    address: str
    server: uvicorn.Server
    socket: socket.socket
    places: Places
    runner: Runner

    def serve(self) -> None:
        """Answer until the process is interrupted, or ``server.should_exit`` is set."""
        self.server.run(sockets=[self.socket])


@contextlib.contextmanager
def open_desk(
    folder: Path, *, port: int = 0, max_upload: int = 10**9, runner: Runner | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[Desk]:  # fmt: skip
    """Make a desk for a folder; on leaving, interrupt a run that is under way and remove what was uploaded.

    Parameters
    ----------
    folder
        Where data are and releases go; nothing outside can be opened.
    port
        Of 127.0.0.1; 0 for any free one.
    max_upload
        How many bytes all uploads together may have.
    runner
        What makes runs.
    tell
        Called with what an interrupted run has to say: what was charged.
    """
    try:
        import uvicorn

        from tensorveil.desk.guard import Guard
        from tensorveil.desk.pages import make_pages
        from tensorveil.desk.places import Places
        from tensorveil.desk.running import Runner
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] not in ("starlette", "uvicorn"):
            raise
        raise MissingDependencyError("the desk needs a web server: pip install 'tensorveil[desk]'") from None

    if not folder.is_dir():
        raise InputError(f"folder: there is no folder {folder}. Name one that exists.")
    token, runner = secrets.token_urlsafe(32), runner or Runner()
    with contextlib.ExitStack() as ending:
        listening = ending.enter_context(_listen(port))
        uploads = Path(tempfile.mkdtemp(prefix="tensorveil-desk-"))  # for this user alone
        ending.callback(shutil.rmtree, uploads, ignore_errors=True)
        places = Places(root=folder, uploads=uploads, limit=max_upload)
        port = listening.getsockname()[1]
        guard = Guard(make_pages(places, runner), token, frozenset({f"{LOOPBACK}:{port}", f"localhost:{port}"}))
        # No log of requests, which would hold the token; no headers that others could claim to be sent for.
        config = uvicorn.Config(
            guard, log_config=None, log_level="critical", access_log=False, loop="asyncio", http="h11", ws="none",
            lifespan="off", proxy_headers=False, server_header=False, limit_concurrency=40, timeout_graceful_shutdown=5,
        )  # fmt: skip
        try:
            yield Desk(f"http://{LOOPBACK}:{port}/{token}/", uvicorn.Server(config), listening, places, runner)
        finally:
            for note in runner.close():
                tell(note)


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.bind((LOOPBACK, port))
        listening.listen(64)  # whoever comes before it serves waits
    except OSError as error:
        listening.close()
        raise InputError(f"port: {port} cannot be used: {error.strerror}. Leave it out for any free one.") from None
    return listening
