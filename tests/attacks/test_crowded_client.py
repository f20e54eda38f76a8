"""One user too many: the server leaves out a whole client because its exact sums are larger than was declared."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorveil.federated.server import run_server
from tensorveil.federated.transport import InProcess
from tensorveil.federated.trust import Trust
from tensorveil.tensor import ObservedTensor
from tests.unit.federated.federated_cases import agreed, clients_of

DECLARED = 10
SHAPE = (DECLARED, 6, 4)


def crowd(users: int) -> Any:
    """Users who all put everything into the same film and day, so that their sums are as large as they can be."""
    columns = np.zeros((3, 100 * users), dtype=np.int64)
    columns[0] = np.repeat(np.arange(users), 100)
    return ObservedTensor.from_columns(
        columns, np.full(100 * users, 5.0), shape=(users, *SHAPE[1:]), modes=["user", "film", "day"], duplicates="keep"
    )


@pytest.mark.parametrize("users", [DECLARED, DECLARED + 2, 3 * DECLARED], ids=str)
@pytest.mark.parametrize("kind", ["aggregator", "local"])
def test_no_client_is_left_out_for_what_it_holds(tmp_path: Path, kind: str, users: int) -> None:
    agreement, key, homes = agreed(tmp_path, Trust(kind=kind, clients=2, noise=False), shape=SHAPE)
    parties = clients_of(agreement, homes, [crowd(users), crowd(1)], not_private=True)
    answers = [party.answer for party in parties]
    outcome = run_server(agreement, key, InProcess(answers=answers), not_private=True)
    assert not outcome.incidents
    assert not outcome.missing


def test_the_last_user_moves_the_sum_no_further_than_any_other(tmp_path: Path) -> None:
    agreement, _, homes = agreed(tmp_path, Trust(kind="aggregator", clients=1), shape=SHAPE)
    (this, *_) = agreement.recipe.rounds
    sums = [
        clients_of(agreement, homes, [crowd(users)])[0].contribution(agreement.recipe.start())
        for users in range(DECLARED - 1, DECLARED + 5)
    ]
    moves = [float(np.linalg.norm(after - before)) for before, after in pairwise(sums)]
    assert max(moves) <= this.limit
    assert max(np.abs(each).max() for each in sums) <= this.largest * DECLARED
