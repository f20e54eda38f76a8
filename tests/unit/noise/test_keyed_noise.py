"""Noise by cell: the same answers for any cut, as often as asked; another key for every purchase."""

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorveil.noise import SecureSource, SeededSource
from tensorveil.noise.adding import PlusNoise, answer_all
from tensorveil.noise.keyed import CELLS, answer_by_cell
from tensorveil.noise.windows import InWindow

LAWS: list[Any] = [
    InWindow.choose((0.0, 1.0), epsilon=2.0),
    InWindow.choose((0.0, 1.0), epsilon=2.0, flags=True),
    PlusNoise.choose((0.0, 1.0), epsilon=0.7),
    PlusNoise.choose((0.0, 1.0), mu=0.7),
]


def draw(law: Any, places: Any, key: Any, first: int, last: int) -> Any:
    return answer_by_cell(law.answer, places[first:last], key, law.words, first, len(places))


@pytest.mark.parametrize("law", LAWS)
@settings(max_examples=10)
@given(cuts=st.lists(st.integers(0, 150_001), max_size=6), seed=st.integers(0, 10))
def test_any_cut_gives_the_same_answers(law: Any, cuts: list[int], seed: int) -> None:
    places = law.place(np.random.default_rng(0).random(150_001))
    key = SeededSource(seed).make_key(law.count_words(len(places)))
    ends = sorted({0, *cuts, len(places)})
    parts = [draw(law, places, key, *pair) for pair in itertools.pairwise(ends)]
    assert np.array_equal(np.concatenate(parts), draw(law, places, key, 0, len(places)))


@pytest.mark.parametrize("law", LAWS)
def test_the_answer_of_a_cell_does_not_depend_on_other_values(law: Any) -> None:
    rng = np.random.default_rng(0)
    values = rng.random(5000)
    key = SeededSource(1).make_key(law.count_words(len(values)))
    whole = draw(law, law.place(values), key, 0, len(values))
    values[rng.permutation(5000)[:2500]] = 1.0
    kept = np.flatnonzero(values != 1.0)
    assert np.array_equal(draw(law, law.place(values), key, 0, len(values))[kept], whole[kept])


@pytest.mark.parametrize("law", LAWS)
def test_a_seed_means_what_it_means_without_a_key(law: Any) -> None:
    """Also after the draw; but for draws that need more bits, which are one in a million."""
    places, plain, keyed = law.place(np.linspace(0, 1, 70_001)), SeededSource(2), SeededSource(2)
    for source in (plain, keyed):
        source.uniform64(3)
    assert np.array_equal(law.answer(places, plain), answer_all(law, np.linspace(0, 1, 70_001), keyed))
    assert np.array_equal(plain.uniform64(2), keyed.uniform64(2))


@pytest.mark.parametrize("law", LAWS[2:])
def test_draws_that_need_more_bits_take_them_from_aside(law: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not shift those of other cells."""
    from tensorveil.kernels import noise_draws

    places = law.place(np.linspace(0, 1, CELLS + 100))
    key = SeededSource(3).make_key(law.count_words(len(places)))
    before = draw(law, places, key, 0, len(places))

    def doubt(name: str) -> Any:
        kernel = getattr(noise_draws, name)

        def doubtful(words: Any, wide: Any, *rest: Any) -> int:
            kernel(words, wide, *rest)
            rest[-1][:3] = [0, 5, 9]
            return 3

        return doubtful

    for name in ("laplace", "rounded_gaussian"):
        monkeypatch.setattr(noise_draws, name, doubt(name))
    after = draw(law, places, key, 0, len(places))
    assert np.array_equal(before, after)  # a word that was settled at once is settled alike
    assert np.array_equal(after[7:], draw(law, places, key, 7, len(places)))


def test_every_purchase_has_a_key_of_its_own_that_shows_nothing() -> None:
    keys = [source.make_key(10) for source in (SecureSource(), SecureSource(), SeededSource(1), SeededSource(2))]
    assert len({key.key for key in keys} | {key.aside for key in keys}) == 8
    source = SeededSource(1)
    assert len({(key.key, key.start) for key in (source.make_key(10), source.make_key(10))}) == 2
    for key in keys:
        assert repr(key) == f"{key}" == "<key of noise>"
        assert key.secure == (key in keys[:2])
        with pytest.raises(TypeError, match="cannot be copied"):
            pickle.dumps(key.open(0, 1))


def test_blocks_and_what_is_aside_do_not_share_bits() -> None:
    key = SeededSource(5).make_key(4 * CELLS)
    found = [np.concatenate([key.open(block, 1).uniform64(CELLS)]) for block in range(3)]
    for block in range(3):
        source = key.open(block, 1)
        source.uniform64(CELLS)
        found.append(source.uniform64(1000))
    every = np.concatenate(found)
    assert len(np.unique(every)) == len(every)
