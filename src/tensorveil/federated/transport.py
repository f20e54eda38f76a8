"""What a transport does for the server: carry bytes to nodes and back. It is trusted with nothing else."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tensorveil.errors import TensorveilError

__all__ = ["Enough", "InProcess", "Transport"]

log = logging.getLogger("tensorveil.federated")
Enough = Callable[[Mapping[int, bytes]], bool]


class Transport(Protocol):
    """Carries messages between a server and nodes, of which it knows only the numbers."""

    def nodes(self) -> Sequence[int]:
        """Return the nodes that can be reached now."""

    def exchange(self, messages: Mapping[int, bytes], timeout: float, enough: Enough | None = None) -> dict[int, bytes]:
        """Send each node its message, and return the replies that came in time; other nodes are left out.

        It may end before the time is up once ``enough`` is true of the replies.
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

    def exchange(self, messages: Mapping[int, bytes], timeout: float, enough: Enough | None = None) -> dict[int, bytes]:
        """Ask one node after the other; one that raises an error does not reply."""
        replies = {}
        for node, content in messages.items():
            try:
                replies[node] = self.answers[node](content)
            except TensorveilError as error:
                log.warning("node %d refused: %s", node, error)
        return replies
