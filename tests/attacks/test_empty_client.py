"""The only user of a client leaves, and the client can no longer take part: the run tells that somebody left."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorveil.federated.server import run_server
from tensorveil.federated.transport import InProcess
from tensorveil.federated.trust import Trust
from tensorveil.rounds import Recipe
from tensorveil.rounds.grouping import group_entries
from tests.unit.federated.federated_cases import agreed, clients_of, ratings, split_users


def nobody(recipe: Any) -> Any:
    columns = np.empty((len(recipe.shape), 0), dtype=np.int32)
    return group_entries(columns, np.empty(0), recipe.shape, recipe.protected, recipe.bounds)


@pytest.mark.parametrize("kind", ["cp", "tucker"])
@pytest.mark.parametrize("threads", [1, 3])
def test_nobody_contributes_zeros_in_every_round(kind: str, threads: int) -> None:
    public: dict[str, Any] = {"shape": (9, 6, 4), "modes": ("user", "film", "day"), "protect": "user", "kind": kind}
    recipe = Recipe(**public, bounds=(1, 5), epsilon=5.0, delta=1e-5, rank=2 if kind == "cp" else (2, 2, 2), sweeps=2)
    state = recipe.start()
    for this in recipe.rounds:
        total = recipe.contribute(state, nobody(recipe), threads=threads)
        assert total.shape == (this.size,)
        assert not total.any()
        state = recipe.advance(state, total)
    recipe.finish(state)


@pytest.mark.parametrize("kind", ["aggregator", "secure"])
def test_a_run_goes_on_without_incident(tmp_path: Path, kind: str) -> None:
    agreement, key, homes = agreed(tmp_path, Trust(kind=kind, clients=3))
    groups = [nobody(agreement.recipe), *split_users(ratings(), 2)]
    clients = clients_of(agreement, homes, groups)
    outcome = run_server(agreement, key, InProcess(answers=[client.answer for client in clients]))
    assert not outcome.incidents
    assert not outcome.missing
    assert outcome.guarantee_.private
