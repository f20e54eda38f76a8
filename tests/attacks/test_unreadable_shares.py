"""A client of a secure run sends shares that nobody can open: the budget was charged, and no sum could be unmasked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.federated import wire
from tensorveil.federated.errors import AbandonedError
from tensorveil.federated.identity import load_identity
from tensorveil.federated.server import run_server
from tensorveil.federated.transport import InProcess
from tests.unit.federated.federated_cases import in_process


def spoil(client: Any, change: Any, kind: str) -> Any:
    def answer(content: bytes) -> bytes:
        reply = client.answer(content)
        message = wire.decode(reply, len(reply))
        if message.kind != kind:
            return bytes(reply)
        (name,) = message.arrays
        facts = {**vars(message), "arrays": {name: change(message.arrays[name].copy())}}
        return bytes(wire.encode(wire.Message(**facts), load_identity(client.home)))

    return answer


def zeros(array: Any) -> Any:
    return np.zeros_like(array)


def one_bit(array: Any) -> Any:
    array[5] ^= 1  # in the share for client 0
    return array


def accuse(array: Any) -> Any:
    array[0] = 1
    return array


@pytest.mark.parametrize(("change", "kind"), [(zeros, "share"), (one_bit, "share"), (accuse, "inbox")])
def test_nothing_is_charged_and_nobody_is_shut_out(tmp_path: Path, change: Any, kind: str) -> None:
    agreement, server, clients, _, _ = in_process(tmp_path, "secure", drop_outs=1)
    ledger = tv.Ledger.create(
        tmp_path / "ledger", budget=tv.Budget(epsilon=9.0, delta=1e-3), unit="slice:user", name="ratings"
    )
    answers = [client.answer for client in clients]
    answers[1] = spoil(clients[1], change, kind)
    with pytest.raises(AbandonedError, match="Nothing was charged") as caught:
        run_server(agreement, server, InProcess(answers=answers), ledger=ledger.path)
    assert ledger.entries() == ()
    assert not getattr(caught.value, "__notes__", [])
