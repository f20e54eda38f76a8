"""What a transport does for the server: carry bytes to nodes and back. It is trusted with nothing else."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tensorveil.errors import TensorveilError

__all__ = ["InProcess", "Look", "Transport"]

log = logging.getLogger("tensorveil.federated")
# Sees the last reply of each node, and the nodes whose reply may still come; returns what is to be sent now, or None if
# nothing more is waited for.
Look = Callable[[Mapping[int, bytes], Collection[int]], Mapping[int, bytes] | None]


class Transport(Protocol):
    """Carries messages between a server and nodes, of which it knows only the numbers."""

    def nodes(self) -> Sequence[int]:
        """Return the nodes that can be reached now."""

    def exchange(self, messages: Mapping[int, bytes], timeout: float, look: Look | None = None) -> dict[int, bytes]:
        """Send each node its message, and return the last reply of each that came in time; other nodes are left out.

        ``look`` is called again and again: it sends more messages, to new nodes or to those that have answered, and
        says when to end. Without it the end comes when all have answered or left, or the time is up.
        """


@dataclass(frozen=True, kw_only=True)
class InProcess:
    """All parties in one process: for tests, for studies, and for trying an agreement before it is used.

    ``answers`` holds one function per node, such as `Client.answer`.
    """

    answers: Sequence[Callable[[bytes], bytes]]

    def nodes(self) -> Sequence[int]:
        """Return all nodes."""
        return range(len(self.answers))

    def exchange(self, messages: Mapping[int, bytes], timeout: float, look: Look | None = None) -> dict[int, bytes]:
        """Ask one node after the other; one that raises an error does not reply."""
        replies: dict[int, bytes] = {}
        sent = messages
        while True:
            for node, content in sent.items():
                replies.pop(node, None)
                try:
                    replies[node] = self.answers[node](content)
                except TensorveilError as error:
                    log.warning("node %d refused: %s", node, error)
            more = None if look is None else look(replies, ())
            if not more:  # nobody answers later
                return replies
            sent = more
