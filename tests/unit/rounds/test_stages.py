"""Stages: each reads and writes the keys that it declares, no others, and together they are all that a state holds."""

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorveil.noise import SeededSource
from tensorveil.rounds import Recipe, Stage, State, draw_noise
from tensorveil.rounds.contract import BASIS, KEYS, OFFSET, basis_key, family
from tensorveil.rounds.plan import STAGES
from tensorveil.tensor import ObservedTensor

MODES = ("user", "film", "day")


class WatchedState:
    """Stands in for a state, and notes which keys are looked at."""

    def __init__(self, state: State, seen: set[str]) -> None:
        self._state, self._seen = state, seen

    @property
    def round(self) -> Any:
        return self._state.round

    def __getitem__(self, key: Any) -> Any:
        self._seen.add(family(key))
        return self._state[key]

    def __contains__(self, key: Any) -> Any:
        self._seen.add(family(key))
        return key in self._state


class WatchedStage:
    """Does what a stage does, and notes what it reads and writes."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.statistic = stage, stage.statistic
        self.read: set[str] = set()
        self.written: set[str] = set()

    def size(self, setup: Any, step: Any) -> Any:
        return self.stage.size(setup, step)

    def prepare(self, setup: Any, state: Any) -> Any:
        return self._note(self.stage.prepare(setup, self._watch(state)))

    def contribute(self, setup: Any, step: Any, state: Any, people: Any, threads: Any) -> Any:
        return self.stage.contribute(setup, step, self._watch(state), people, threads)

    def advance(self, setup: Any, step: Any, state: Any, total: Any, mu: Any) -> Any:
        return self._note(self.stage.advance(setup, step, self._watch(state), total, mu))

    def _watch(self, state: Any) -> Any:
        return WatchedState(state, self.read)

    def _note(self, updates: Any) -> Any:
        self.written |= {family(key) for key in updates}
        return updates


def recipe(order: int, **changes: Any) -> Any:
    shape = (30, 12, 5)[:order]
    public = {"shape": shape, "modes": MODES[:order], "protect": "user", "bounds": (1, 5), "epsilon": 5.0}
    return Recipe(**{**public, "delta": 1e-5, "rank": 2, "sweeps": 3, **changes})


def ratings(shape: tuple[int, ...], seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    cells = np.argwhere(rng.random(shape) < 0.4)
    values = rng.integers(1, 6, len(cells)).astype(float)
    return ObservedTensor(cells, values, shape=shape, modes=MODES[: len(shape)])


def run(made: Any) -> Any:
    tensor, source, state = ratings(made.shape), SeededSource(1), made.start()
    for this in made.rounds:
        state = made.advance(state, made.contribute(state, tensor, threads=1) + draw_noise(this, source))
    return state


@pytest.fixture(scope="module")
def watched() -> Any:
    """All stages, after whole fits of matrices and tensors, CP and Tucker, with and without latent features."""
    original = dict(STAGES)
    notes: dict[str, Any] = {kind: WatchedStage(stage) for kind, stage in STAGES.items()}
    STAGES.update(notes)
    try:
        for made in (recipe(2), recipe(3), recipe(2, sweeps=0), recipe(3, kind="tucker", rank=(2, 2, 2))):
            run(made)
    finally:
        STAGES.update(original)
    return notes


@pytest.mark.parametrize("kind", STAGES)
def test_a_stage_reads_what_it_declares(watched: Any, kind: Any) -> None:
    assert watched[kind].read == STAGES[kind].reads


@pytest.mark.parametrize("kind", STAGES)
def test_a_stage_writes_what_it_declares(watched: Any, kind: Any) -> None:
    assert watched[kind].written == STAGES[kind].writes


def test_every_key_has_a_writer_and_a_reader() -> None:
    """A key that nobody writes or nobody reads has no place in the state."""
    uses = defaultdict(set)
    for stage in STAGES.values():
        for way in ("reads", "writes"):
            for key in getattr(stage, way):
                uses[key].add(way)
    assert {key: ways for key, ways in uses.items() if ways != {"reads", "writes"}} == {}
    assert set(uses) == KEYS


def test_what_is_read_was_written_before() -> None:
    """In every round, for what is not there from the start."""
    for made in (recipe(2), recipe(3), recipe(3, sweeps=0)):
        state = run(made)
        assert {family(key) for key in state.arrays} <= KEYS
        known = {family(key) for key in made.start().arrays}
        for step in made.steps:
            stage = STAGES[step.kind]
            optional = {"traits", BASIS}  # asked for before they are read
            assert stage.reads <= known | optional, step.name
            known |= stage.writes


def test_rounds_have_the_size_that_their_stage_says() -> None:
    made = recipe(3)
    for this, step in zip(made.rounds, made.steps, strict=True):
        assert this.size == STAGES[step.kind].size(made.setup, step)
        assert this.statistic == STAGES[step.kind].statistic


def test_unknown_keys_are_refused_when_a_stage_is_defined() -> None:
    with pytest.raises(TypeError, match=r"no state has: mood.*contract\.py"):
        type("Mood", (Stage,), {"reads": frozenset({OFFSET, "mood"}), "writes": frozenset()})


def test_a_family_of_keys_is_declared_by_its_name() -> None:
    assert family(basis_key(2)) == BASIS
    assert family("bias_sums") == "bias_sums"


def test_the_page_on_rounds_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).parents[3] / "docs" / "explanation" / "rounds.md"
    (block,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(block, "rounds.md", "exec"), {})
    assert capsys.readouterr().out.startswith("SharedModel(60x20")


def test_the_page_on_rounds_lists_all_stages() -> None:
    page = Path(__file__).parents[3] / "docs" / "explanation" / "rounds.md"
    text = page.read_text(encoding="utf-8")
    assert [kind for kind in STAGES if f"| {kind} | `rounds/" not in text] == []
