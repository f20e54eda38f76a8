"""What only the owner of the data may see could be read by everybody who had an account on the machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tensorveil.cli.main import run
from tests.flows.private_cases import write_table


@pytest.fixture(autouse=True)
def generous_mask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> str:
    return oct(path.stat().st_mode & 0o777)


def test_diagnostics_are_for_their_owner_alone(tmp_path: Path) -> None:
    path = write_table(tmp_path / "ratings.csv")
    promise = ["--epsilon", "5", "--unit", "value", "--bounds", "1", "5", "--value", "rating", "--rank", "1"]
    places = ["-o", str(tmp_path / "release"), "--diagnostics", str(tmp_path / "mine")]
    assert run(["complete", str(path), *promise, *places]) == 0
    assert mode(tmp_path / "mine") == "0o700"
    assert {mode(found) for found in (tmp_path / "mine").iterdir()} == {"0o600"}
    assert mode(tmp_path / "release") == "0o755"
    assert {mode(found) for found in (tmp_path / "release").iterdir()} == {"0o644"}


def test_what_is_replaced_keeps_its_permissions(tmp_path: Path) -> None:
    path, result = write_table(tmp_path / "ratings.csv"), tmp_path / "result"
    fit = ["complete", str(path), "--solver", "als", "--rank", "1", "-o", str(result)]
    assert run(fit) == 0
    result.chmod(0o700)
    (result / "model.npz").chmod(0o600)
    assert run([*fit, "--force"]) == 0
    assert (mode(result), mode(result / "model.npz")) == ("0o700", "0o600")
    asked, answers = tmp_path / "asked.csv", tmp_path / "answers.csv"
    asked.write_text("".join(path.read_text().splitlines(keepends=True)[:3]))
    ask = ["predict", str(result / "model.npz"), "--at", str(asked), "-o", str(answers)]
    assert run(ask) == 0
    answers.chmod(0o600)
    assert run([*ask, "--force"]) == 0
    assert mode(answers) == "0o600"
