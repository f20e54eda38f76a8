"""The server over Flower: a transport on its grid, and a whole run."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorveil.federated.flower.processes import Channel, require_flower, submit_app, super_link
from tensorveil.federated.server import Outcome, run_server
from tensorveil.federated.transport import Look

if TYPE_CHECKING:
    from flwr.serverapp import Grid

__all__ = ["FlowerTransport", "serve"]

POLL = 0.1  # seconds
PULL = 0.25  # seconds between two looks for a reply
log = logging.getLogger("tensorveil.federated")


@dataclass(frozen=True, kw_only=True)
class FlowerTransport:
    """Send and receive over Flower, polling faster than Flower's own loop, and giving up at once on nodes that left."""

    grid: Grid

    def nodes(self) -> Sequence[int]:
        """Return the nodes that are connected."""
        return sorted(self.grid.get_node_ids())

    def exchange(self, messages: Mapping[int, bytes], timeout: float, look: Look | None = None) -> dict[int, bytes]:
        """Send each node its message, and return the replies that came in time, or that are enough.

        Every reply has a thread of its own: a node can announce one and never send it, and Flower would wait for its
        parts for two hours, in which nobody else is heard.
        """
        came: dict[int, bytes | None] = {}  # None: an answer that is none
        done = threading.Event()
        waiting: set[int] = set()
        deadline = time.monotonic() + timeout
        replies: dict[int, bytes] = {}
        more: Mapping[int, bytes] | None = messages
        while True:
            if more:
                waiting |= self._send(more, came, done)
            waiting -= came.copy().keys()
            replies = {node: body for node, body in came.copy().items() if body is not None}
            if look is not None:
                more = look(replies, waiting)
            else:
                more = {} if waiting & set(self.nodes()) else None
            if more is None or time.monotonic() >= deadline:
                break
            time.sleep(POLL)
        done.set()
        return replies

    def _send(self, messages: Mapping[int, bytes], came: dict[int, bytes | None], done: threading.Event) -> set[int]:
        """Send messages, and let each reply be waited for; return the nodes to which one could be sent."""
        from tensorveil.federated.flower.runtime import message_with

        nodes = list(messages)
        names = list(self.grid.push_messages([message_with(messages[node], node) for node in nodes]))
        sent = {node: name for node, name in zip(nodes, names, strict=True) if name}
        for node, name in sent.items():
            came.pop(node, None)
            threading.Thread(target=self._pull, args=(name, node, came, done), daemon=True).start()
        return set(sent)

    def _pull(self, name: str, node: int, came: dict[int, bytes | None], done: threading.Event) -> None:
        """Wait for one reply; keep what it carries."""
        from tensorveil.federated.flower.runtime import body_of

        while not done.wait(PULL):
            try:
                for reply in self.grid.pull_messages([name]):
                    came[node] = body_of(reply)
                    return
            except Exception as error:  # of Flower's, whose text may quote what it carries
                log.warning("a reply could not be fetched (%s)", type(error).__name__)
                came[node] = None
                return


def serve(channel: Channel, logs: Path, **options: Any) -> Outcome:
    """Start a SuperLink, run an agreement over it, and end it.

    Parameters
    ----------
    channel
        Where the server listens.
    logs
        A folder for Flower's own logs.
    options
        Those of `run_server`, except the transport.
    """
    require_flower()
    from tensorveil.federated.flower.runtime import Place, claim_grid

    with contextlib.ExitStack() as stack:
        link = stack.enter_context(super_link(channel, logs / "superlink.log"))
        submit_app(channel, logs / "submit.log")
        place = Place(address=link.address, certificates=channel.trusted, secret=link.secret)
        grid = stack.enter_context(claim_grid(place, patience=60.0))
        return run_server(transport=FlowerTransport(grid=grid), **options)
