"""A run that dies goes on: nothing is charged or drawn twice, and the bytes are those of a run that did not."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import tensorveil as tv
from tensorveil.errors import InputError
from tensorveil.noise import SecureSource
from tensorveil.rounds import runner
from tensorveil.rounds.checkpoint import open_checkpoint
from tensorveil.rounds.contract import State
from tests.unit.engines.store_cases import digest, estimator, make_store, new_ledger, ratings, recipe


class DiedError(Exception):
    """Stands for the end of a process."""


@pytest.fixture
def stored(tmp_path: Path) -> Any:
    return make_store(tmp_path, ratings())


@pytest.mark.parametrize("when", [1, 3, 5])
@pytest.mark.parametrize("where", ["keep", "advance"])
def test_a_driver_that_dies_goes_on_with_the_same_bytes(
    tmp_path: Path, stored: Any, monkeypatch: pytest.MonkeyPatch, when: int, where: str
) -> None:
    """Whether it dies before a state is on disk, or after."""
    from tensorveil.rounds import Recipe
    from tensorveil.rounds.checkpoint import Checkpoint

    whole = digest(estimator().fit(stored), tmp_path)
    home: Any = Checkpoint if where == "keep" else Recipe
    usual = getattr(home, where)

    def die(self: Any, state: State, *rest: Any) -> Any:
        done = usual(self, state, *rest)
        if state.round == when:
            raise DiedError
        return done

    with monkeypatch.context() as patch:
        patch.setattr(home, where, die)
        with pytest.raises(DiedError):
            estimator().fit(stored, checkpoint=tmp_path / "c")
    assert digest(estimator().fit(stored, checkpoint=tmp_path / "c"), tmp_path) == whole
    # Once more: nothing is left to do.
    assert digest(estimator().fit(stored, checkpoint=tmp_path / "c"), tmp_path) == whole


def test_one_charge_and_one_draw_per_round(tmp_path: Path, stored: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = new_ledger(tmp_path)
    drawn: list[str] = []
    usual = runner.draw_noise

    def draw(this: Any, source: Any) -> Any:
        drawn.append(this.name)
        if len(drawn) == 4:
            raise DiedError
        return usual(this, source)

    monkeypatch.setattr(runner, "draw_noise", draw)
    promise = {"noise_seed": None, "ledger": ledger, "random_state": None}
    with pytest.raises(DiedError):
        estimator(**promise).fit(stored, checkpoint=tmp_path / "c")
    first = ledger.entries()
    fitted = estimator(**promise).fit(stored, checkpoint=tmp_path / "c")
    assert [each.release_id for each in ledger.entries()] == [fitted.release_id_] == [each.release_id for each in first]
    assert fitted.guarantee_.private
    names = [this.name for this in recipe(sweeps=7, rank=2).rounds]
    # The fourth was begun twice, and its first draw never left the process that died.
    assert drawn == [*names[:4], *names[3:]]


def test_a_run_that_was_not_charged_yet_is_charged(
    tmp_path: Path, stored: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = new_ledger(tmp_path)

    def die(*_: Any, **__: Any) -> None:
        raise DiedError

    with monkeypatch.context() as patch:
        patch.setattr(tv.Ledger, "charge", die)
        with pytest.raises(DiedError):
            estimator(noise_seed=None, ledger=ledger).fit(stored, checkpoint=tmp_path / "c")
    assert not ledger.entries()
    estimator(noise_seed=None, ledger=ledger).fit(stored, checkpoint=tmp_path / "c")
    assert len(ledger.entries()) == 1


def test_another_promise_or_other_data_cannot_use_a_charge(tmp_path: Path, stored: Any) -> None:
    estimator(epsilon=1.0).fit(stored, checkpoint=tmp_path / "c")
    for changes in ({}, {"epsilon": 1.0, "bounds": (1, 4)}, {"epsilon": 1.0, "noise_seed": None}):
        with pytest.raises(InputError, match="other data, or another promise"):
            estimator(**changes).fit(stored, checkpoint=tmp_path / "c")
    other = make_store(tmp_path, ratings(seed=5), name="other")
    with pytest.raises(InputError, match="other data, or another promise"):
        estimator(epsilon=1.0).fit(other, checkpoint=tmp_path / "c")


def test_a_release_that_was_charged_for_less_is_refused(tmp_path: Path, stored: Any) -> None:
    """As where somebody edits the recipe of a checkpoint, which was charged for a smaller budget."""
    ledger = new_ledger(tmp_path)
    promise = {"noise_seed": None, "ledger": ledger}
    fitted = estimator(epsilon=1.0, **promise).fit(stored, checkpoint=tmp_path / "c")
    text = (tmp_path / "c" / "run.json").read_text()
    (tmp_path / "c" / "run.json").write_text(text.replace('"epsilon": 1.0', '"epsilon": 3.0'))
    with pytest.raises(InputError, match="charged for something else"):
        estimator(**promise).fit(stored, checkpoint=tmp_path / "c")
    assert [each.release_id for each in ledger.entries()] == [fitted.release_id_]


def test_a_copy_is_not_gone_on_with(tmp_path: Path, stored: Any) -> None:
    """Two runs from one state would draw twice for one charge."""
    estimator().fit(stored, checkpoint=tmp_path / "c")
    shutil.copytree(tmp_path / "c", tmp_path / "copy")
    with pytest.raises(InputError, match="is a copy"):
        estimator().fit(stored, checkpoint=tmp_path / "copy")


def test_two_drivers_cannot_run_at_once_nor_keep_two_states_of_a_round(tmp_path: Path) -> None:
    made = recipe()
    facts: dict[str, Any] = {"data": "d", "secure": True}
    with open_checkpoint(tmp_path / "c", made, **facts) as one:
        with pytest.raises(InputError, match="another run"), open_checkpoint(tmp_path / "c", made, **facts):
            pass
        state = made.advance(made.start(), runner.draw_noise(made.rounds[0], SecureSource()))
        one.keep(state)
        with pytest.raises(InputError, match="another run has finished this round"):
            one.keep(made.advance(made.start(), runner.draw_noise(made.rounds[0], SecureSource())))
        kept = one.last()
        assert kept is not None
        assert kept.to_bytes() == state.to_bytes()
    assert not list((tmp_path / "c").glob("*.tmp"))


def test_damaged_checkpoints_are_refused(tmp_path: Path, stored: Any) -> None:
    estimator().fit(stored, checkpoint=tmp_path / "c")
    last = sorted((tmp_path / "c").glob("*.state"))[-1]
    content = last.read_bytes()
    for damage in (content[:-1], b"", content.replace(b"tensorveil", b"tensorvei!", 1)):
        last.write_bytes(damage)
        with pytest.raises(InputError, match="damaged"):
            estimator().fit(stored, checkpoint=tmp_path / "c")
    # A state of another round, however sound, is not this one's.
    last.write_bytes(sorted((tmp_path / "c").glob("*.state"))[0].read_bytes())
    with pytest.raises(InputError, match="damaged"):
        estimator().fit(stored, checkpoint=tmp_path / "c")
    (tmp_path / "c" / "run.json").write_text("{}")
    with pytest.raises(InputError, match="damaged"):
        estimator().fit(stored, checkpoint=tmp_path / "c")


def test_other_folders_are_refused(tmp_path: Path, stored: Any) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("")
    for place, why in (("full", "holds something else"), ("no/where", "does not exist"), ("store.parquet", "a folder")):
        with pytest.raises(InputError, match=why):
            estimator().fit(stored, checkpoint=tmp_path / place)
