"""One party of a federated learning run, as a process: `server FOLDER ADDRESS` or `client FOLDER ADDRESS NUMBER`.

The folder holds agreement.json, a home folder per party, and data-NUMBER.npz for every client.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tensorveil.federated.agreement import Agreement
from tensorveil.federated.client import Client
from tensorveil.federated.flower.client_app import work
from tensorveil.federated.flower.processes import Channel
from tensorveil.federated.flower.server_app import serve
from tensorveil.federated.identity import load_identity
from tensorveil.learning import Samples


def server(folder: Path, address: Any) -> None:
    agreement = Agreement.load(folder / "agreement.json")
    outcome = serve(
        Channel(address=address), folder / "server", agreement=agreement, key=load_identity(folder / "server")
    )
    (folder / "state.bin").write_bytes(outcome.state.to_bytes())
    (folder / "guarantee.txt").write_text(outcome.guarantee_.sentence())


def client(folder: Path, address: Any, number: Any) -> None:
    agreement = Agreement.load(folder / "agreement.json")
    home = folder / f"client-{number}"

    def data() -> Any:
        found = np.load(folder / f"data-{number}.npz")
        return Samples(x=found["x"], y=found["y"], classes=10)

    client = Client(agreement=agreement, home=home, data=data, not_private=not agreement.trust.noise)
    work(client, Channel(address=address), home)


if __name__ == "__main__":
    role, where, at, *more = sys.argv[1:]
    parties: dict[str, Callable[..., None]] = {"server": server, "client": client}
    parties[role](Path(where), at, *more)
