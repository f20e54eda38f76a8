"""Clients draw their noise from a seed, which whoever knows it takes off again, and the run is called private."""

from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import tensorveil as tv
from tensorveil.errors import InputError
from tensorveil.federated.client import Client
from tensorveil.federated.errors import AbandonedError
from tensorveil.federated.server import Settings, run_server
from tensorveil.federated.transport import InProcess
from tensorveil.federated.trust import Trust
from tensorveil.noise import SeededSource
from tests.unit.federated.federated_cases import agreed, ratings, split_users

HASTE = Settings(patience=0.0, timeout=1.0)


def make_clients(agreement: Any, homes: Any, *, seeded: Any, **options: Any) -> Any:
    groups = split_users(ratings(), len(homes))
    return [
        Client(
            agreement=agreement,
            home=home,
            data=partial(copy, group),
            **({"source": SeededSource(k), **options} if k in seeded else {}),
        )
        for k, (home, group) in enumerate(zip(homes, groups, strict=True))
    ]


@pytest.mark.parametrize("kind", ["secure", "local", "aggregator"])
def test_a_seed_needs_more_than_to_be_given(tmp_path: Path, kind: str) -> None:
    agreement, _, homes = agreed(tmp_path, Trust(kind=kind, clients=3))
    with pytest.raises(InputError, match="source must be secure"):
        make_clients(agreement, homes, seeded={0, 1, 2})


@pytest.mark.parametrize("kind", ["secure", "local"])
def test_a_run_of_seeded_clients_says_so_and_is_not_released(tmp_path: Path, kind: str) -> None:
    agreement, key, homes = agreed(tmp_path, Trust(kind=kind, clients=3))
    clients = make_clients(agreement, homes, seeded={0, 1, 2}, not_private=True)
    transport = InProcess(answers=[client.answer for client in clients])
    with pytest.raises(AbandonedError, match="0 of 3"):  # a server that promises privacy does not run with them
        run_server(agreement, key, transport, settings=HASTE)
    outcome = run_server(agreement, key, transport, settings=HASTE, not_private=True)
    assert outcome.guarantee_.sentence().startswith("NOT PRIVATE")
    with pytest.raises(InputError):
        tv.write_release(outcome, tmp_path / "release")
    assert not (tmp_path / "release").exists()


@pytest.mark.parametrize("not_private", [False, True])
def test_one_seeded_client_does_not_slip_in(tmp_path: Path, not_private: bool) -> None:
    """Its part of the noise would be counted on by the others."""
    agreement, key, homes = agreed(tmp_path, Trust(kind="secure", clients=3))
    clients = make_clients(agreement, homes, seeded={1}, not_private=True)
    transport = InProcess(answers=[client.answer for client in clients])
    with pytest.raises(AbandonedError, match="of 3 clients came"):
        run_server(agreement, key, transport, settings=HASTE, not_private=not_private)


def test_no_ledger_is_charged_for_seeded_noise(tmp_path: Path) -> None:
    agreement, _, homes = agreed(tmp_path, Trust(kind="local", clients=3))
    with pytest.raises(InputError, match="ledger"):
        make_clients(agreement, homes, seeded={0}, not_private=True, ledger=tmp_path / "own.ledger")
