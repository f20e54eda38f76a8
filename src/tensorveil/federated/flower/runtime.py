"""How a worker talks to its SuperLink or SuperNode: claim a task, fetch its message, push the reply.

The only module that touches Flower below its public interface; the extra pins the version that it is written for.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import httpx
from flwr.app import ConfigRecord, Error, Message, RecordDict
from flwr.common.constant import SubStatus
from flwr.common.serde import run_from_proto
from flwr.proto.runtime_pb2 import (
    AcquireTaskRequest,
    PullTaskInputRequest,
    PushTaskOutputRequest,
    SendTaskHeartbeatRequest,
)
from flwr.supercore.constant import TaskType
from flwr.supercore.heartbeat import HeartbeatSender
from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor, RuntimeVersionHttpInterceptor
from flwr.supercore.interceptors.http import SuperExecAuthHttpInterceptor
from flwr.supercore.retry import make_simple_http_retry_invoker
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import HttpGrid
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from tensorveil.federated.errors import AbandonedError

__all__ = ["Place", "body_of", "claim", "claim_grid", "message_with", "reply_with", "serve_task"]

# Flower and its libraries log every request at length.
for _name in ("flwr", "httpx", "httpcore", "alembic"):
    logging.getLogger(_name).setLevel(logging.ERROR)

RECORD: Final = "tensorveil"
REFUSED: Final = 400  # our code for an answer that was refused
SERVER_TASK, CLIENT_TASK = TaskType.SERVER_APP, TaskType.CLIENT_APP
POLL: Final = 0.1  # seconds
RETRIES: Final = 15.0  # seconds after which whoever does not answer counts as having left


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a SuperLink or SuperNode offers tasks: address, certificates (None: no TLS), the secret of its workers."""

    address: str
    certificates: bytes | None
    secret: bytes

    def client(self, token: str | None = None) -> RuntimeHttpClient:
        """Connect, to claim tasks or, with a token, to work on one."""
        guard = (
            SuperExecAuthHttpInterceptor(
                master_secret=self.secret, protected_methods={"/flwr.proto.Runtime/AcquireTask"}
            )
            if token is None
            else RuntimeTokenHttpInterceptor(token)
        )
        return RuntimeHttpClient.from_server_address(
            server_address=self.address,
            insecure=self.certificates is None,
            root_certificates=self.certificates,
            interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr-clientapp"), guard],
            retry_invoker=_retry_for(RETRIES),
        )


def _retry_for(seconds: float) -> Any:
    """Return Flower's way of trying again, with an end: by itself it would try for ever, also where nobody is left.

    Where a task was taken back, as from a process that had been asleep, Flower interrupts the process by a signal. Here
    that is an error of the task, and the next one is claimed.
    """
    invoker = make_simple_http_retry_invoker()
    invoker.max_time = seconds
    gives_up = invoker.should_giveup

    def should_give_up(error: Any) -> bool:
        taken_back = isinstance(error, httpx.HTTPStatusError) and error.response.status_code == httpx.codes.UNAUTHORIZED
        return taken_back or gives_up is None or bool(gives_up(error))

    invoker.should_giveup = should_give_up
    return invoker


def claim(client: RuntimeHttpClient, kind: str) -> str | None:
    """Claim the next task of a kind, and return its token; None if there is no task, or nobody who offers any."""
    try:
        found = client.AcquireTask(AcquireTaskRequest(supported_task_types=[kind]))
    except httpx.HTTPError:
        return None
    return str(found.token) if found.HasField("task") and found.token else None


def message_with(body: bytes, node: int) -> Message:
    """Pack bytes into a message to a node."""
    return Message(
        RecordDict({RECORD: ConfigRecord({"body": body})}), dst_node_id=node, message_type="query", group_id=""
    )


def body_of(message: Message) -> bytes | None:
    """Return the bytes that a message carries, or None for errors and anything else."""
    if not message.has_content():
        return None
    record = message.content.get(RECORD)
    body = record.get("body") if isinstance(record, ConfigRecord) else None
    return body if isinstance(body, bytes) else None


def reply_with(body: bytes | None, message: Message) -> Message:
    """Pack bytes into a reply; None becomes an error."""
    content: Any = Error(REFUSED, "refused") if body is None else RecordDict({RECORD: ConfigRecord({"body": body})})
    return Message(content, reply_to=message)


def serve_task(place: Place, token: str, answer: Callable[[bytes], bytes | None]) -> None:
    """Fetch one message from the SuperNode, answer it, and push the reply; None is pushed as an error."""
    client = place.client(token)
    try:
        with _heartbeat(client):
            message, context, _, _ = pull_task_input(client)  # the submitted app comes with it, and is ignored
            body = body_of(message)
            reply = None if body is None else answer(body)
            push_message(client, reply_with(reply, message), context)
            push_task_output(client=client, context=context, sub_status=SubStatus.COMPLETED, details="")
    finally:
        client.close()


@contextlib.contextmanager
def claim_grid(place: Place, patience: float) -> Iterator[HttpGrid]:
    """Claim the server's task that was submitted to the SuperLink, and yield the grid that reaches the nodes."""
    claimer = place.client()
    deadline = time.monotonic() + patience
    try:
        while (token := claim(claimer, SERVER_TASK)) is None:
            if time.monotonic() > deadline:
                raise AbandonedError("the SuperLink offers no task; its log may say why. Nothing was charged.")
            time.sleep(POLL)
    finally:
        claimer.close()
    grid = HttpGrid(
        runtime_api_address=place.address,
        insecure=place.certificates is None,
        root_certificates=place.certificates,
        token=token,
    )
    client = grid._runtime_client
    status = SubStatus.FAILED
    try:
        with _heartbeat(client):
            task = client.PullTaskInput(PullTaskInputRequest())
            # New messages take their sender and run from here.
            TaskIdentity.task_id, TaskIdentity.run_id = task.task_id, task.run.run_id
            TaskIdentity.node_id = task.context.node_id
            grid.set_run(run_from_proto(task.run))
            yield grid
            status = SubStatus.COMPLETED
    finally:
        with contextlib.suppress(Exception):  # we have the result by now; this only updates Flower's records
            client.PushTaskOutput(PushTaskOutputRequest(sub_status=status, details=""))
        grid.close()


def _beat(client: RuntimeHttpClient) -> bool:
    """Signal once; return whether it arrived. That a task was taken back shows when its reply is pushed."""
    try:
        client.SendTaskHeartbeat(SendTaskHeartbeatRequest())
    except httpx.HTTPError:
        return False
    return True


@contextlib.contextmanager
def _heartbeat(client: RuntimeHttpClient) -> Iterator[None]:
    """Signal that the task is being worked on."""
    sender = HeartbeatSender(partial(_beat, client))
    sender.start()
    try:
        yield
    finally:
        sender.stop()
