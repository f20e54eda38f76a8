"""Spark: tasks through DataFrames alone, so that a session may be classic or a remote one of Spark Connect."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import pyarrow as pa
from pyspark.sql import SparkSession

from tensorveil.engines.answers import FAILED, UNLIKE
from tensorveil.engines.engine import is_loopback
from tensorveil.engines.task import Public, add_answers, head_of, read_answer, run_task
from tensorveil.errors import InputError
from tensorveil.tensor.stored import StoredTensor

__all__ = ["SparkEngine"]

_BLOCK: Final = 1 << 17  # integers of a sum that are added in one place
_SCHEMA: Final = "block long, answer binary"


class SparkEngine:
    """Work on the parts of a store on Spark, whose workers see the store under the same path and have tensorveil.

    Names of parts go out and sums come back: no entry passes through Spark. Sums of a task do, without noise, and lie
    in shuffle files. On a cluster beyond this machine authentication and encryption must be on, or ``trust_network``
    must say that nobody else is on its network.
    """

    threads = 1

    def __init__(self, session: SparkSession, *, trust_network: bool = False, owned: bool = False) -> None:
        self._session, self._owned = session, owned
        if not trust_network:
            _check_security(session)
        self.workers = _count_cores(session)

    @classmethod
    def open(cls, master: str | None, *, trust_network: bool = False) -> SparkEngine:
        """Start or reach Spark: "local[4]", "spark://head:7077", "sc://head:15002"; None for what is configured."""
        # Workers on this machine must find the packages of this process, not those of another Python.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        running, session = SparkSession.getActiveSession(), None
        with contextlib.suppress(Exception):
            builder: Any = SparkSession.builder.appName("tensorveil")
            if master is not None:
                builder = builder.remote(master) if master.startswith("sc://") else builder.master(master)
            session = builder.getOrCreate()
        if session is None:
            raise InputError(
                "engine: Spark does not start, or does not answer. It needs Java 17 or later (JAVA_HOME), and a master "
                "such as spark:local[4], spark:spark://HOST:7077 or, for Spark Connect, spark:sc://HOST:15002."
            )
        try:
            return cls(session, trust_network=trust_network, owned=running is None)
        except BaseException:
            if running is None:
                session.stop()
            raise

    def check_memory(self, stored: StoredTensor, mode: str, size: int) -> None:
        """Leave it to Spark, whose executors' memory is its own to limit."""

    def run(self, tasks: Sequence[str], public: Public) -> bytes:
        """Run all tasks on Spark and add their answers there, block by block."""
        session = self._session
        frame = session.range(0, len(tasks), 1, len(tasks))
        sums = frame.mapInArrow(_worker(list(tasks), public), _SCHEMA).groupBy("block").applyInArrow(_add, _SCHEMA)
        found = {int(row["block"]): bytes(row["answer"]) for row in sums.collect()}
        failed = [answer for answer in found.values() if answer[0]]
        if failed or sorted(found) != list(range(len(found))):
            return failed[0] if failed else bytes([FAILED])
        heads = {head_of(answer) for answer in found.values()}
        if len(heads) != 1:
            return bytes([UNLIKE])
        return b"".join([*heads, *(answer[len(head_of(answer)) :] for _, answer in sorted(found.items()))])

    def gather(self, function: Callable[[str, Any], bytes], tasks: Sequence[str], public: Any) -> Iterator[bytes]:
        """Run a function for all tasks on Spark."""
        session = self._session
        frame = session.range(0, len(tasks), 1, len(tasks))
        answers = frame.mapInArrow(_gatherer(function, list(tasks), public), "task long, answer binary")
        found = {int(row["task"]): bytes(row["answer"]) for row in answers.collect()}
        return (found.get(number, bytes([FAILED])) for number in range(len(tasks)))

    def close(self) -> None:
        """Stop the session, if it was started here."""
        if self._owned:
            self._session.stop()


def _worker(tasks: list[str], public: Public) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what a Python worker of Spark runs: numbers of tasks in, blocks of sums out."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                answer = run_task(tasks[number], public)
                cut = [answer] if answer[0] else _cut(answer)
                yield pa.record_batch([pa.array(range(len(cut)), pa.int64()), pa.array(cut, pa.binary())],
                                      names=["block", "answer"])  # fmt: skip

    return work


def _gatherer(
    function: Callable[[str, Any], bytes], tasks: list[str], public: Any
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what a Python worker of Spark runs: numbers of tasks in, their answers out."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                answer = pa.array([function(tasks[number], public)], pa.binary())
                yield pa.record_batch([pa.array([number], pa.int64()), answer], names=["task", "answer"])

    return work


def _cut(answer: bytes) -> list[bytes]:
    """Return an answer in blocks, each an answer of its own."""
    head, size = head_of(answer), len(read_answer(answer)[1])
    rest = answer[len(head) :]
    return [head + rest[8 * at : 8 * (at + _BLOCK)] for at in range(0, size, _BLOCK)]


def _add(table: pa.Table) -> pa.Table:
    """Add the answers of a block."""
    answers = iter(table.column("answer").to_pylist())
    total = next(answers)
    for answer in answers:
        total = add_answers(total, answer)
    return pa.table({"block": table.column("block")[:1], "answer": pa.array([total], pa.binary())})


def _setting(session: SparkSession, name: str, default: str = "") -> str:
    found: Any = None
    with contextlib.suppress(Exception):
        found = session.conf.get(name, default)
    return default if found is None else str(found)


def _count_cores(session: SparkSession) -> int:
    """Return how many tasks Spark runs at a time, as far as it says so."""
    master = _setting(session, "spark.master")
    cores = _setting(session, "spark.cores.max") or _setting(session, "spark.default.parallelism")
    if cores.isdigit():
        return max(1, int(cores))
    if master.startswith("local"):
        inner = master.removeprefix("local").strip("[]").split(",")[0]
        return int(inner) if inner.isdigit() else (os.cpu_count() or 1) if inner == "*" else 1
    return 16  # a few tasks too many cost little


def _check_security(session: SparkSession) -> None:
    """Refuse a cluster beyond this machine on which others could read along, or join in."""
    master = _setting(session, "spark.master")
    remote = _remote_host(session)
    if remote is not None and not is_loopback(remote[0]) and not remote[1]:
        raise InputError(
            "engine: this Spark Connect session leaves the machine without TLS. Connect with use_ssl=true, or say "
            "trust_network=True if nobody else is on that network."
        )
    if master.startswith("local") or is_loopback(urlsplit(master).hostname or ""):
        return
    on = [_setting(session, name).lower() == "true" for name in ("spark.authenticate", "spark.network.crypto.enabled")]
    if not all(on):
        raise InputError(
            "engine: this Spark cluster is not on this machine alone, and its processes neither prove who they are nor "
            "encrypt what they send. Set spark.authenticate and spark.network.crypto.enabled to true (and "
            "spark.io.encryption.enabled, for its shuffle files), or say trust_network=True if nobody else is there."
        )


def _remote_host(session: SparkSession) -> tuple[str, bool] | None:
    """Return the host of a Spark Connect session, and whether the connection is encrypted; None for a classic one."""
    if "connect" not in type(session).__module__:
        return None
    client: Any = session.client
    builder = getattr(client, "_builder", None)  # without one, nothing is known, and nothing is trusted
    return str(getattr(builder, "host", "")).strip("[]"), bool(getattr(builder, "secure", False))
