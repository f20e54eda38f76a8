"""An agreement says "no noise", and a client that keeps a ledger sends exact sums without charging it."""

from pathlib import Path
from typing import Any

import pytest

from tensorveil.cli.main import run
from tensorveil.errors import InputError
from tensorveil.federated.client import Client
from tensorveil.federated.trust import Trust
from tensorveil.privacy import Budget, Ledger
from tests.unit.federated.federated_cases import agreed, ratings


def make_client(tmp_path: Path, **options: Any) -> Any:
    agreement, _, homes = agreed(tmp_path, Trust(kind="local", clients=3, noise=False))
    return Client(agreement=agreement, home=homes[0], data=ratings, **options)


def test_a_client_does_not_obey(tmp_path: Path) -> None:
    ledger = tmp_path / "own.ledger"
    Ledger.create(ledger, budget=Budget(epsilon=5, delta=1e-5), unit="slice:user", name="own")
    for options in ({}, {"ledger": ledger}):
        with pytest.raises(InputError, match="adds no noise"):
            make_client(tmp_path, **options)
    with pytest.raises(InputError, match="ledger"):
        make_client(tmp_path, ledger=ledger, not_private=True)
    make_client(tmp_path, not_private=True)  # whoever has nothing to protect may say so


def test_the_command_does_not_obey(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agreement, _, homes = agreed(tmp_path, Trust(kind="secure", clients=3, noise=False))
    agreement.save(tmp_path / "agreement.json")
    ratings().with_modes(("user", "film", "day")).write(tmp_path / "mine.npz")
    words = ["--home", str(homes[0]), "--server", "127.0.0.1:1"]
    assert run(["federate", "client", str(tmp_path / "agreement.json"), str(tmp_path / "mine.npz"), *words]) == 2
    assert "--noise-off" in capsys.readouterr().err
