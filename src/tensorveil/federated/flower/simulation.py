"""Flower's simulation engine: the same server and clients, with ray workers in place of machines. For trials only."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tensorveil.errors import MissingDependencyError, TensorveilError
from tensorveil.federated.client import Client
from tensorveil.federated.flower.processes import quiet
from tensorveil.federated.flower.server_app import FlowerTransport
from tensorveil.federated.server import Outcome, run_server

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.serverapp import Grid

__all__ = ["serve_simulated"]


def serve_simulated(clients: int, make_client: Callable[[int], Client], **options: Any) -> Outcome:
    """Run an agreement with clients that are workers of Flower's simulation engine.

    Parameters
    ----------
    clients
        The number of clients.
    make_client
        Makes the client at a position in the roster; it is called in a worker, so it must read its data there.
    options
        Those of `run_server`, except the transport.
    """
    if find_spec("flwr") is None or find_spec("ray") is None:
        raise MissingDependencyError("simulation needs ray: pip install 'tensorveil[simulation]'")
    os.environ.update(quiet())
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.simulation import run_simulation

    found: list[Outcome | Exception] = []
    server, client = ServerApp(), ClientApp()

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        try:
            found.append(run_server(transport=FlowerTransport(grid=grid), **options))
        except Exception as error:  # the engine would swallow it; raised again below
            found.append(error)

    @client.query()
    def answer(message: Message, context: Context) -> Message:
        from tensorveil.federated.flower.runtime import body_of, reply_with

        body = body_of(message)
        try:
            place = int(str(context.node_config["partition-id"]))
            return reply_with(None if body is None else make_client(place).answer(body), message)
        except TensorveilError:
            return reply_with(None, message)

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server, client, num_supernodes=clients, backend_config=resources)  # type: ignore[arg-type]
    (outcome,) = found
    if isinstance(outcome, Exception):
        raise outcome
    return outcome
