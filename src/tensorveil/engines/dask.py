"""Dask: tasks on the workers of a cluster, and answers added pairwise there."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from dask.distributed import Client

from tensorveil.engines.engine import is_loopback
from tensorveil.engines.task import Public, add_answers, run_task
from tensorveil.errors import InputError
from tensorveil.tensor.stored import StoredTensor

__all__ = ["DaskEngine"]

_TRIES = 20  # that a task may lose its worker; Dask itself gives up after three


class DaskEngine:
    """Work on the parts of a store on a Dask cluster, whose workers see the store under the same path.

    Dask sends functions as pickles: whoever reaches its scheduler runs code on all workers. Connections that leave
    the machine must be encrypted and authenticated (tls://), or ``trust_network`` must say that nobody else can.
    """

    threads = 1

    def __init__(self, client: Client, *, trust_network: bool = False, owned: bool = False) -> None:
        self._client, self._owned = client, owned
        facts = client.scheduler_info(n_workers=-1)
        self._settle(str(facts["address"]), [str(name) for name in facts["workers"]], trust_network)
        self.workers = max(1, sum(int(each["nthreads"]) for each in facts["workers"].values()))

    @classmethod
    def open(cls, address: str, *, trust_network: bool = False) -> DaskEngine:
        """Connect to a scheduler, such as "127.0.0.1:8786" or "tls://head:8786"; Dask's settings name certificates."""
        _check_address(address, trust_network)
        client = None
        with contextlib.suppress(OSError, ValueError, TypeError):
            client = Client(address, set_as_default=False)
        if client is None:
            raise InputError("engine: no Dask scheduler answers at this address. Check it, and its certificates.")
        try:
            return cls(client, trust_network=trust_network, owned=True)
        except BaseException:
            client.close()
            raise

    def _settle(self, scheduler: str, workers: Sequence[str], trust_network: bool) -> None:
        for address in (scheduler, *workers):
            _check_address(address, trust_network)
        if not workers:
            raise InputError("engine: the Dask cluster has no workers yet. Start some: dask worker ADDRESS.")

    def check_memory(self, stored: StoredTensor, mode: str, size: int) -> None:
        """Leave it to the workers, whose memory is theirs to limit."""

    def gather(self, function: Callable[[str, Any], bytes], tasks: Sequence[str], public: Any) -> Iterator[bytes]:
        """Run a function for all tasks on the cluster."""
        with self._share(public) as shared:
            futures = [self._client.submit(function, task, shared, pure=False, retries=_TRIES) for task in tasks]
            try:
                while futures:  # one after the other, so that no more than one answer is held here
                    answer = bytes(futures[0].result())
                    futures.pop(0).release()
                    yield answer
            finally:
                for future in futures:
                    future.release()
                self._client.cancel(futures)

    @contextlib.contextmanager
    def _share(self, public: Any) -> Iterator[Any]:
        """Bring public facts to the cluster: as a task, not as scattered data, so that what is lost is made again."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of large graphs
            shared = self._client.submit(_hand_on, public, pure=False)
        try:
            yield shared
        finally:
            shared.release()
            self._client.cancel([shared])

    def run(self, tasks: Sequence[str], public: Public) -> bytes:
        """Run all tasks on the cluster and add their answers there."""
        submit, kept = self._client.submit, []
        with self._share(public) as shared:
            try:
                level = [submit(run_task, task, shared, pure=False, retries=_TRIES) for task in tasks]
                kept += level
                while len(level) > 1:
                    pairs = [
                        submit(add_answers, *level[i : i + 2], pure=False) if i + 1 < len(level) else level[i]
                        for i in range(0, len(level), 2)
                    ]
                    kept += pairs
                    level = pairs
                return bytes(level[0].result())
            finally:
                for future in kept:
                    future.release()
                self._client.cancel(kept)

    def close(self) -> None:
        """Close the connection, if it was opened here."""
        if self._owned:
            self._client.close()


def _hand_on(public: Any) -> Any:
    return public


def _check_address(address: Any, trust_network: bool) -> None:
    """Refuse plain connections that others may reach."""
    split = urlsplit(address if "://" in address else f"tcp://{address}")
    if split.scheme in ("inproc", "tls") or is_loopback(split.hostname or "") or trust_network:
        return
    raise InputError(
        "engine: connections of this Dask cluster leave the machine and are not encrypted: whoever reaches the "
        "scheduler can run code on it. Use tls:// addresses with certificates of your own, or say trust_network=True "
        "if nobody else is on that network."
    )
