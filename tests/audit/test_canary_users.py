"""A one-run audit of user-level fits: canary users who are there or not, and the whole noisy transcript to guess from.

Every canary has a film of its own, which it rates at the highest value on every day, and rates a film that all share at
the lowest: the worst that a user can do, whose entries all add up in one row. The auditor knows everything but coins
and noise, and scores a canary by its likelihood ratio.
"""

import functools

import numpy as np
import pytest

from tensorveil.audit import Claim
from tensorveil.audit.one_run import Canaries, audit_one_run
from tensorveil.kernels import users as compiled
from tensorveil.noise import SeededSource
from tensorveil.tensor import ObservedTensor
from tensorveil.users import Recipe, noise_for
from users_reference import add_bounded

COUNT, DAYS, EPSILON, DELTA = 400, 160, 2.0, 1e-5
SHAPE, MODES = (COUNT + 50, COUNT + 10, DAYS), ("user", "film", "day")


def recipe():
    facts = {"shape": SHAPE, "modes": MODES, "protect": "user", "bounds": (1, 5), "epsilon": EPSILON, "delta": DELTA}
    return Recipe(**facts, rank=2, sweeps=0, contributions=1.0)


def canary(i):
    films = np.repeat([i, COUNT], DAYS)
    cells = np.column_stack([np.full(2 * DAYS, i), films, np.tile(np.arange(DAYS), 2)])
    return cells, np.repeat([5.0, 1.0], DAYS)


def tensor(parts):
    cells, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    return ObservedTensor(cells, values, shape=SHAPE, modes=MODES)


def others(rng):
    """Fifty ordinary users, who rate the last ten films."""
    seen = np.argwhere(rng.random((50, 10, DAYS)) < 0.1)
    return seen + np.array([COUNT, COUNT, 0]), rng.integers(1, 6, len(seen)).astype(float)


def run(coins, rng):
    """Train once on those canaries whose coin is 1; score every canary by the rows of its own film."""
    made, source = recipe(), SeededSource(int(rng.integers(2**60)))
    data = made.people(tensor([others(rng), *(canary(i) for i in np.flatnonzero(coins))]))
    alone = [made.people(tensor([canary(i)])) for i in range(COUNT)]
    state, scores = made.start(), np.zeros(COUNT)
    for step, this in zip(made.steps, made.rounds, strict=True):
        total = made.contribute(state, data, threads=1) + noise_for(this, source)
        if step.kind in ("counts", "biases"):
            for i in range(COUNT):  # its own film; whatever else a canary moves, others move as well
                mine = float(made.contribute(state, alone[i], threads=1)[i])
                scores[i] += (mine * total[i] - 0.5 * mine**2) * (this.mu / this.limit) ** 2
        state = made.advance(state, total)
    return scores


def verdict(seed=0):
    return audit_one_run(
        run, Canaries(count=COUNT, guesses=160), Claim(epsilon=EPSILON, delta=DELTA), confidence=0.999, seed=seed
    )


def test_no_violation_is_found():
    found = verdict()
    assert not found.violated
    assert found.detectable < 4.0  # the audit could have seen a mechanism that leaks twice as much


@pytest.mark.parametrize("broken", ["no clip", "linear sums ignored"])
def test_mutants_are_caught(broken, monkeypatch):
    monkeypatch.setattr(compiled, "add_bounded", functools.partial(add_bounded, broken=broken))
    monkeypatch.setattr(compiled, "slice_norms", _entry_norms if broken == "linear sums ignored" else _no_norms)
    assert verdict().violated


def _entry_norms(pointers, columns, offsets, scales, scratch, out):
    """Weigh users by the number of their entries, as if no two fell into one row."""
    out[:] = np.sqrt(np.diff(pointers) * np.sum(scales**2))


def _no_norms(pointers, columns, offsets, scales, scratch, out):
    out[:] = 0.0
